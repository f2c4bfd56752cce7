// sdpa over cudnn-frontend: the one C++ file; see sdpa.h.
//
// A graph is keyed by everything that is in it: type, shape, strides, whether
// it must be deterministic. Tensors are bound by the fixed ids below, so that a
// cached graph needs no tensor objects at run time.
#include "kernels/sdpa.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <vector>

#include <cudnn_frontend.h>

namespace fe = cudnn_frontend;

namespace {

enum uid : int64_t { Q = 1, K_, V_, O, STATS, DO, DQ, DK, DV };

struct key {
    int type, B, T, H, K, D, backward, deterministic;
    int64_t q_row, k_row, v_row, o_row;
    float scale;
};

struct entry {
    key k;
    std::shared_ptr<fe::graph::Graph> graph; // null: cannot be built
    int64_t workspace_bytes;
};

// [B, heads, T, D] inside rows of `row` elements.
fe::graph::Tensor_attributes tensor(const char *name, int64_t id, const key &k,
                                    int heads, int64_t row)
{
    return fe::graph::Tensor_attributes()
        .set_name(name)
        .set_uid(id)
        .set_dim({k.B, heads, k.T, k.D})
        .set_stride({row * k.T, k.D, row, 1});
}

fe::graph::Tensor_attributes stats_tensor(const key &k)
{
    return fe::graph::Tensor_attributes()
        .set_name("stats")
        .set_uid(STATS)
        .set_dim({k.B, k.H, k.T, 1})
        .set_stride({(int64_t)k.H * k.T, k.T, 1, 1})
        .set_data_type(fe::DataType_t::FLOAT);
}

// Output tensors take the layout of the tensor that they mirror.
void place(const std::shared_ptr<fe::graph::Tensor_attributes> &t, int64_t id,
           const key &k, int heads, int64_t row)
{
    t->set_output(true)
        .set_uid(id)
        .set_dim({k.B, heads, k.T, k.D})
        .set_stride({row * k.T, k.D, row, 1});
}

std::shared_ptr<fe::graph::Graph> describe(const key &k)
{
    auto g = std::make_shared<fe::graph::Graph>();
    g->set_io_data_type(k.type == DT_BF16 ? fe::DataType_t::BFLOAT16
                                          : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    auto q = g->tensor(tensor("q", Q, k, k.H, k.q_row));
    auto kk = g->tensor(tensor("k", K_, k, k.K, k.k_row));
    auto v = g->tensor(tensor("v", V_, k, k.K, k.v_row));
    if (!k.backward) {
        auto options = fe::graph::SDPA_attributes()
                           .set_name("sdpa")
                           .set_generate_stats(true)
                           .set_causal_mask(true)
                           .set_attn_scale(k.scale);
        auto [o, stats] = g->sdpa(q, kk, v, options);
        place(o, O, k, k.H, k.o_row);
        stats->set_output(true)
            .set_uid(STATS)
            .set_data_type(fe::DataType_t::FLOAT)
            .set_dim({k.B, k.H, k.T, 1})
            .set_stride({(int64_t)k.H * k.T, k.T, 1, 1});
        return g;
    }
    auto o = g->tensor(tensor("o", O, k, k.H, k.o_row));
    auto dout = g->tensor(tensor("do", DO, k, k.H, k.o_row));
    auto stats = g->tensor(stats_tensor(k));
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("sdpa_bwd")
                       .set_causal_mask(true)
                       .set_attn_scale(k.scale)
                       .set_deterministic_algorithm(k.deterministic != 0);
    auto [dq, dk, dv] = g->sdpa_backward(q, kk, v, o, dout, stats, options);
    place(dq, DQ, k, k.H, k.q_row);
    place(dk, DK, k, k.K, k.k_row);
    place(dv, DV, k, k.K, k.v_row);
    return g;
}

} // namespace

struct sdpa {
    cudnnHandle_t handle;
    std::vector<entry> cache;
    char error[256];
};

static void say(struct sdpa *s, const char *what, const std::string &why)
{
    snprintf(s->error, sizeof s->error, "%s: %.200s", what, why.c_str());
}

// The graph of this key, built at the first call; null when cuDNN cannot.
static entry *find(struct sdpa *s, const key &k)
{
    for (auto &e : s->cache)
        if (!memcmp(&e.k, &k, sizeof k))
            return &e;
    entry e = {k, nullptr, 0};
    auto g = describe(k);
    auto status = g->build(s->handle, {fe::HeurMode_t::A});
    if (status.is_good())
        status = g->get_workspace_size(e.workspace_bytes);
    if (status.is_good())
        e.graph = g;
    else
        say(s, "cannot build", status.get_message());
    s->cache.push_back(e);
    return &s->cache.back();
}

static enum kstatus run(struct sdpa *s, const struct exec *ex,
                        const struct attn_args *a, const struct attn_grad *g)
{
    if (a->cu_seqlens || a->Tq != a->Tk || a->k_seq != a->Tk || a->D % 8 ||
        a->D > 128 || (ex->act != DT_BF16 && ex->act != DT_F16) || !a->lse)
        return K_UNSUPPORTED;
    key k;
    memset(&k, 0, sizeof k); // padding too: keys are compared as bytes
    k.type = ex->act;
    k.B = a->B, k.T = a->Tq, k.H = a->H, k.K = a->K, k.D = a->D;
    k.backward = g != nullptr;
    k.deterministic = g && ex->deterministic;
    k.q_row = a->q_row, k.k_row = a->k_row, k.v_row = a->v_row;
    k.o_row = a->o_row;
    k.scale = a->scale;
    entry *e = find(s, k);
    if (!e->graph)
        return K_UNSUPPORTED;
    if ((size_t)e->workspace_bytes > ex->ws_bytes) {
        snprintf(s->error, sizeof s->error, "needs %lld bytes of scratch",
                 (long long)e->workspace_bytes);
        return K_NOMEM;
    }
    if (cudnnSetStream(s->handle, (cudaStream_t)ex->stream) !=
        CUDNN_STATUS_SUCCESS)
        return K_DEVICE;
    auto p = [](const void *ptr) { return const_cast<void *>(ptr); };
    std::unordered_map<int64_t, void *> pack = {
        {Q, p(a->q)}, {K_, p(a->k)}, {V_, p(a->v)}, {O, a->o}, {STATS, a->lse}};
    if (g) {
        pack[DO] = p(g->dout);
        pack[DQ] = g->dq;
        pack[DK] = g->dk;
        pack[DV] = g->dv;
    }
    auto status = e->graph->execute(s->handle, pack, ex->ws);
    if (status.is_bad()) {
        say(s, "cannot run", status.get_message());
        return K_DEVICE;
    }
    return K_OK;
}

// No exception leaves this file.
static enum kstatus run_caught(struct sdpa *s, const struct exec *ex,
                               const struct attn_args *a,
                               const struct attn_grad *g)
{
    if (!s)
        return K_UNSUPPORTED;
    try {
        return run(s, ex, a, g);
    } catch (const std::exception &why) {
        say(s, "cudnn-frontend", why.what());
    } catch (...) {
        say(s, "cudnn-frontend", "unknown exception");
    }
    return K_UNSUPPORTED;
}

extern "C" struct sdpa *sdpa_create(void)
{
    try {
        auto s = std::make_unique<sdpa>();
        s->error[0] = 0;
        if (cudnnCreate(&s->handle) != CUDNN_STATUS_SUCCESS)
            return nullptr;
        s->cache.reserve(16);
        return s.release();
    } catch (...) {
        return nullptr;
    }
}

extern "C" void sdpa_destroy(struct sdpa *sdpa)
{
    if (!sdpa)
        return;
    sdpa->cache.clear();
    cudnnDestroy(sdpa->handle);
    delete sdpa;
}

extern "C" size_t sdpa_workspace_bytes(int B, int T, int H, int K, int D,
                                       int deterministic)
{
    // Row sums and the fp32 accumulator of dQ; with grouped heads dK and dV of
    // every query head; deterministic: dP of whole 64 x 64 tiles, 2 bytes.
    size_t rows = (size_t)B * H * ((T + 63) / 64 * 64);
    size_t bytes = rows * 4 * 2 + rows * D * 4;
    if (K != H)
        bytes += rows * D * 4 * 2;
    if (deterministic)
        bytes += rows * ((T + 63) / 64 * 64) * 2;
    return bytes + (1 << 20);
}

extern "C" enum kstatus sdpa_forward(struct sdpa *sdpa, const struct exec *ex,
                                     const struct attn_args *a)
{
    return run_caught(sdpa, ex, a, nullptr);
}

extern "C" enum kstatus sdpa_backward(struct sdpa *sdpa, const struct exec *ex,
                                      const struct attn_args *a,
                                      const struct attn_grad *g)
{
    return run_caught(sdpa, ex, a, g);
}

extern "C" const char *sdpa_error(const struct sdpa *sdpa)
{
    return sdpa ? sdpa->error : "no cuDNN";
}
