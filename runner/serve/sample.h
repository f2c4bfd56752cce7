/* sample - one token from logits: temperature, then top-k, then top-p.
 *
 * The same seed and logits give the same tokens. Temperature 0 is the largest
 * logit, the first of equal ones.
 */
#ifndef KB_SERVE_SAMPLE_H
#define KB_SERVE_SAMPLE_H

#include <stdint.h>

#include "runner/base/err.h"

struct sampler;
struct sampler_spec {
    double temperature;  /* 0: the largest */
    int top_k;           /* of the k largest; 0: all */
    double top_p;        /* of the fewest that have this share; 1: all */
    uint64_t seed;
};
/* V: the vocabulary. A spec out of range is ERR_REQUEST. */
struct sampler *sampler_create(const struct sampler_spec *spec, int V,
                               struct err *err);
void sampler_destroy(struct sampler *sampler);
int sampler_next(struct sampler *sampler, const float *logits);

#endif
