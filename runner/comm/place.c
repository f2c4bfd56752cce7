/* place - who am I: PMIx, else RANK and friends, else a single rank.
 *
 * The one file of comm that reads the environment, next to the secret and the
 * master's address which travel the same way. */
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"
#include "runner/comm/place.h"
#include "runner/comm/tables.h"

#define PMIX_INIT_LIMIT_S 60.0

/* A whole number of the environment; fallback when unset. */
static int env_int(const char *name, int fallback, int min, int *ret,
                   struct err *err)
{
    const char *text = getenv(name);
    int64_t value = fallback;
    if (text && *text && (str_to_i64(text, &value) || value > 1 << 24))
        return err_set_class(err, ERR_REQUEST,
                             "comm: %s: '%s': not a number of ranks", name,
                             text);
    if (value < min)
        return err_set_class(err, ERR_REQUEST, "comm: %s: %lld is below %d",
                             name, (long long)value, min);
    *ret = (int)value;
    return 0;
}

static int find_by_env(struct comm_place *p, struct err *err)
{
    if (env_int(KB_ENV_RANK, 0, 0, &p->rank, err) ||
        env_int(KB_ENV_WORLD_SIZE, 1, 1, &p->size, err) ||
        env_int(KB_ENV_LOCAL_RANK, p->rank, 0, &p->local_rank, err) ||
        env_int(KB_ENV_LOCAL_WORLD_SIZE, p->size, 1, &p->local_size, err) ||
        env_int(KB_ENV_NODE_RANK, p->rank / p->local_size, 0, &p->node_rank,
                err))
        return -1;
    if (p->rank >= p->size)
        return err_set_class(err, ERR_REQUEST,
                             "comm: RANK %d is not below WORLD_SIZE %d",
                             p->rank, p->size);
    if (p->local_rank >= p->local_size)
        return err_set_class(err, ERR_REQUEST,
                             "comm: LOCAL_RANK %d is not below "
                             "LOCAL_WORLD_SIZE %d",
                             p->local_rank, p->local_size);
    str_copy(p->how, sizeof p->how, "env");
    return 0;
}

int comm_find_place(struct comm_place *ret, struct err *err)
{
    *ret = (struct comm_place){.size = 1, .local_size = 1, .how = "single"};
    if (pmix_present()) {
        if (pmix_find_place(ret, PMIX_INIT_LIMIT_S, err))
            return -1;
        str_copy(ret->how, sizeof ret->how, "pmix");
        return 0;
    }
    const char *size = getenv(KB_ENV_WORLD_SIZE);
    const char *rank = getenv(KB_ENV_RANK);
    if (size && *size && rank && *rank)
        return find_by_env(ret, err);
    return 0;
}

int place_master(const char **ret_host, const char **ret_port,
                 struct err *err)
{
    *ret_host = getenv(KB_ENV_MASTER_ADDR);
    *ret_port = getenv(KB_ENV_MASTER_PORT);
    if (!*ret_host || !**ret_host || !*ret_port || !**ret_port)
        return err_set_class(err, ERR_REQUEST,
                             "comm: several ranks without PMIx need %s and %s; "
                             "set them, or start with srun --mpi=pmix",
                             KB_ENV_MASTER_ADDR, KB_ENV_MASTER_PORT);
    int64_t port;
    if (str_to_i64(*ret_port, &port) || port < 1 || port > 65535)
        return err_set_class(err, ERR_REQUEST, "comm: %s: '%s': not a port",
                             KB_ENV_MASTER_PORT, *ret_port);
    return 0;
}

int place_secret(unsigned char secret[CONTROL_SECRET_BYTES], bool *ret_set,
                 struct err *err)
{
    const char *text = getenv(KB_ENV_SECRET);
    memset(secret, 0, CONTROL_SECRET_BYTES);
    *ret_set = text && *text;
    if (!*ret_set)
        return 0;
    for (int i = 0; i < CONTROL_SECRET_BYTES; i++) {
        char pair[3] = {text[2 * i], text[2 * i] ? text[2 * i + 1] : 0, 0};
        char *end;
        unsigned long byte = strtoul(pair, &end, 16);
        if (!pair[1] || *end || pair[0] == '-' || pair[0] == '+' ||
            pair[0] == ' ')
            return err_set_class(err, ERR_REQUEST,
                                 "comm: %s is not %d hexadecimal digits",
                                 KB_ENV_SECRET, 2 * CONTROL_SECRET_BYTES);
        secret[i] = (unsigned char)byte;
    }
    return 0;
}

bool place_env(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}
