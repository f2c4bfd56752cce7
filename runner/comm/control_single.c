/* control_single - the control table of a single rank: its own messages come
 * straight back, nothing is ever waited for. */
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"
#include "runner/comm/tables.h"

struct item {
    struct item *next;
    char key[CONTROL_KEY_BYTES];
    size_t bytes;
    unsigned char data[];
};
struct single {
    struct item *items;
};

static struct item *find(struct single *s, const char *key)
{
    struct item *item = s->items;
    while (item && strcmp(item->key, key))
        item = item->next;
    return item;
}

static int single_put(void *self, const char *key, const void *data,
                      size_t bytes, struct err *err)
{
    struct single *s = self;
    if (find(s, key))
        return err_set(err, "comm: key '%s' was already put", key);
    struct item *item = malloc(sizeof *item + bytes);
    if (!item)
        return err_set(err, "comm: out of memory for key '%s'", key);
    str_copy(item->key, sizeof item->key, key); /* comm_put saw it fits */
    item->bytes = bytes;
    memcpy(item->data, data, bytes);
    item->next = s->items;
    s->items = item;
    return 0;
}

static int single_get(void *self, int rank, const char *key, void *data,
                      size_t bytes, double limit_s, struct err *err)
{
    struct item *item = find(self, key);
    if (!item)
        return err_set(err, "comm: key '%s' was never put, and no other rank "
                            "could", key);
    if (item->bytes != bytes)
        return err_set(err, "comm: key '%s' has %zu bytes, not %zu", key,
                       item->bytes, bytes);
    memcpy(data, item->data, bytes);
    return 0;
}

static int single_gather(void *self, const void *mine, size_t bytes, void *all,
                         double limit_s, struct err *err)
{
    memmove(all, mine, bytes);
    return 0;
}

static int single_lost(void *self)
{
    return -1;
}

static void single_close(void *self, bool orderly)
{
    struct single *s = self;
    while (s->items) {
        struct item *next = s->items->next;
        free(s->items);
        s->items = next;
    }
    s->items = NULL;
}

static const struct control_ops single_ops = {
    .name = "single",
    .put = single_put,
    .get = single_get,
    .gather = single_gather,
    .lost = single_lost,
    .close = single_close,
};

void control_single_open(struct control *ret)
{
    static struct single one;
    *ret = (struct control){&single_ops, &one};
}
