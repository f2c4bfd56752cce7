/* probe_active - try the idle GPUs: koboshi-health-gpu loads them, and the
 * driver is asked meanwhile and after what that did.
 *
 * A GPU that somebody uses is left alone, and so is one that is cut into
 * instances or kept for others. What the trial says is judged in
 * active_judge.c; here: who is tried, the child with its deadline, the clocks
 * and heat under load, the counters that moved.
 */
#include "health/active.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health/gpu.h"
#include "health/nvml_abi.h"
#include "runner/base/clock.h"
#include "runner/base/proc.h"

#define TRIAL "koboshi-health-gpu"
#define SAMPLE_S 0.25
#define LATE_S 1.5 /* the program ends itself before its deadline */
enum { OUT_BYTES = 1 << 20 };

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

/* ---- Who is tried ------------------------------------------------------ */

/* Is i in "0,2-3"? -1: that is no list. */
static int is_listed(const char *list, int i)
{
    int found = 0;
    for (const char *p = list; *p;) {
        int from, to, used = 0;
        if (sscanf(p, "%d-%d%n", &from, &to, &used) != 2) {
            if (sscanf(p, "%d%n", &from, &used) != 1)
                return -1;
            to = from;
        }
        if (from < 0 || to < from)
            return -1;
        found |= i >= from && i <= to;
        p += used;
        if (*p && *p++ != ',')
            return -1;
    }
    return found;
}

/* NULL: it may be tried. */
static const char *why_not(const struct trial *t, int i)
{
    const struct look *look = t->look;
    const int64_t *value = t->before.gpu[i].value;
    if (look->gpus && is_listed(look->gpus, i) <= 0)
        return "not asked for";
    if (value[GPU_LOST] != GPU_UNKNOWN)
        return "the driver lost it";
    if (!*t->before.gpu[i].pci)
        return "its PCI address is not known";
    if (value[GPU_MIG] == 1)
        return "it is cut into MIG instances";
    if (value[GPU_COMPUTE_MODE_IS] > 0)
        return "its compute mode keeps programs away";
    if (value[GPU_PROCESSES] > 0 ||
        value[GPU_MEMORY_USED] > conf_int(look->site, "gpu.memory_used"))
        return "somebody uses it";
    return NULL;
}

static void choose(struct trial *t)
{
    char name[64];
    for (int i = 0; i < t->before.n; i++) {
        const char *why = why_not(t, i);
        const struct gpu *gpu = &t->before.gpu[i];
        if (why) {
            snprintf(name, sizeof name, "not tried: gpu %d", i);
            findings_note(t->findings, name, "%s", why);
            continue;
        }
        struct active_gpu *to = &t->active.gpu[t->active.gpu_n++];
        to->index = i;
        str_copy(to->name, sizeof to->name, gpu->name);
        str_copy(to->pci, sizeof to->pci, gpu->pci);
        if (*gpu->uuid)
            str_copy(to->who, sizeof to->who, gpu->uuid);
        else
            snprintf(to->who, sizeof to->who, "gpu%d", i);
    }
}

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

/* ---- The child --------------------------------------------------------- */

static int find_program(const struct look *look, char *dst, size_t dst_bytes)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    const char *const folders[] = {self, KB_LIBEXECDIR "/koboshi"};
    if (look->trial)
        return str_copy(dst, dst_bytes, look->trial) && !access(dst, X_OK)
                   ? 0
                   : -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int len = snprintf(dst, dst_bytes, "%s/%s", folders[i], TRIAL);
        if (len > 0 && (size_t)len < dst_bytes && !access(dst, X_OK))
            return 0;
    }
    return -1;
}

/* The last line that it printed for people. */
static const char *last_words(struct proc_result *result)
{
    char *text = result->err.data;
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        text[--n] = 0;
    const char *last = strrchr(text, '\n');
    return last ? last + 1 : text;
}

static void unknown(struct trial *t, const char *what, const char *why)
{
    findings_add(t->findings, F_ACTIVE_UNKNOWN, "node", "%s%s%.160s", what,
                 *why ? ": " : "", why);
}

static void run(struct trial *t)
{
    char program[PATH_MAX], how[64];
    double seconds = conf_real(t->look->site, "active.seconds");
    struct proc_result result = {0};
    struct err err = ERR_INIT;
    if (find_program(t->look, program, sizeof program)) {
        unknown(t, TRIAL " is not installed",
                "Koboshi was built without CUDA");
        return;
    }
    char *request = active_request(
        &t->active, seconds, t->look->corrupt ? t->look->corrupt : "");
    const char *argv[] = {program, NULL};
    struct proc_spec spec = {.argv = argv,
                             .stdin_text = request,
                             .deadline_s = seconds + LATE_S,
                             .term_grace_s = 0.1,
                             .out_max_bytes = OUT_BYTES};
    findings_at(t->findings, TRIAL);
    if (!request || proc_run(&spec, &result, &err)) {
        unknown(t, "cannot start " TRIAL, err.msg);
    } else {
        active_read(&t->active, result.out.data);
        if (result.timed_out || result.exit_code)
            unknown(t, proc_result_text(&result, how, sizeof how),
                    last_words(&result));
        active_judge(&t->active, t->look->site, t->findings);
    }
    proc_result_release(&result);
    free(request);
}

void probe_active(const struct look *look, struct findings *findings)
{
    static struct trial trial;
    struct trial *t = &trial;
    struct err err = ERR_INIT;
    t->look = look;
    t->findings = findings;
    if (probe_read_gpus(look, findings, &t->before, &err)) {
        findings_skip(findings, "no GPU");
        return;
    }
    choose(t);
    if (!t->active.gpu_n) {
        findings_skip(findings, "no idle GPU");
        return;
    }
    start_sampler(t);
    run(t);
    stop_sampler(t);
    if (probe_read_gpus(look, findings, &t->after, &err))
        return;
    for (int i = 0; i < t->active.gpu_n; i++) {
        if (t->load)
            judge_load(t, &t->active.gpu[i]);
        judge_moved(t, &t->active.gpu[i]);
    }
}
