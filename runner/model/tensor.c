/* tensor - what the ranks of a tensor group do together.
 *
 * Between norm and norm each rank has all tokens and a part of the heads or
 * columns; at the norms and in the residual stream it has a part of the tokens
 * and all of the width. So a block begins with a gather of tokens and ends with
 * a scatter of sums, and backward the other way round. At size 1 nothing.
 * Gradients of what all ranks have (norms) are of own tokens: they are summed
 * once a step, with those of repeated key heads and of a tied head.
 */
#include "runner/model/layers.h"

#include "runner/plan/share.h"

static int ranks_of(const struct model *m)
{
    return m->s->tensor > 1 ? m->s->tensor : 1;
}

static int64_t first_token(const struct model *m, int rank, int64_t N)
{
    int64_t first = share_tokens(m->s, N) * rank;
    return first < N ? first : N;
}

int64_t tensor_tokens(const struct model *m, int64_t N)
{
    int rank = m->at.tensor_rank;
    return first_token(m, rank + 1, N) - first_token(m, rank, N);
}

void *tensor_own(const struct model *m, void *buf, int64_t N)
{
    size_t row = (size_t)m->s->C * dtype_bytes(m->ex->act);
    return (char *)buf + (size_t)first_token(m, m->at.tensor_rank, N) * row;
}

static enum kstatus status(int rc)
{
    return rc == 0 ? K_OK : K_DEVICE;
}

/* Each rank's elements of [N, C], where they are not equally many. */
static void uneven(const struct model *m, int64_t N)
{
    for (int r = 0; r < ranks_of(m); r++) {
        m->part_first[r] = first_token(m, r, N) * m->s->C;
        m->part_n[r] = first_token(m, r + 1, N) * m->s->C - m->part_first[r];
    }
}

enum kstatus tensor_gather(struct model *m, void *buf, int64_t N)
{
    if (ranks_of(m) == 1)
        return K_OK;
    if (N % ranks_of(m) == 0)
        return status(comm_all_gather(m->comm, COMM_TENSOR, buf,
                                       tensor_own(m, buf, N),
                                       N / ranks_of(m) * m->s->C, m->ex->act,
                                       m->ex->stream, NULL, &m->err));
    uneven(m, N);
    return status(comm_gather_parts(m->comm, COMM_TENSOR, buf, m->part_first,
                                     m->part_n, m->ex->act, m->ex->stream,
                                     NULL, &m->err));
}

enum kstatus tensor_scatter(struct model *m, void *buf, int64_t N)
{
    if (ranks_of(m) == 1)
        return K_OK;
    if (N % ranks_of(m) == 0)
        return status(comm_reduce_scatter(m->comm, COMM_TENSOR,
                                           tensor_own(m, buf, N), buf,
                                           N / ranks_of(m) * m->s->C,
                                           m->ex->act, m->ex->stream, NULL,
                                           &m->err));
    uneven(m, N);
    return status(comm_reduce_parts(m->comm, COMM_TENSOR, buf, m->part_first,
                                     m->part_n, m->ex->act, m->ex->stream,
                                     NULL, &m->err));
}

enum kstatus tensor_whole(struct model *m, void *own, int64_t N, void **ret)
{
    size_t row = (size_t)m->s->C * dtype_bytes(m->ex->act);
    *ret = own;
    if (ranks_of(m) == 1)
        return K_OK;
    *ret = m->scratch.at[S_WHOLE];
    enum kstatus k = device_copy(m->ex->device, tensor_own(m, *ret, N), own,
                                 (size_t)tensor_tokens(m, N) * row,
                                 m->ex->stream);
    return k == K_OK ? tensor_gather(m, *ret, N) : k;
}

const struct weight *tensor_bias(const struct model *m, const struct weight *b)
{
    return m->at.tensor_rank == 0 ? weight_or_null(b) : NULL;
}

/* ---- The head's rows ----------------------------------------------------- */
static enum kstatus shares_gather(void *ctx, double *shares, int64_t n)
{
    struct model *m = ctx;
    return status(comm_all_gather(m->comm, COMM_TENSOR, shares,
                                   shares + m->at.tensor_rank * n, n, DT_F64,
                                   m->ex->stream, NULL, &m->err));
}

const struct head_peers *tensor_peers(struct model *m)
{
    if (ranks_of(m) == 1)
        return NULL;
    m->peers = (struct head_peers){
        .rank = m->at.tensor_rank, .size = ranks_of(m), .V = m->at.whole->V,
        .shares = m->scratch.at[S_SHARES], .gather = shares_gather, .ctx = m,
    };
    return &m->peers;
}

/* ---- Sums of a bucket ---------------------------------------------------- */
enum kstatus tensor_sums(struct model *m, int bucket)
{
    enum kstatus k = K_OK;
    for (int i = 0; i < m->sums_n && k == K_OK; i++) {
        const struct sum_run *run = &m->sums[i];
        if (run->bucket == bucket && m->comm)
            k = status(comm_all_reduce(m->comm, run->group, run->grad, run->n,
                                        m->ex->grad, m->ex->stream, NULL,
                                        &m->err));
    }
    return k;
}
