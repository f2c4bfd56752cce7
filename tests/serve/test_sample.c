/* Greedy, temperature, top-k, top-p, seeds, and refusals. */
#include "runner/serve/sample.h"
#include "tests/tap.h"

enum { V = 5, DRAWS = 20000 };
static const float logits[V] = {0, 2, 1, 2, -1};

static void count(const struct sampler_spec *spec, int *counts)
{
    struct err err = ERR_INIT;
    struct sampler *s = sampler_create(spec, V, &err);
    memset(counts, 0, V * sizeof *counts);
    for (int i = 0; s && i < DRAWS; i++)
        counts[sampler_next(s, logits)]++;
    sampler_destroy(s);
}

int main(void)
{
    int n[V], m[V];
    struct err err = ERR_INIT;
    struct sampler_spec greedy = {0, 0, 1, 1};
    count(&greedy, n);
    is_int(n[1], DRAWS, "greedy: the first of the largest");

    struct sampler_spec plain = {1, 0, 1, 7};
    count(&plain, n);
    double sum = 0;
    for (int i = 0; i < V; i++)
        sum += exp(logits[i]);
    for (int i = 0; i < V; i++)
        is_near(n[i] / (double)DRAWS, exp(logits[i]) / sum, 0.02,
                "drawn by the softmax");
    count(&plain, m);
    ok(memcmp(n, m, sizeof n) == 0, "the same seed draws the same");
    plain.seed = 8;
    count(&plain, m);
    ok(memcmp(n, m, sizeof n) != 0, "another seed another");

    struct sampler_spec top_k = {1, 3, 1, 7};
    count(&top_k, n);
    ok(n[0] == 0 && n[4] == 0 && n[2] > 0, "top-k leaves three");
    struct sampler_spec top_p = {1, 0, 0.6, 7};
    count(&top_p, n);
    ok(n[1] > 0 && n[3] > 0 && n[0] + n[2] + n[4] == 0, "top-p leaves two");
    struct sampler_spec least = {1, 0, 1e-9, 7};
    count(&least, n);
    is_int(n[1], DRAWS, "top-p leaves at least one");
    struct sampler_spec cold = {0.01, 0, 1, 7};
    count(&cold, n);
    is_int(n[1] + n[3], DRAWS, "a low temperature is nearly greedy");

    const struct sampler_spec bad[] = {
        {-1, 0, 1, 0}, {NAN, 0, 1, 0}, {1, -1, 1, 0}, {1, 0, 0, 0},
        {1, 0, 1.5, 0},
    };
    for (int i = 0; i < 5; i++) {
        err = ERR_INIT;
        ok(!sampler_create(&bad[i], V, &err) && err.class == ERR_REQUEST,
           "out of range: %s", err.msg);
    }
    return tap_done();
}
