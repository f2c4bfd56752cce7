/* Tests of runner/plan/memory.c: the rows against what the model, the
 * optimizer and the operations really take, parameters of published models,
 * and the FLOP of a token against worked examples. */
#include "kernels/cuda_sizes.h"
#include "kernels/ops.h"
#include "runner/model/model.h"
#include "runner/optim/optim.h"
#include "runner/plan/plan.h"
#include "runner/plan/sizes.h"
#include "tests/tap.h"

#include <stdlib.h>

static struct plan plan;
static struct site site;
static struct plan_notes notes;

/* A plan from a few keys; the site knows nothing bad. */
static const char *gpu = "";

static int make(const char *preset, const char *more, int gpus)
{
    struct sbuf text = SBUF_INIT;
    struct err err = ERR_INIT;
    struct conf *conf = plan_conf_create(NULL);
    memset(&site, 0, sizeof site);
    site.gpus_per_node = gpus;
    snprintf(site.gpu, sizeof site.gpu, "%s", gpu);
    site.run_dir_known = site.run_dir_writable = true;
    site.disk_free_bytes = -1;
    site.slurmd_timeout_s = site.requeue_delay_s = site.kill_wait_s = -1;
    site.max_batch_requeue = site.job_requeue = -1;
    site.train[0] = (struct site_file){.known = true, .exists = true,
                                       .tokens = 1LL << 40, .dtype_bytes = 4};
    sbuf_printf(&text, "run.dir: /r\ndata.train: /d\ntrain.steps: 10\n"
                "model.preset: %s\n%s", preset, more);
    int rc = conf_read_text(conf, text.data, "t", &err) ||
             plan_conf_finish(conf, "/", &err) ||
             plan_make(conf, &site, &plan, &notes, &err);
    if (rc)
        printf("# %s: %s\n", preset, err.msg);
    sbuf_release(&text);
    conf_destroy(conf);
    return rc;
}

static int64_t row(const char *what)
{
    for (int i = 0; i < plan.memory_n; i++)
        if (!strcmp(plan.memory[i].what, what))
            return plan.memory[i].bytes;
    return 0;
}

static void test_rows(void)
{
    static const char *const presets[] = {"gpt2-micro", "gpt2-nano",
                                          "gpt2-124m", "llama-micro",
                                          "llama-1b", "llama-8b"};
    static const char *const mores[] = {
        "train.micro_batch: 4\n",
        "train.micro_batch: 2\ntrain.recompute: selective\n",
        "train.recompute: full\nmodel.qk_norm: true\n",
        "model.tied: false\ntrain.precision: fp64\n"};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++) {
            if (!ok(!make(presets[i], mores[j], 0), "%s, set %d is planned",
                    presets[i], j))
                continue;
            is_int(row("weights") + row("gradients") + row("activations") +
                       row("workspace"),
                   model_arena_bytes(&plan, true, 1),
                   "the model's rows are what the model takes");
            int64_t o = optim_arena_bytes(&plan, plan.params_n);
            ok(row("optimizer") <= o && row("optimizer") + 4096 >= o,
               "the optimizer's too");
            const struct shape *s = &plan.shape;
            bool f64 = plan.precision == PLAN_FP64;
            int64_t ws = (int64_t)ops_workspace_bytes(
                f64 ? &ops_cpu_f64 : &ops_cpu_f32, f64 ? DT_F64 : DT_F32,
                (int64_t)plan.micro_batch * plan.seq_len, s->C, s->F, s->H,
                s->K, s->D, s->Vp, plan.micro_batch, plan.seq_len,
                plan.deterministic);
            ok(row("operations") >= ws && row("operations") <= 2 * ws + 4096,
               "operations: %lld of %lld", (long long)row("operations"),
               (long long)ws);
        }
}

/* Each rank's rows, in layouts of ranks: those that a stage, a tensor rank and
 * the schedule make different. */
