/* probe_active - try the idle GPUs: koboshi-health-gpu loads them, and the
 * driver is asked meanwhile and after what that did.
 *
 * What the trial says is judged in active_judge.c; here: the clocks and heat
 * under load, and the counters that moved.
 */
#include "health/trial.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health/nvml_abi.h"
#include "runner/base/clock.h"

#define SAMPLE_S 0.25

/* What the driver said under load, the worst of all samples. */
struct load {
    int64_t reasons, temperature, generation;
};

struct trial {
    const struct look *look;
    struct findings *findings;
    struct gpus before, after;
    struct active active;
    struct load *load; /* [GPUS_MAX], shared with the sampler; NULL: none */
    pid_t sampler;     /* 0: none */
};

/* ---- Under load --------------------------------------------------------- */

static void take_sample(struct load *load, const struct gpus *gpus)
{
    for (int i = 0; i < gpus->n; i++) {
        const int64_t *value = gpus->gpu[i].value;
        if (value[GPU_CLOCK_REASONS] != GPU_UNKNOWN)
            load[i].reasons |= value[GPU_CLOCK_REASONS];
        if (value[GPU_TEMPERATURE] > load[i].temperature)
            load[i].temperature = value[GPU_TEMPERATURE];
        if (value[GPU_PCIE_GEN] > load[i].generation)
            load[i].generation = value[GPU_PCIE_GEN];
    }
}

/* A child that asks the driver while the trial runs: it may hang there. */
static void start_sampler(struct trial *t)
{
    static struct gpus gpus;
    pid_t parent = getpid();
    if (!source_is_live(&t->look->source) && !t->look->nvml)
        return;
    t->load = mmap(NULL, GPUS_MAX * sizeof *t->load, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t->load == MAP_FAILED) {
        t->load = NULL;
        return;
    }
    t->sampler = fork();
    if (t->sampler)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code;
    struct nvml *nvml = nvml_open(t->look->nvml, NULL, &code, NULL);
    while (nvml && getppid() == parent) {
        nvml_read(nvml, false, -1, &gpus);
        take_sample(t->load, &gpus);
        clock_sleep_s(SAMPLE_S);
    }
    _exit(0);
}

static void stop_sampler(struct trial *t)
{
    if (t->sampler <= 0)
        return;
    kill(t->sampler, SIGKILL);
    for (int i = 0; i < 50 && !waitpid(t->sampler, NULL, WNOHANG); i++)
        clock_sleep_s(0.002); /* in the driver it may stay */
}

static void judge_load(struct trial *t, const struct active_gpu *gpu)
{
    const struct load *load = &t->load[gpu->index];
    const int64_t *value = t->before.gpu[gpu->index].value;
    int64_t bad = NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL |
                  NVML_REASON_POWER_BRAKE;
    int64_t margin = conf_int(t->look->site, "gpu.temperature_margin");
    char name[64];
    if (!load->temperature)
        return; /* never sampled */
    snprintf(name, sizeof name, "gpu %d under load", gpu->index);
    findings_note(t->findings, name,
                  "%lld degrees, clock reasons 0x%llx, PCI generation %lld",
                  (long long)load->temperature,
                  (unsigned long long)load->reasons,
                  (long long)load->generation);
    if (load->reasons & bad)
        findings_add(t->findings, F_GPU_HW_SLOWDOWN, gpu->who,
                     "under load: clock reasons 0x%llx",
                     (unsigned long long)load->reasons);
    if (value[GPU_TEMPERATURE_SLOWDOWN] > 0 &&
        load->temperature > value[GPU_TEMPERATURE_SLOWDOWN] - margin)
        findings_add(t->findings, F_GPU_HOT, gpu->who,
                     "under load: %lld degrees, slows down at %lld",
                     (long long)load->temperature,
                     (long long)value[GPU_TEMPERATURE_SLOWDOWN]);
    if (load->generation > 0 && load->generation < value[GPU_PCIE_GEN_MAX])
        findings_add(t->findings, F_GPU_PCIE_SLOW, gpu->who,
                     "under load: generation %lld of %lld",
                     (long long)load->generation,
                     (long long)value[GPU_PCIE_GEN_MAX]);
}

/* Counters that must not move in half a minute. */
static const struct moved_row {
    enum gpu_value value;
    enum finding_code code;
} moved_rows[] = {
    {GPU_ECC_UNCORRECTED_DRAM, F_GPU_ECC_UNCORRECTED},
    {GPU_ECC_UNCORRECTED_SRAM, F_GPU_ECC_UNCORRECTED},
    {GPU_REMAP_IS_PENDING, F_GPU_REMAP_PENDING},
    {GPU_REMAP_HAS_FAILED, F_GPU_REMAP_FAILED},
    {GPU_NVLINK_ERRORS_N, F_GPU_NVLINK_ERRORS},
};

static void judge_moved(struct trial *t, const struct active_gpu *gpu)
{
    for (size_t r = 0; r < sizeof moved_rows / sizeof *moved_rows; r++) {
        enum gpu_value which = moved_rows[r].value;
        int64_t old = t->before.gpu[gpu->index].value[which];
        int64_t new = t->after.gpu[gpu->index].value[which];
        if (old != GPU_UNKNOWN && new != GPU_UNKNOWN && new > old)
            findings_add(t->findings, moved_rows[r].code, gpu->who,
                         "under load: %s %lld, before %lld",
                         gpu_value_names[which], (long long)new,
                         (long long)old);
    }
    if (t->after.gpu[gpu->index].value[GPU_LOST] != GPU_UNKNOWN)
        findings_add(t->findings, F_GPU_LOST, gpu->who, "after the trial");
}

void probe_active(const struct look *look, struct findings *findings)
{
    static struct trial trial;
    struct trial *t = &trial;
    struct err err = ERR_INIT;
    char why[256];
    t->look = look;
    t->findings = findings;
    if (probe_read_gpus(look, findings, &t->before, &err)) {
        findings_skip(findings, "no GPU");
        return;
    }
    trial_choose(look, findings, &t->before, &t->active);
    if (!t->active.gpu_n) {
        findings_skip(findings, "no idle GPU");
        return;
    }
    start_sampler(t);
    double seconds = conf_real(look->site, "active.seconds");
    int rc = trial_run(look, findings, &t->active, seconds, NULL, why,
                       sizeof why);
    if (*why)
        findings_add(findings, F_ACTIVE_UNKNOWN, "node", "%s", why);
    if (!rc)
        active_judge(&t->active, look->site, findings);
    stop_sampler(t);
    if (probe_read_gpus(look, findings, &t->after, &err))
        return;
    for (int i = 0; i < t->active.gpu_n; i++) {
        if (t->load)
            judge_load(t, &t->active.gpu[i]);
        judge_moved(t, &t->active.gpu[i]);
    }
}
