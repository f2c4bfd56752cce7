/* gpu_rules - are the GPUs whole, cool, linked, and idle? Rows and rules on
 * values that probe_gpu.c has read. What the driver does not say is judged by
 * nobody.
 */
#include "health/probe_gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "health/nvml_abi.h"
#include "runner/base/str.h"

const char *gpu_subject(const struct scene *scene, int i, char dst[96])
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
    {GPU_REMAPPED_UNCORRECTED, F_GPU_REMAP_MANY, 0, "gpu.rows_remapped"},
    {GPU_BANKS_FULL, F_GPU_BANKS_FULL, 0, NULL},
    {GPU_INFOROM_BAD, F_GPU_INFOROM_BAD, 0, NULL},
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
    if (gpu->value[GPU_ECC_MODE] == 0)
        findings_add(scene->findings, F_GPU_ECC_OFF, who, "ecc_mode 0");
}

/* ---- Rules of growth ------------------------------------------------------
 * A counter has no meaning by itself: what counts is how fast it grows. At the
 * first look all that is known is the sum since the driver was loaded. */

/* What a second, or a minute, of the link's rate may lose: one bit in 10^12. */
static double replays_per_minute(const struct gpu *gpu)
{
    static const double by_gen[] = {0.15, 0.30, 0.48, 0.96, 1.92, 3.84};
    int64_t gen = gpu->value[GPU_PCIE_GEN_MAX];
    int64_t width = gpu->value[GPU_PCIE_WIDTH_MAX];
    if (gen < 1 || gen > 6 || width < 1 || width > 32)
        return 16;
    return ceil(by_gen[gen - 1] * (double)width);
}

static double at_least_one(double minutes)
{
    return minutes > 1 ? minutes : 1;
}

static void check_replays(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    int64_t v = gpu->value[GPU_PCIE_REPLAYS_N];
    struct growth grown;
    if (v == GPU_UNKNOWN)
        return;
    if (!look_grown(scene->look, scene->findings, who, "pcie_replays", v,
                    &grown)) {
        if (v > conf_int(scene->look->site, "gpu.pcie_replays"))
            findings_add(scene->findings, F_GPU_PCIE_REPLAYS, who,
                         "pcie_replays %lld", (long long)v);
    } else if ((double)grown.more >
               replays_per_minute(gpu) * at_least_one(grown.minutes)) {
        findings_add(scene->findings, F_GPU_PCIE_REPLAYS, who,
                     "%lld more in %.1f minutes, %.0f a minute are normal",
                     (long long)grown.more, grown.minutes,
                     replays_per_minute(gpu));
    }
}

static void check_links(struct scene *scene, int i, const char *who)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    int64_t errors = gpu->value[GPU_NVLINK_ERRORS_N];
    int64_t crc = gpu->value[GPU_NVLINK_CRC_N];
    struct growth grown;
    if (errors != GPU_UNKNOWN) {
        bool known = look_grown(scene->look, scene->findings, who,
                                "nvlink_errors", errors, &grown);
        if (known && grown.more > 0)
            findings_add(scene->findings, F_GPU_NVLINK_ERRORS, who,
                         "%lld more in %.1f minutes", (long long)grown.more,
                         grown.minutes);
        else if (!known && errors > 0)
            findings_add(scene->findings, F_GPU_NVLINK_ERRORS, who,
                         "nvlink_errors %lld", (long long)errors);
    }
    double per_s = conf_real(scene->look->site, "gpu.nvlink_crc_per_s");
    if (crc != GPU_UNKNOWN &&
        look_grown(scene->look, scene->findings, who, "nvlink_crc", crc,
                   &grown) &&
        (double)grown.more >= per_s * 60 * at_least_one(grown.minutes))
        findings_add(scene->findings, F_GPU_NVLINK_CRC, who,
                     "%lld more in %.1f minutes", (long long)grown.more,
                     grown.minutes);
}

static void check_slowed(struct scene *scene, int i, const char *who)
{
    static const enum gpu_value values[] = {GPU_SLOWED_HEAT_US,
                                            GPU_SLOWED_BOARD_US};
    double percent = conf_real(scene->look->site, "gpu.slowed_percent");
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        int64_t v = scene->gpus.gpu[i].value[values[k]];
        struct growth grown;
        if (v == GPU_UNKNOWN ||
            !look_grown(scene->look, scene->findings, who,
                        gpu_value_names[values[k]], v, &grown) ||
            grown.minutes <= 0)
            continue;
        double share = (double)grown.more / (grown.minutes * 60e6) * 100;
        if (share >= percent)
            findings_add(scene->findings, F_GPU_SLOWED, who,
                         "%s: %.1f %% of %.1f minutes",
                         gpu_value_names[values[k]], share, grown.minutes);
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

/* Idle is expected by root, before and after a job; not by a user in one, nor
 * by who watches one. */
static void check_idle(struct scene *scene, int i, const char *who)
{
    const struct look *look = scene->look;
    const struct gpu *gpu = &scene->gpus.gpu[i];
    int64_t used = gpu->value[GPU_MEMORY_USED];
    if (gpu->value[GPU_PERSISTENCE] == 0)
        findings_add(scene->findings, F_GPU_PERSISTENCE_OFF, who,
                     "persistence mode 0");
    if (look->user || look->watch_s > 0 ||
        (source_is_live(&look->source) && geteuid() != 0))
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

void gpu_judge(struct scene *scene, int i)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    char who[96];
    gpu_subject(scene, i, who);
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
    check_replays(scene, i, who);
    check_nvlink(scene, i, who);
    check_links(scene, i, who);
    check_slowed(scene, i, who);
    check_idle(scene, i, who);
}