static void test_layouts(void)
{
    static const char *const layouts[] = {
        "parallel.tensor: 2\n", "parallel.tensor: 4\nparallel.data: 2\n",
        "parallel.pipeline: 4\n", "parallel.pipeline: 3\n",
        "parallel.pipeline: 2\nparallel.chunks: 2\nparallel.data: 3\n",
        "parallel.tensor: 2\nparallel.pipeline: 2\nparallel.data: 2\n"
        "train.recompute: full\n",
        "parallel.tensor: 2\nparallel.pipeline: 4\nmodel.tied: false\n"
        "train.recompute: full\ntrain.recompute_layers: 1\n"};
    static const char *const presets[] = {"gpt2-nano", "llama-nano"};
    for (int i = 0; i < 14; i++) {
        const char *preset = presets[i % 2], *layout = layouts[i / 2];
        if (!ok(!make(preset, layout, 0), "%s, layout %d", preset, i / 2))
            continue;
        int64_t most = plan.memory_bytes, seen = 0;
        bool same = true;
        for (int rank = 0; rank < plan.world; rank++) {
            plan_settle(&plan, rank);
            int64_t pipe = row("buffers");
            same &= row("weights") + row("gradients") + row("activations") +
                        row("workspace") ==
                    model_arena_bytes(&plan, true, plan.slots);
            same &= pipe > 0;
            seen = plan.memory_bytes > seen ? plan.memory_bytes : seen;
        }
        ok(same, "each rank's rows are what its model takes");
        is_int(most, seen, "the plan tells of the rank that needs most");
    }
}

/* The same on GPUs; cuda_sizes.h is built where there are none, too. */
static void test_cuda_operations(void)
{
    static const char *const presets[] = {"gpt2-nano", "gpt2-124m",
                                          "gpt2-1558m", "gpt3-7b", "llama-1b",
                                          "llama-8b"};
    static const char *const mores[] = {"", "train.micro_batch: 64\n",
                                        "train.deterministic: false\n",
                                        "train.precision: fp32\n"
                                        "train.seq_len: 128\n"};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++) {
            if (!ok(!make(presets[i], mores[j], 8), "%s on GPUs", presets[i]))
                continue;
            const struct shape *s = &plan.shape;
            int64_t ws = (int64_t)cuda_workspace_bytes(
                plan.precision == PLAN_BF16 ? DT_BF16 : DT_F32,
                (int64_t)plan.micro_batch * plan.seq_len, s->C, s->F, s->H,
                s->K, s->D, s->Vp, plan.micro_batch, plan.seq_len,
                plan.deterministic);
            ok(row("operations") >= ws, "operations on GPUs: %lld of %lld",
               (long long)row("operations"), (long long)ws);
        }
}

/* What a rank owns at most; with ranks that divide nothing, and with more than
 * there are rows. */
static void test_owned(void)
{
    static const int ranks[] = {2, 3, 7, 24, 1000, 1000000};
    static const char *const presets[] = {"gpt2-micro", "llama-micro",
                                          "gpt2-1558m"};
    for (int i = 0; i < 3; i++) {
        if (!ok(!make(presets[i], "", 0), "%s", presets[i]))
            continue;
        is_int(sizes_owned(&plan.shape, 1), plan.params_n,
               "one rank owns every parameter");
        int64_t before = plan.params_n;
        bool good = true;
        for (int r = 0; r < 6; r++) {
            int64_t n = sizes_owned(&plan.shape, ranks[r]);
            good &= n <= before && n * ranks[r] >= plan.params_n;
            before = n;
        }
        ok(good, "more ranks own less each, and all of it together");
    }
    make("llama-1b", "parallel.data: 8\ntrain.global_batch: 8\n"
         "parallel.shard_optimizer: true\n", 8);
    ok(plan.shard_optimizer && row("optimizer") < plan.params_n * 12 / 7,
       "8 ranks: %lld bytes of %lld", (long long)row("optimizer"),
       (long long)plan.params_n * 12);
    is_int(row("optimizer") / 12, plan.owned_n, "the row is what is owned");
    make("llama-1b", "parallel.data: 8\ntrain.global_batch: 8\n", 8);
    is_int(plan.owned_n, plan.params_n, "GPUs, not asked for: all");
    make("llama-1b", "parallel.data: 8\ntrain.global_batch: 8\n", 0);
    ok(plan.shard_optimizer, "CPUs: by itself");
    make("llama-1b", "parallel.data: 8\ntrain.global_batch: 8\n"
         "parallel.shard_optimizer: false\n", 0);
    is_int(plan.owned_n, plan.params_n, "switched off: all");
}

