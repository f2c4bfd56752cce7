/* sample - see sample.h. */
#include "runner/serve/sample.h"

#include <math.h>
#include <stdlib.h>

struct candidate {
    double weight; /* of the softmax, not divided by its sum */
    int token;
};

struct sampler {
    struct sampler_spec spec;
    int V;
    uint64_t drawn;
    struct candidate *list; /* [V] scratch */
};

struct sampler *sampler_create(const struct sampler_spec *spec, int V,
                               struct err *err)
{
    if (!(spec->temperature >= 0) || spec->temperature > 1e6 ||
        spec->top_k < 0 || !(spec->top_p > 0) || spec->top_p > 1) {
        err_set_class(err, ERR_REQUEST,
                      "sample: temperature %g, top-k %d, top-p %g: need "
                      "temperature >= 0, top-k >= 0, 0 < top-p <= 1",
                      spec->temperature, spec->top_k, spec->top_p);
        return NULL;
    }
    struct sampler *s = calloc(1, sizeof *s);
    if (s)
        s->list = calloc((size_t)V, sizeof *s->list);
    if (!s || !s->list) {
        err_set(err, "sample: no memory");
        sampler_destroy(s);
        return NULL;
    }
    s->spec = *spec;
    s->V = V;
    return s;
}

void sampler_destroy(struct sampler *s)
{
    if (!s)
        return;
    free(s->list);
    free(s);
}

static int largest(const float *logits, int V)
{
    int best = 0;
    for (int i = 1; i < V; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Heaviest first; equal ones by number, so that the order is one. */
static int by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->token - y->token;
}

/* The next uniform number in [0, 1), by splitmix64 of seed and count. */
static double uniform(struct sampler *s)
{
    uint64_t z = s->spec.seed + ++s->drawn * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* How many of the sorted candidates stay, and their weight. */
static int keep(const struct sampler *s, double *ret_sum)
{
    int n = s->spec.top_k > 0 && s->spec.top_k < s->V ? s->spec.top_k : s->V;
    double all = 0, sum = 0;
    int kept = 0;
    for (int i = 0; i < n; i++)
        all += s->list[i].weight;
    while (kept < n && (kept == 0 || sum < s->spec.top_p * all))
        sum += s->list[kept++].weight;
    *ret_sum = sum;
    return kept;
}

int sampler_next(struct sampler *s, const float *logits)
{
    int best = largest(logits, s->V);
    double sum;
    if (s->spec.temperature == 0)
        return best;
    for (int i = 0; i < s->V; i++) {
        double over = ((double)logits[i] - logits[best]) / s->spec.temperature;
        s->list[i] = (struct candidate){exp(over), i};
    }
    qsort(s->list, (size_t)s->V, sizeof *s->list, by_weight);
    int n = keep(s, &sum);
    double at = uniform(s) * sum;
    for (int i = 0; i < n - 1; i++) {
        at -= s->list[i].weight;
        if (at < 0)
            return s->list[i].token;
    }
    return s->list[n - 1].token;
}
