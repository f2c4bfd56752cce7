/* apart - how far two checkpoints are from each other: the largest difference
 * of any element, over the largest element of its tensor (but no less than a
 * millionth of the largest of all: some gradients are zero but for rounding).
 * usage: apart RUN_DIR NAME RUN_DIR NAME PREFIX     (of the tensors' names) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/err.h"
#include "runner/base/str.h"
#include "runner/ckpt/fill.h"
#include "runner/ckpt/reader.h"

struct side {
    char dir[4200];
    struct manifest m;
};

static int side_open(struct side *side, const char *run_dir, const char *name,
                     struct err *err)
{
    return reader_dir(run_dir, name, side->dir, sizeof side->dir, err) ||
                   reader_manifest(side->dir, name, &side->m, err)
               ? -1
               : 0;
}

/* All elements of a tensor as doubles. */
static double *tensor_read(const struct side *side, const struct tensor *t,
                           int64_t *ret_n, struct err *err)
{
    int64_t n = fill_row_bytes(t) * t->shape[0], elem = t->dtype == DT_F64 ? 8
                                                                          : 4;
    double *x = malloc((size_t)(n / elem) * sizeof *x + 8);
    void *raw = malloc((size_t)n + 8);
    if (!x || !raw ||
        fill_rows(side->dir, &side->m, t, 0, t->shape[0], raw, err) != 0) {
        free(x);
        x = NULL;
    }
    *ret_n = n / elem;
    for (int64_t i = 0; x && i < *ret_n; i++)
        x[i] = elem == 8 ? ((double *)raw)[i] : (double)((float *)raw)[i];
    free(raw);
    return x;
}

struct apart { double most, difference; };

static int compare(const struct side *a, const struct side *b,
                   const struct tensor *t, struct apart *ret, struct err *err)
{
    const struct tensor *u = manifest_find(&b->m, t->name);
    int64_t n, other;
    if (!u || u->dtype != t->dtype ||
        memcmp(u->shape, t->shape, (size_t)t->dims * sizeof *t->shape))
        return err_set(err, "'%s' is another in the second", t->name);
    double *x = tensor_read(a, t, &n, err);
    double *y = x ? tensor_read(b, u, &other, err) : NULL;
    *ret = (struct apart){0};
    for (int64_t i = 0; y && i < n; i++) {
        ret->most = fmax(ret->most, fabs(x[i]));
        ret->difference = fmax(ret->difference, fabs(x[i] - y[i]));
        if (isnan(x[i]) || isnan(y[i]))
            ret->difference = INFINITY;
    }
    free(x);
    free(y);
    return y ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct side a = {0}, b = {0};
    struct err err = ERR_INIT;
    double all = 0, worst = 0;
    const char *where = "";
    if (argc != 6) {
        fputs("usage: apart RUN_DIR NAME RUN_DIR NAME PREFIX\n", stderr);
        return 2;
    }
    if (side_open(&a, argv[1], argv[2], &err) ||
        side_open(&b, argv[3], argv[4], &err))
        goto fail;
    struct apart *list = calloc((size_t)a.m.tensors_n + 1, sizeof *list);
    for (int i = 0; i < a.m.tensors_n; i++) {
        if (!str_starts(a.m.tensors[i].name, argv[5]))
            continue;
        if (compare(&a, &b, &a.m.tensors[i], &list[i], &err) != 0)
            goto fail;
        all = fmax(all, list[i].most);
    }
    for (int i = 0; i < a.m.tensors_n; i++) {
        double d = list[i].difference / fmax(list[i].most, 1e-6 * all);
        if (list[i].difference > 0 && !(d <= worst)) {
            worst = d;
            where = a.m.tensors[i].name;
        }
    }
    printf("%.3g %s\n", all > 0 ? worst : INFINITY, where);
    return 0;
fail:
    fprintf(stderr, "apart: %s\n", err.msg);
    return 1;
}
