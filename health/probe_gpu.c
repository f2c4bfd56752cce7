/* probe_gpu - are the GPUs there, whole, cool, linked, and idle?
 *
 * The values come from the driver (in a child: it may hang) or a record; the
 * rules below are rows. What the driver does not say is judged by nobody.
 */
#include "health/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "health/gpu.h"
#include "health/nvml_abi.h"
#include "runner/base/str.h"

#define PCI "/sys/bus/pci/devices"
enum { PCI_MAX = 4096, VENDOR_NVIDIA = 0x10de };

struct scene {
    const struct look *look;
    struct findings *findings;
    struct gpus gpus;
    int on_bus; /* GPUs that the PCI bus shows */
};

/* What a finding is about: the UUID where the driver gave it. */
static const char *subject(const struct scene *scene, int i, char dst[96])
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    if (*gpu->uuid)
        str_copy(dst, 96, gpu->uuid);
    else
        snprintf(dst, 96, "gpu%d", i);
    return dst;
}

/* ---- Rules of one value: bad when it is over the limit ------------------- */

static const struct rule {
    enum gpu_value value;
    enum finding_code code;
    int64_t limit;
    const char *key; /* the site's limit instead; NULL: fixed */
} rules[] = {
    {GPU_ECC_UNCORRECTED_DRAM, F_GPU_ECC_UNCORRECTED, 0, NULL},
    {GPU_ECC_UNCORRECTED_SRAM, F_GPU_ECC_UNCORRECTED, 0, NULL},
    {GPU_ECC_LIFE_UNCORRECTED_SRAM, F_GPU_ECC_SRAM, 0, NULL},
    {GPU_ECC_CORRECTED_DRAM, F_GPU_ECC_CORRECTED, 0,
     "gpu.ecc_corrected_dram"},
    {GPU_ECC_CORRECTED_SRAM, F_GPU_ECC_CORRECTED, 0,
     "gpu.ecc_corrected_sram"},
    {GPU_RETIRED_PENDING, F_GPU_PAGES_PENDING, 0, NULL},
    {GPU_REMAP_IS_PENDING, F_GPU_REMAP_PENDING, 0, NULL},
    {GPU_REMAP_HAS_FAILED, F_GPU_REMAP_FAILED, 0, NULL},
    {GPU_BANKS_FULL, F_GPU_BANKS_FULL, 0, NULL},
    {GPU_REMAPPED_UNCORRECTED, F_GPU_REMAP_MANY, 0, "gpu.rows_remapped"},
    {GPU_PCIE_REPLAYS_N, F_GPU_PCIE_REPLAYS, 0, "gpu.pcie_replays"},
    {GPU_NVLINK_ERRORS_N, F_GPU_NVLINK_ERRORS, 0, NULL},
    {GPU_COMPUTE_MODE_IS, F_GPU_COMPUTE_MODE, 0, NULL},
    {GPU_MIG, F_GPU_MIG_ON, 0, NULL},
};

static void check_rules(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        int64_t v = gpu->value[rules[r].value];
        int64_t limit = rules[r].key
                            ? conf_int(scene->look->site, rules[r].key)
                            : rules[r].limit;
        if (v != GPU_UNKNOWN && v > limit)
            findings_add(scene->findings, rules[r].code, who, "%s %lld",
                         gpu_value_names[rules[r].value], (long long)v);
    }
}

/* ---- Rules of several values ---------------------------------------- */

static bool known(const struct gpu *gpu, enum gpu_value a, enum gpu_value b)
{
    return gpu->value[a] != GPU_UNKNOWN && gpu->value[b] != GPU_UNKNOWN;
}

static void check_memory(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    int64_t single = gpu->value[GPU_RETIRED_SINGLE];
    int64_t twice = gpu->value[GPU_RETIRED_DOUBLE];
    if (known(gpu, GPU_RETIRED_SINGLE, GPU_RETIRED_DOUBLE) &&
        single + twice > conf_int(scene->look->site, "gpu.pages_retired"))
        findings_add(scene->findings, F_GPU_PAGES_RETIRED, who, "%lld pages",
                     (long long)(single + twice));
}

