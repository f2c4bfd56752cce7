/* sdpa_check - cuDNN attention (kernels/sdpa.h) against a plain kernel in fp32
 * on random shapes, outputs poisoned first; then its speed. TAP on stdout. */
#include "kernels/sdpa.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct shape {
    int B, T, H, K, D;
    bool time;
};

static const shape shapes[] = {
    {2, 64, 3, 3, 64, false},    {1, 257, 4, 2, 64, false},   {2, 128, 8, 2, 128, false},
    {1, 200, 5, 5, 80, false},   {1, 384, 6, 3, 96, false},   {16, 1024, 12, 12, 64, true},
    {8, 1024, 25, 25, 64, true}, {8, 2048, 32, 8, 64, true}, {4, 2048, 32, 32, 128, true},
    {4, 2048, 32, 8, 128, true},
};

static int test_n, failed_n;

static void ok(bool good, const char *what, const shape &s, double value)
{
    printf("%sok %d - %s B %d T %d H %d K %d D %d: %.3g\n", good ? "" : "not ", ++test_n, what,
           s.B, s.T, s.H, s.K, s.D, value);
    failed_n += !good;
}

// One block a query (b, h, i): scores in shared memory. dO given: also the three gradients,
// added with atomics (a reference, not a kernel to use).
__global__ void plain(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                      const __nv_bfloat16 *dout, float *o, float *dq, float *dk, float *dv, int T,
                      int H, int K, int D, float scale)
{
    extern __shared__ float p[];
    float *dp = p + T;
    __shared__ float total, dot;
    int i = blockIdx.x % T, h = blockIdx.x / T % H, b = blockIdx.x / T / H, kh = h / (H / K);
    auto at = [&](int t, int heads, int head) {
        return (((int64_t)b * T + t) * heads + head) * D;
    };
    for (int j = threadIdx.x; j <= i; j += blockDim.x) {
        float s = 0, g = 0;
        for (int d = 0; d < D; d++) {
            s += (float)q[at(i, H, h) + d] * (float)k[at(j, K, kh) + d];
            g += (float)dout[at(i, H, h) + d] * (float)v[at(j, K, kh) + d];
        }
        p[j] = s * scale;
        dp[j] = g;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        float m = -INFINITY, sum = 0, x = 0;
        for (int j = 0; j <= i; j++)
            m = fmaxf(m, p[j]);
        for (int j = 0; j <= i; j++)
            sum += p[j] = expf(p[j] - m);
        for (int j = 0; j <= i; j++)
            x += (p[j] /= sum) * dp[j];
        total = sum, dot = x;
    }
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
        float out = 0, gq = 0;
        for (int j = 0; j <= i; j++) {
            float ds = p[j] * (dp[j] - dot) * scale;
            out += p[j] * (float)v[at(j, K, kh) + d];
            gq += ds * (float)k[at(j, K, kh) + d];
            atomicAdd(&dk[at(j, K, kh) + d], ds * (float)q[at(i, H, h) + d]);
            atomicAdd(&dv[at(j, K, kh) + d], p[j] * (float)dout[at(i, H, h) + d]);
        }
        o[at(i, H, h) + d] = out;
        dq[at(i, H, h) + d] = gq;
    }
}

static double distance(const std::vector<__nv_bfloat16> &a, const std::vector<float> &b)
{
    double err = 0, norm = 0;
    for (size_t i = 0; i < b.size(); i++) {
        double x = (float)a[i] - b[i];
        err += x * x, norm += (double)b[i] * b[i];
    }
    return sqrt(err / norm);
}

static void *alloc(size_t bytes, int byte)
{
    void *p;
    if (cudaMalloc(&p, bytes) != cudaSuccess) {
        printf("Bail out! out of device memory\n");
        exit(1);
    }
    cudaMemset(p, byte, bytes);
    return p;
}

static __nv_bfloat16 *random_bf16(int64_t n)
{
    std::vector<__nv_bfloat16> host(n);
    for (auto &x : host)
        x = __float2bfloat16(rand() / (float)RAND_MAX * 2 - 1);
    void *p = alloc(n * 2, 0);
    cudaMemcpy(p, host.data(), n * 2, cudaMemcpyHostToDevice);
    return (__nv_bfloat16 *)p;
}

