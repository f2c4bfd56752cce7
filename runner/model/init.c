/* init - weights from (seed, tensor name, global index): whoever holds a box
 * of a tensor computes the same numbers, so the layout does not matter.
 *
 * Matrices and embeddings are normal with the shape's std; those that write to
 * the residual stream divide it by sqrt(2L). Norms are one, biases zero.
 */
#include "runner/model/layers.h"

#include <math.h>
#include <string.h>

/* FNV-1a over the name, mixed with the seed by splitmix64's finaliser. */
static uint64_t tensor_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3ULL;
    h ^= seed * 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    return h ^ (h >> 31);
}

static bool ends(const char *name, const char *tail)
{
    size_t n = strlen(name), t = strlen(tail);
    return n >= t && strcmp(name + n - t, tail) == 0;
}

static bool writes_residual(const char *name)
{
    return ends(name, ".c_proj.weight") || ends(name, ".o_proj.weight") ||
           ends(name, ".down_proj.weight");
}

/* Row by row where the box is narrower than the tensor. */
static enum kstatus fill_matrix(struct model *m, const struct param *p,
                                uint64_t key, double std)
{
    struct exec *ex = m->ex;
    int64_t row = p->shape[1];
    if (p->cols_n == 1 && p->extent[1] == row)
        return ex->ops->fill_normal(ex, p->data, ex->act, key,
                                    (uint64_t)(p->offset[0] * row), p->n, std);
    enum kstatus k = K_OK;
    size_t e = dtype_bytes(ex->act);
    for (int64_t i = 0; i < p->extent[0]; i++)
        for (int c = 0; c < p->cols_n && k == K_OK; c++) {
            const struct view_cols *cols = &p->cols[c];
            k = ex->ops->fill_normal(
                ex, (char *)p->data + (size_t)(i * p->extent[1] + cols->at) * e,
                ex->act, key,
                (uint64_t)((p->offset[0] + i) * row + cols->offset), cols->n,
                std);
        }
    return k;
}

int model_init_weights(struct model *m, uint64_t seed, struct err *err)
{
    double residual = m->s->init_std / sqrt(2.0 * m->at.whole->L);
    for (int i = 0; i < m->params_n; i++) {
        const struct param *p = &m->params[i];
        enum kstatus k;
        if (p->dims == 2)
            k = fill_matrix(m, p, tensor_key(seed, p->name),
                            writes_residual(p->name) ? residual
                                                     : m->s->init_std);
        else
            k = m->ex->ops->fill_value(m->ex, p->data, m->ex->act, p->n,
                                       ends(p->name, ".bias") ? 0.0 : 1.0);
        if (k != K_OK) {
            model_failed(m, "initialising weights", k, err);
            return err_prefix(err, "'%s'", p->name);
        }
    }
    return 0;
}