static void check_recovery(struct scene *scene, int i, const char *who)
{
    static const enum finding_code codes[] = {
        0, F_GPU_RECOVERY_RESET, F_GPU_RECOVERY_REBOOT, F_GPU_RECOVERY_DRAIN,
        F_GPU_RECOVERY_DRAIN};
    int64_t v = scene->gpus.gpu[i].value[GPU_RECOVERY_ACTION];
    if (v >= 1 && v <= 4)
        findings_add(scene->findings, codes[v], who, "recovery_action %lld",
                     (long long)v);
}

static void check_heat_and_power(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    int64_t bad = NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL |
                  NVML_REASON_POWER_BRAKE;
    int64_t reasons = gpu->value[GPU_CLOCK_REASONS];
    int64_t margin = conf_int(scene->look->site, "gpu.temperature_margin");
    if (reasons != GPU_UNKNOWN && (reasons & bad))
        findings_add(scene->findings, F_GPU_HW_SLOWDOWN, who,
                     "clock reasons 0x%llx", (unsigned long long)reasons);
    if (known(gpu, GPU_TEMPERATURE, GPU_TEMPERATURE_SLOWDOWN) &&
        gpu->value[GPU_TEMPERATURE_SLOWDOWN] > 0 &&
        gpu->value[GPU_TEMPERATURE] >
            gpu->value[GPU_TEMPERATURE_SLOWDOWN] - margin)
        findings_add(scene->findings, F_GPU_HOT, who,
                     "%lld degrees, slows down at %lld",
                     (long long)gpu->value[GPU_TEMPERATURE],
                     (long long)gpu->value[GPU_TEMPERATURE_SLOWDOWN]);
    if (known(gpu, GPU_POWER_LIMIT_MW, GPU_POWER_DEFAULT_MW) &&
        gpu->value[GPU_POWER_LIMIT_MW] < gpu->value[GPU_POWER_DEFAULT_MW])
        findings_add(scene->findings, F_GPU_POWER_CAPPED, who,
                     "%lld W of %lld",
                     (long long)gpu->value[GPU_POWER_LIMIT_MW] / 1000,
                     (long long)gpu->value[GPU_POWER_DEFAULT_MW] / 1000);
}

/* The PCI generation falls when the GPU is idle; the width does not. */
static void check_pcie(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    if (known(gpu, GPU_PCIE_WIDTH, GPU_PCIE_WIDTH_MAX) &&
        gpu->value[GPU_PCIE_WIDTH] < gpu->value[GPU_PCIE_WIDTH_MAX])
        findings_add(scene->findings, F_GPU_PCIE_NARROW, who, "x%lld of x%lld",
                     (long long)gpu->value[GPU_PCIE_WIDTH],
                     (long long)gpu->value[GPU_PCIE_WIDTH_MAX]);
}

/* Links that came up slow are still links. */
static void check_link_speed(struct scene *scene, const struct gpu *gpu,
                             const char *who)
{
    int64_t most = 0, speed = gpu->value[GPU_NVLINK_MB_PER_S];
    for (int j = 0; j < scene->gpus.n; j++)
        if (!strcmp(scene->gpus.gpu[j].name, gpu->name) &&
            scene->gpus.gpu[j].value[GPU_NVLINK_MB_PER_S] > most)
            most = scene->gpus.gpu[j].value[GPU_NVLINK_MB_PER_S];
    if (speed != GPU_UNKNOWN && speed < most)
        findings_add(scene->findings, F_GPU_NVLINK_SLOW, who,
                     "%lld MB/s a link, others %lld", (long long)speed,
                     (long long)most);
}