static void check(struct sdpa *sdpa, const shape &s, bool deterministic)
{
    int64_t nq = (int64_t)s.B * s.T * s.H * s.D, nk = (int64_t)s.B * s.T * s.K * s.D;
    struct exec ex = {};
    ex.act = DT_BF16;
    ex.deterministic = deterministic;
    ex.ws_bytes = sdpa_workspace_bytes(s.B, s.T, s.H, s.K, s.D, deterministic);
    ex.ws = alloc(ex.ws_bytes, 0xff);
    struct attn_args a = {};
    struct attn_grad g = {};
    a.q = random_bf16(nq), a.k = random_bf16(nk), a.v = random_bf16(nk), g.dout = random_bf16(nq);
    a.q_row = a.o_row = s.H * s.D, a.k_row = a.v_row = s.K * s.D;
    a.o = alloc(nq * 2, 0xff), g.dq = alloc(nq * 2, 0xff);
    g.dk = alloc(nk * 2, 0xff), g.dv = alloc(nk * 2, 0xff);
    a.lse = alloc((size_t)s.B * s.H * s.T * 4, 0xff);
    a.H = s.H, a.K = s.K, a.D = s.D, a.B = s.B, a.Tq = a.Tk = s.T, a.k_seq = s.T;
    a.scale = 1 / sqrtf(s.D);
    enum kstatus st = sdpa_forward(sdpa, &ex, &a);
    ok(st == K_OK, "forward runs", s, st);
    st = st == K_OK ? sdpa_backward(sdpa, &ex, &a, &g) : st;
    ok(st == K_OK, "backward runs", s, st);
    if (st != K_OK) {
        printf("# %s\n", sdpa_error(sdpa));
    } else if (!s.time) {
        float *ref[4];
        for (int i = 0; i < 4; i++)
            ref[i] = (float *)alloc((i < 2 ? nq : nk) * 4, 0);
        plain<<<s.B * s.T * s.H, 64, s.T * 8>>>(
            (const __nv_bfloat16 *)a.q, (const __nv_bfloat16 *)a.k, (const __nv_bfloat16 *)a.v,
            (const __nv_bfloat16 *)g.dout, ref[0], ref[1], ref[2], ref[3], s.T, s.H, s.K, s.D,
            a.scale);
        void *got[4] = {a.o, g.dq, g.dk, g.dv};
        const char *names[4] = {"o", "dq", "dk", "dv"};
        for (int i = 0; i < 4; i++) {
            int64_t n = i < 2 ? nq : nk;
            std::vector<__nv_bfloat16> x(n);
            std::vector<float> y(n);
            cudaMemcpy(x.data(), got[i], n * 2, cudaMemcpyDeviceToHost);
            cudaMemcpy(y.data(), ref[i], n * 4, cudaMemcpyDeviceToHost);
            double d = distance(x, y);
            ok(d < 1e-2, names[i], s, d); // NaN fails
            cudaFree(ref[i]);
        }
    } else {
        cudaEvent_t e[3];
        for (auto &x : e)
            cudaEventCreate(&x);
        float fwd, bwd;
        cudaEventRecord(e[0]);
        for (int i = 0; i < 20; i++)
            sdpa_forward(sdpa, &ex, &a);
        cudaEventRecord(e[1]);
        for (int i = 0; i < 20; i++)
            sdpa_backward(sdpa, &ex, &a, &g);
        cudaEventRecord(e[2]);
        cudaDeviceSynchronize();
        cudaEventElapsedTime(&fwd, e[0], e[1]);
        cudaEventElapsedTime(&bwd, e[1], e[2]);
        double flop = 2.0 * s.B * s.H * (double)s.T * s.T * s.D; // causal: half of 4 B H T T D
        printf("# %sB %d T %d H %d K %d D %d: forward %.3f ms %.0f TFLOP/s, backward %.3f ms %.0f "
               "TFLOP/s (causal-halved)\n",
               deterministic ? "deterministic " : "", s.B, s.T, s.H, s.K, s.D, fwd / 20,
               flop / (fwd / 20) / 1e9, bwd / 20, 2.5 * flop / (bwd / 20) / 1e9);
    }
    const void *all[] = {ex.ws, a.q, a.k, a.v, a.o, a.lse, g.dout, g.dq, g.dk, g.dv};
    for (const void *p : all)
        cudaFree((void *)p);
}

int main(void)
{
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || !gpus) {
        printf("1..0 # SKIP no GPU\n");
        return 0;
    }
    struct sdpa *sdpa = sdpa_create();
    for (const shape &s : shapes)
        for (int deterministic = 0; deterministic < 2; deterministic++)
            check(sdpa, s, deterministic);
    sdpa_destroy(sdpa);
    printf("1..%d\n", test_n);
    return failed_n != 0;
}