static void test_params(void)
{
    static const struct {
        const char *preset;
        int64_t params; /* as published, learned positions included */
    } rows[] = {
        {"gpt2-124m", 124439808}, {"gpt2-350m", 354823168},
        {"gpt2-774m", 774030080}, {"gpt2-1558m", 1557611200},
        {"llama-1b", 1235814400}, {"llama-3b", 3212749824},
        {"llama-8b", 8030261248},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ok(!make(rows[i].preset, "", 8), "%s", rows[i].preset))
            is_int(plan.params_n, rows[i].params, "has its parameters");
}

/* Worked examples of Megatron-LM's and torchtitan's formulas, GFLOP. */
static void test_flop(void)
{
    make("llama-8b", "train.seq_len: 8192\n", 8);
    is_near(plan.flop_token_half / 1e9, 51.47, 0.005, "8B, 8192, half");
    is_near(plan.flop_token_full / 1e9, 57.91, 0.005, "8B, 8192, full");
    make("llama-8b", "train.seq_len: 4096\n", 8);
    is_near(plan.flop_token_half / 1e9, 48.25, 0.005, "8B, 4096, half");
    is_near(plan.flop_token_full / 1e9, 51.47, 0.005, "8B, 4096, full");
    make("gpt3-7b", "", 8);
    is_near(plan.flop_token_full / 1e9, 43.1, 0.05, "GPT 7B, 2048, full");
}

static void test_hash(void)
{
    char hash[33];
    make("llama-nano", "", 0);
    memcpy(hash, plan.hash, sizeof hash);
    is_int(strlen(hash), 32, "a hash has 32 digits");
    make("llama-nano", "train.micro_batch: 2\ncheckpoint.interval: 7\n"
         "optim.decay_steps: 10\nrecovery.max_restarts: 1\n", 0);
    is_str(plan.hash, hash, "how the work is cut does not change it");
    static const char *const changes[] = {
        "optim.lr: 1e-3\n", "run.seed: 5\n", "train.global_batch: 32\n",
        "train.seq_len: 128\n", "model.tied: false\n", "optim.z_loss: 1e-4\n",
        "model.layers: 5\n", "data.eod_mask_loss: true\n",
        "optim.warmup_steps: 3\n", "train.precision: fp64\n"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        ok(!make("llama-nano", changes[i], 0) && strcmp(plan.hash, hash),
           "this does: %.*s", (int)strcspn(changes[i], "\n"), changes[i]);
}

/* What auto computes again: no more than must be. */
static void check_auto(const char *preset, const char *more, int whole,
                       int cheap)
{
    if (!ok(!make(preset, more, 1), "%s fits one H200", preset))
        return;
    is_int(plan.recompute_whole, whole, "layers whole");
    is_int(plan.recompute_cheap, cheap, "layers what is cheap");
    int64_t limit = plan_gpu_bytes(gpu);
    ok(plan.memory_bytes <= limit, "%lld of %lld bytes",
       (long long)plan.memory_bytes, (long long)limit);
}

static void test_auto(void)
{
    gpu = "NVIDIA H200";
    ok(plan_gpu_bytes(gpu) > 0 &&
       plan_gpu_bytes("a card of tomorrow") == 0, "GPUs that are known");
    check_auto("gpt2-1558m", "train.micro_batch: 8\n", 0, 0);
    check_auto("gpt3-7b", "train.micro_batch: 4\n"
               "train.deterministic: false\n", 0, 23);
    check_auto("llama-8b", "train.seq_len: 4096\ntrain.gradients: bf16\n"
               "train.deterministic: false\n", 0, 8);
    ok(!make("llama-8b", "train.seq_len: 8192\ntrain.gradients: bf16\n", 1) &&
       plan.recompute_whole > 0 &&
       plan.recompute_whole + plan.recompute_cheap == plan.shape.L,
       "longer sequences: some whole, of the others what is cheap");
    ok(make("llama-8b", "train.seq_len: 8192\n", 1), "not with fp32 gradients");
    ok(notes.refusals_n && strstr(notes.refusal[0], "'train.gradients'") &&
       strstr(notes.refusal[0], "give bf16"), "which is told");
    gpu = "";
}

int main(void)
{
    test_rows();
    test_layouts();
    test_cuda_operations();
    test_owned();
    test_params();
    test_auto();
    test_flop();
    test_hash();
    return tap_done();
}