/* A GPU lent alone to a virtual machine has no link by will; one without links
 * beside others that have some has lost them. */
static void check_nvlink(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    int64_t active = gpu->value[GPU_NVLINKS_ACTIVE], most = 0;
    int64_t expected = conf_int(scene->look->site, "expect.gpu_nvlinks");
    for (int j = 0; j < scene->gpus.n; j++)
        if (scene->gpus.gpu[j].value[GPU_NVLINKS_ACTIVE] > most)
            most = scene->gpus.gpu[j].value[GPU_NVLINKS_ACTIVE];
    if (expected < 0)
        expected = most ? gpu->value[GPU_NVLINKS_N] : 0;
    if (active != GPU_UNKNOWN && active < expected)
        findings_add(scene->findings, F_GPU_NVLINK_DOWN, who,
                     "%lld of %lld active", (long long)active,
                     (long long)expected);
    check_link_speed(scene, gpu, who);
    int64_t state = gpu->value[GPU_FABRIC_STATE];
    if (state == 2 || (state == 1 && most))
        findings_add(scene->findings, F_GPU_FABRIC_NOT_READY, who,
                     "fabric_state %lld", (long long)state);
    if (state == 3 && gpu->value[GPU_FABRIC_STATUS] != 0)
        findings_add(scene->findings, F_GPU_FABRIC_FAILED, who,
                     "fabric_status %lld",
                     (long long)gpu->value[GPU_FABRIC_STATUS]);
}

/* Idle is expected by root, before and after a job; not by a user in one. */
static void check_idle(struct scene *scene, int i, const char *who)
{
    const struct look *look = scene->look;
    const struct gpu *gpu = &scene->gpus.gpu[i];
    int64_t used = gpu->value[GPU_MEMORY_USED];
    if (gpu->value[GPU_PERSISTENCE] == 0)
        findings_add(scene->findings, F_GPU_PERSISTENCE_OFF, who,
                     "persistence mode 0");
    if (look->user || (source_is_live(&look->source) && geteuid() != 0))
        return;
    if (gpu->value[GPU_PROCESSES] > 0 ||
        (used != GPU_UNKNOWN && gpu->value[GPU_MIG] != 1 &&
         used > conf_int(look->site, "gpu.memory_used")))
        findings_add(scene->findings, F_GPU_BUSY, who,
                     "%lld processes, %.1f GiB in use",
                     (long long)(gpu->value[GPU_PROCESSES] == GPU_UNKNOWN
                                     ? 0
                                     : gpu->value[GPU_PROCESSES]),
                     used == GPU_UNKNOWN ? 0 : (double)used / (1 << 30));
}

/* What CUDA calls it when it orders by the bus (CUDA_DEVICE_ORDER); -1: not
 * known. */
static int cuda_ordinal(const struct scene *scene, int i)
{
    const struct gpu *gpu = scene->gpus.gpu;
    int before = 0;
    for (int j = 0; j < scene->gpus.n; j++) {
        if (!*gpu[j].pci)
            return -1;
        before += strcasecmp(gpu[j].pci, gpu[i].pci) < 0;
    }
    return before;
}

/* All its names. */
static void note_gpu(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    char name[32], minor[40] = "", cuda[40] = "";
    int ordinal = cuda_ordinal(scene, i);
    snprintf(name, sizeof name, "gpu %d", i);
    if (gpu->value[GPU_MINOR] != GPU_UNKNOWN)
        snprintf(minor, sizeof minor, ", minor %lld",
                 (long long)gpu->value[GPU_MINOR]);
    if (ordinal >= 0)
        snprintf(cuda, sizeof cuda, ", CUDA %d by the bus", ordinal);
    findings_note(scene->findings, name, "%s, %s, PCI %s%s%s",
                  *gpu->name ? gpu->name : "name not known", who,
                  *gpu->pci ? gpu->pci : "not known", minor, cuda);
}

