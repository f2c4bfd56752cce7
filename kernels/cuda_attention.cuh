/* cuda_attention - what our attention kernels share: arguments on the device,
 * and where a sequence lies. Private to kernels. */
#ifndef KB_KERNELS_CUDA_ATTENTION_CUH
#define KB_KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda_device.cuh"

struct attn_dev {
    const void *q, *k, *v, *o, *dout;
    void *out, *dq, *dk, *dv;
    float *lse, *delta;
    int64_t q_row, k_row, v_row, o_row, k_seq, Nq;
    const int32_t *cu;
    int H, K, D, Tq, Tk;
    float scale;
};

struct attn_span {
    int64_t q0, k0, lse0; /* lse0: of head 0; heads lie lse_head apart */
    int64_t lse_head;
    int Tq, Tk;
};

__device__ static inline struct attn_span attn_span_of(const struct attn_dev &a, int sequence)
{
    struct attn_span s;
    if (a.cu) {
        s.q0 = s.k0 = a.cu[sequence];
        s.Tq = s.Tk = a.cu[sequence + 1] - a.cu[sequence];
        s.lse0 = s.q0;
        s.lse_head = a.Nq;
    } else {
        s.q0 = (int64_t)sequence * a.Tq;
        s.k0 = sequence * a.k_seq;
        s.Tq = a.Tq;
        s.Tk = a.Tk;
        s.lse0 = (int64_t)sequence * a.H * a.Tq;
        s.lse_head = a.Tq;
    }
    return s;
}

static inline enum kstatus attn_dev_of(struct attn_dev *r, const struct attn_args *a)
{
    if (a->D > 256 || a->H % a->K || (!a->cu_seqlens && a->Tk < a->Tq))
        return K_INVALID;
    *r = {};
    r->q = a->q;
    r->k = a->k;
    r->v = a->v;
    r->o = r->out = a->o;
    r->lse = (float *)a->lse;
    r->q_row = a->q_row;
    r->k_row = a->k_row;
    r->v_row = a->v_row;
    r->o_row = a->o_row;
    r->k_seq = a->k_seq;
    r->Nq = (int64_t)a->B * a->Tq;
    r->cu = a->cu_seqlens;
    r->H = a->H;
    r->K = a->K;
    r->D = a->D;
    r->Tq = a->Tq;
    r->Tk = a->Tk;
    r->scale = a->scale;
    return K_OK;
}

/* delta[h, n] = o . dout into scratch, where p->delta then points. */
enum kstatus attn_delta(struct exec *ex, struct attn_dev *p);

#endif
