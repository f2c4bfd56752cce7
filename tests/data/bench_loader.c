/* bench_loader - how fast samples are read in random order from page cache.
 *
 * usage: bench_loader PREFIX SEQ_LEN SAMPLES [RUN_DIR]
 * Prints the time to make the order, then samples, bytes of tokens as stored,
 * and the rate of a second round over the same samples (the first one fills the
 * page cache).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runner/base/clock.h"
#include "runner/data/order.h"

static double cpu_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    if (argc < 4)
        return 2;
    int seq_len = atoi(argv[2]);
    int64_t samples_n = atoll(argv[3]);
    int32_t *dst = malloc(((size_t)seq_len + 1) * sizeof *dst);
    struct tokens *t = tokens_open(argv[1], &err);
    double from_s = clock_mono_s();
    struct order *o =
        t ? order_create_cached(t, 0, tokens_sequences(t), seq_len, 1234,
                                0, samples_n, argc > 4 ? argv[4] : NULL, 1,
                                &err)
          : NULL;
    if (!o || !dst) {
        fprintf(stderr, "bench_loader: %s\n", err.msg);
        return 1;
    }
    printf("order of %lld samples: %.3f s\n", (long long)order_samples(o),
           clock_mono_s() - from_s);
    for (int round = 0; round < 2; round++) {
        double before_s = cpu_s();
        from_s = clock_mono_s();
        for (int64_t i = 0; i < samples_n; i++)
            if (order_read(o, i, INT32_MAX, dst, &err)) {
                fprintf(stderr, "bench_loader: %s\n", err.msg);
                return 1;
            }
        double s = clock_mono_s() - from_s;
        double bytes = (double)samples_n * seq_len * tokens_item_bytes(t);
        if (round)
            printf("%lld samples, %.0f MB, %.2f GB/s of wall, %.2f GB/s of "
                   "processor time\n", (long long)samples_n, bytes / 1e6,
                   bytes / s / 1e9, bytes / (cpu_s() - before_s) / 1e9);
    }
    order_destroy(o);
    tokens_close(t);
    free(dst);
    return 0;
}