static void check_gpu(struct scene *scene, int i)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    char who[96];
    subject(scene, i, who);
    note_gpu(scene, i, who);
    if (gpu->value[GPU_LOST] != GPU_UNKNOWN) {
        if (gpu->value[GPU_LOST] == 2)
            findings_add(scene->findings, F_GPU_RECOVERY_RESET, who,
                         "calls say that a reset is required");
        else
            findings_add(scene->findings, F_GPU_LOST, who, "PCI %s",
                         *gpu->pci ? gpu->pci : "not known");
        return;
    }
    check_rules(scene, i, who);
    check_memory(scene, i, who);
    check_recovery(scene, i, who);
    check_heat_and_power(scene, i, who);
    check_pcie(scene, i, who);
    check_nvlink(scene, i, who);
    check_idle(scene, i, who);
}

/* ---- Rules of the node ---------------------------------------------- */

static void check_mixed(struct scene *scene)
{
    const struct gpu *first = &scene->gpus.gpu[0];
    for (int i = 1; i < scene->gpus.n; i++) {
        const struct gpu *gpu = &scene->gpus.gpu[i];
        const char *what = strcmp(gpu->name, first->name)       ? "model"
                           : strcmp(gpu->vbios, first->vbios)   ? "VBIOS"
                           : strcmp(gpu->inforom, first->inforom)
                               ? "InfoROM"
                               : NULL;
        if (!what || gpu->value[GPU_LOST] != GPU_UNKNOWN ||
            first->value[GPU_LOST] != GPU_UNKNOWN)
            continue;
        findings_add(scene->findings, F_GPU_MIXED, "node",
                     "%s of gpu %d is not that of gpu 0", what, i);
        return;
    }
}

/* How many others a GPU does not reach, for reasons that are no choice. */
static int count_cut(const struct gpu *gpu)
{
    int n = 0;
    for (const char *p = gpu->access; *p; p++)
        n += *p == 'n';
    return n;
}

/* Where NVLinks join the GPUs and some reach each other, all must. One that
 * reaches less than half of the others is to blame, not they. */
static void check_access(struct scene *scene)
{
    const struct gpus *gpus = &scene->gpus;
    bool reached = false;
    char who[96];
    for (int i = 0; i < gpus->n; i++) {
        reached |= strchr(gpus->gpu[i].access, 'y') != NULL;
        if (gpus->gpu[i].value[GPU_NVLINKS_ACTIVE] <= 0)
            return;
    }
    for (int i = 0; i < gpus->n && reached; i++) {
        const struct gpu *gpu = &gpus->gpu[i];
        bool alone = 2 * count_cut(gpu) > gpus->n - 1;
        int cut = 0;
        for (int j = 0; gpu->access[j] && j < gpus->n; j++)
            cut += gpu->access[j] == 'n' &&
                   (alone || 2 * count_cut(&gpus->gpu[j]) <= gpus->n - 1);
        if (cut)
            findings_add(scene->findings, F_GPU_PEER_CUT,
                         subject(scene, i, who), "access %s", gpu->access);
    }
}

/* Who reaches whom and how near they are, as a line each: the same on each node
 * of a kind. */
static void note_ways(struct scene *scene)
{
    struct sbuf access = SBUF_INIT, near = SBUF_INIT;
    for (int i = 0; i < scene->gpus.n; i++) {
        sbuf_printf(&access, "%s%s", i ? " " : "", scene->gpus.gpu[i].access);
        sbuf_printf(&near, "%s%s", i ? " " : "", scene->gpus.gpu[i].near);
    }
    if (strpbrk(access.data, "ynd"))
        findings_note(scene->findings, "peer access", "%s", access.data);
    if (strpbrk(near.data, "012345"))
        findings_note(scene->findings, "gpu topology", "%s", near.data);
    sbuf_release(&access);
    sbuf_release(&near);
}

