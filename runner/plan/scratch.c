/* scratch - what operations need beside their operands; see sizes.h. Upper
 * bounds of the kernels' own numbers: plan may not ask them, and must know
 * them where there is no device. tests/plan/test_memory holds the two together.
 */
#include "runner/plan/sizes.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Rows of scores for each of 16 workers, 256 tokens' logits, or partial sums
 * of the largest tensor. */
static int64_t cpu_bytes(const struct shape *s, int64_t T, int act)
{
    int64_t widest = larger(s->Vp, larger(4LL * s->C, 2LL * s->F));
    int64_t scores = 16 * 2 * 64 * T * act;
    int64_t logits = 256 * ((int64_t)s->Vp * act + 8 * 8);
    int64_t sums = (widest * s->C / 65536 + 2) * 3 * 8;
    return larger(larger(scores, logits), sums);
}

/* Logits of a chunk of tokens, at most 1 GiB, and four numbers a token. */
static int64_t logits_bytes(const struct shape *s, int64_t N, int act)
{
    int64_t most = ((int64_t)1 << 30) / ((int64_t)s->Vp * act);
    int64_t rows = round_up(N, 128);
    most = most < 128 ? 128 : most / 128 * 128;
    rows = rows < most ? rows : most;
    return round_up(rows * 32, 256) + rows * s->Vp * act;
}

/* Keys, order and sorting of tokens, and partial rows. */
static int64_t embedding_bytes(const struct shape *s, int64_t N)
{
    return 3 * round_up(4 * N, 256) + round_up(16 * N + (1 << 20), 256) +
           8LL * s->C * (N / 32 + 1);
}

/* cuDNN's backward: row sums, a wide dQ, with grouped heads wide dK, dV;
 * deterministic (exact), also dP. */
static int64_t sdpa_bytes(const struct shape *s, int64_t B, int64_t T,
                          bool grouped, bool exact)
{
    int64_t tiles = round_up(T, 64), rows = B * s->H * tiles;
    return rows * 8 + rows * s->D * 4 * (grouped ? 3 : 1) +
           (exact ? rows * tiles * 2 : 0) + (1 << 20);
}

/* Deterministic, as many sequences at a time as need at most 512 MiB. */
static int64_t attention_bytes(const struct shape *s, int64_t B, int64_t T,
                               bool exact)
{
    int64_t slice = B;
    if (!exact)
        return sdpa_bytes(s, B, T, s->K != s->H, false);
    while (slice > 1 &&
           (B % slice || sdpa_bytes(s, slice, T, false, true) > 1 << 29))
        slice--;
    return sdpa_bytes(s, slice, T, s->K != s->H, true);
}

/* 64 MiB are cuBLASLt's; the rest is one operation's at a time. */
static int64_t cuda_bytes(const struct shape *s, int64_t B, int64_t T, int act,
                          bool exact)
{
    int64_t most = 32 << 20;
    most = larger(most, logits_bytes(s, B * T, act));
    most = larger(most, embedding_bytes(s, B * T));
    most = larger(most, attention_bytes(s, B, T, exact));
    most = larger(most, 4LL * s->C * larger(2LL * s->F, 4LL * s->C));
    return (64 << 20) + most;
}

int64_t operations_bytes(const struct shape *s, bool cuda, int64_t B,
                         int64_t T, int act, bool deterministic)
{
    return sizes_align(cuda ? cuda_bytes(s, B, T, act, deterministic)
                            : cpu_bytes(s, T, act));
}