static void check_failures(struct scene *scene)
{
    for (int i = 0; i < scene->gpus.failure_n; i++) {
        const struct gpu_failure *failure = &scene->gpus.failure[i];
        char who[96] = "node";
        if (failure->gpu >= 0 && failure->gpu < GPUS_MAX)
            subject(scene, failure->gpu, who);
        findings_add(scene->findings, F_GPU_CALL_FAILS, who,
                     "NVML %s gave code %d", failure->call, failure->code);
    }
}

static void check_count(struct scene *scene)
{
    int expected = (int)conf_int(scene->look->site, "expect.gpus");
    if (scene->gpus.n < expected)
        findings_add(scene->findings, F_GPU_COUNT_LOW, "node",
                     "the driver shows %d, %d expected", scene->gpus.n,
                     expected);
    if (expected < 0 && scene->gpus.n < scene->on_bus)
        findings_add(scene->findings, F_GPU_BUS_MISMATCH, "node",
                     "the driver shows %d, the bus %d", scene->gpus.n,
                     scene->on_bus);
}

/* Display controllers of NVIDIA: classes 0x0300xx and 0x0302xx. The driver may
 * show fewer by will (a container, a card lent to a virtual machine), so that
 * the bus is a hint and expect.gpus the judge. */
static int count_on_bus(const struct source *source)
{
    static char names[PCI_MAX][SOURCE_NAME_BYTES];
    char text[32];
    int found = 0, n = source_list(source, names, PCI_MAX, PCI);
    for (int i = 0; i < n; i++) {
        if (source_read(source, text, sizeof text, PCI "/%s/vendor",
                        names[i]) ||
            strtoul(text, NULL, 16) != VENDOR_NVIDIA ||
            source_read(source, text, sizeof text, PCI "/%s/class", names[i]))
            continue;
        unsigned long class = strtoul(text, NULL, 16) >> 8;
        found += class == 0x0300 || class == 0x0302;
    }
    return found;
}

static void tell_call(void *arg, const char *call, int gpu)
{
    struct findings *findings = arg;
    if (gpu < 0)
        findings_at(findings, "NVML %s", call);
    else
        findings_at(findings, "NVML %s of gpu %d", call, gpu);
}

int probe_read_gpus(const struct look *look, struct findings *findings,
                    struct gpus *ret, struct err *err)
{
    if (source_is_live(&look->source) || look->nvml)
        return nvml_read(look->nvml, ret, tell_call, findings, err);
    char *text = source_text(&look->source, "/gpus");
    if (!text)
        return err_set(err, "no GPUs recorded");
    int rc = gpus_parse(text, ret, err);
    free(text);
    return rc;
}

void probe_gpu(const struct look *look, struct findings *findings)
{
    static struct scene scene;
    struct err err = ERR_INIT;
    scene.look = look;
    scene.findings = findings;
    scene.on_bus = count_on_bus(&look->source);
    int expected = (int)conf_int(look->site, "expect.gpus");
    if (probe_read_gpus(look, findings, &scene.gpus, &err)) {
        if (expected > 0)
            findings_add(findings, F_GPU_ABSENT, "node", "%s", err.msg);
        else if (expected < 0 && scene.on_bus > 0)
            findings_add(findings, F_GPU_BUS_MISMATCH, "node",
                         "the bus shows %d; %s", scene.on_bus, err.msg);
        else
            findings_skip(findings, "%s",
                          err.class == ERR_REQUEST ? err.msg : "no GPU");
        return;
    }
    if (*scene.gpus.driver)
        findings_note(findings, "gpu driver", "%s", scene.gpus.driver);
    check_count(&scene);
    for (int i = 0; i < scene.gpus.n; i++)
        check_gpu(&scene, i);
    if (scene.gpus.n > 1) {
        check_mixed(&scene);
        check_access(&scene);
        note_ways(&scene);
    }
    check_failures(&scene);
    if (!scene.gpus.n && !expected)
        findings_skip(findings, "no GPU");
}
