/* gpu_record - GPUs as lines of text and back; see gpu.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/gpu.h"

const char *const gpu_value_names[GPU_VALUE_N] = {
    [GPU_LOST] = "lost",
    [GPU_MINOR] = "minor",
    [GPU_ECC_CORRECTED_DRAM] = "ecc_corrected_dram",
    [GPU_ECC_CORRECTED_SRAM] = "ecc_corrected_sram",
    [GPU_ECC_UNCORRECTED_DRAM] = "ecc_uncorrected_dram",
    [GPU_ECC_UNCORRECTED_SRAM] = "ecc_uncorrected_sram",
    [GPU_ECC_LIFE_UNCORRECTED_DRAM] = "ecc_life_uncorrected_dram",
    [GPU_ECC_LIFE_UNCORRECTED_SRAM] = "ecc_life_uncorrected_sram",
    [GPU_RETIRED_SINGLE] = "retired_single",
    [GPU_RETIRED_DOUBLE] = "retired_double",
    [GPU_RETIRED_PENDING] = "retired_pending",
    [GPU_REMAPPED_CORRECTED] = "remapped_corrected",
    [GPU_REMAPPED_UNCORRECTED] = "remapped_uncorrected",
    [GPU_BANKS_FULL] = "banks_full",
    [GPU_REMAP_IS_PENDING] = "remap_pending",
    [GPU_REMAP_HAS_FAILED] = "remap_failed",
    [GPU_RECOVERY_ACTION] = "recovery_action",
    [GPU_CLOCK_REASONS] = "clock_reasons",
    [GPU_TEMPERATURE] = "temperature",
    [GPU_TEMPERATURE_SLOWDOWN] = "temperature_slowdown",
    [GPU_POWER_LIMIT_MW] = "power_limit_mw",
    [GPU_POWER_DEFAULT_MW] = "power_default_mw",
    [GPU_PCIE_WIDTH] = "pcie_width",
    [GPU_PCIE_WIDTH_MAX] = "pcie_width_max",
    [GPU_PCIE_GEN] = "pcie_gen",
    [GPU_PCIE_GEN_MAX] = "pcie_gen_max",
    [GPU_PCIE_REPLAYS_N] = "pcie_replays",
    [GPU_NVLINKS_ACTIVE] = "nvlinks_active",
    [GPU_NVLINKS_N] = "nvlinks",
    [GPU_NVLINK_ERRORS_N] = "nvlink_errors",
    [GPU_NVLINK_MB_PER_S] = "nvlink_mb_per_s",
    [GPU_NVLINK_CRC_N] = "nvlink_crc",
    [GPU_FABRIC_STATE] = "fabric_state",
    [GPU_FABRIC_STATUS] = "fabric_status",
    [GPU_PERSISTENCE] = "persistence",
    [GPU_COMPUTE_MODE_IS] = "compute_mode",
    [GPU_MIG] = "mig",
    [GPU_MEMORY_USED] = "memory_used",
    [GPU_PROCESSES] = "processes",
    [GPU_ECC_MODE] = "ecc_mode",
    [GPU_SLOWED_HEAT_US] = "slowed_heat_us",
    [GPU_SLOWED_BOARD_US] = "slowed_board_us",
    [GPU_INFOROM_BAD] = "inforom_bad",
};

/* The texts of a GPU, by name. */
static char *text_of(struct gpu *gpu, const char *name, size_t *ret_bytes)
{
    const struct {
        const char *name;
        char *text;
        size_t bytes;
    } rows[] = {
        {"name", gpu->name, sizeof gpu->name},
        {"uuid", gpu->uuid, sizeof gpu->uuid},
        {"pci", gpu->pci, sizeof gpu->pci},
        {"vbios", gpu->vbios, sizeof gpu->vbios},
        {"inforom", gpu->inforom, sizeof gpu->inforom},
        {"access", gpu->access, sizeof gpu->access},
        {"near", gpu->near, sizeof gpu->near},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) {
            *ret_bytes = rows[i].bytes;
            return rows[i].text;
        }
    return NULL;
}

void gpus_init(struct gpus *gpus)
{
    memset(gpus, 0, sizeof *gpus);
    for (int i = 0; i < GPUS_MAX; i++)
        for (int v = 0; v < GPU_VALUE_N; v++)
            gpus->gpu[i].value[v] = GPU_UNKNOWN;
}

void gpus_write(const struct gpus *gpus, struct sbuf *out)
{
    sbuf_printf(out, "driver %s\ngpus %d\n", gpus->driver, gpus->n);
    for (int i = 0; i < gpus->n; i++) {
        const struct gpu *gpu = &gpus->gpu[i];
        sbuf_printf(out,
                    "gpu %d name %s\ngpu %d uuid GPU-recorded-%d\n"
                    "gpu %d pci %s\ngpu %d vbios %s\ngpu %d inforom %s\n",
                    i, gpu->name, i, i, i, gpu->pci, i, gpu->vbios, i,
                    gpu->inforom);
        if (*gpu->access)
            sbuf_printf(out, "gpu %d access %s\n", i, gpu->access);
        if (*gpu->near)
            sbuf_printf(out, "gpu %d near %s\n", i, gpu->near);
        for (int v = 0; v < GPU_VALUE_N; v++)
            if (gpu->value[v] != GPU_UNKNOWN)
                sbuf_printf(out, "gpu %d %s %lld\n", i, gpu_value_names[v],
                            (long long)gpu->value[v]);
    }
    for (int i = 0; i < gpus->failure_n; i++)
        sbuf_printf(out, "failure %d %s %d\n", gpus->failure[i].gpu,
                    gpus->failure[i].call, gpus->failure[i].code);
}

/* `NAME VALUE...` of one GPU. */
static int parse_value(struct gpu *gpu, const char *name, const char *value)
{
    size_t bytes;
    char *text = text_of(gpu, name, &bytes);
    if (text) {
        str_copy(text, bytes, value);
        return 0;
    }
    for (int v = 0; v < GPU_VALUE_N; v++)
        if (!strcmp(gpu_value_names[v], name))
            return str_to_i64(value, &gpu->value[v]);
    return -1;
}

static int parse_line(const char *line, struct gpus *ret)
{
    char name[64];
    int i, at = 0;
    struct gpu_failure failure = {0};
    if (!*line || *line == '#')
        return 0;
    if (str_starts(line, "driver ")) {
        str_copy(ret->driver, sizeof ret->driver, line + 7);
        return 0;
    }
    if (sscanf(line, "gpus %d", &i) == 1) {
        ret->n = i;
        return i >= 0 && i <= GPUS_MAX ? 0 : -1;
    }
    if (sscanf(line, "failure %d %63s %d", &failure.gpu, failure.call,
               &failure.code) == 3) {
        if (ret->failure_n < GPU_FAILURES_MAX)
            ret->failure[ret->failure_n++] = failure;
        return 0;
    }
    if (sscanf(line, "gpu %d %63s %n", &i, name, &at) != 2 || !at || i < 0 ||
        i >= GPUS_MAX)
        return -1;
    return parse_value(&ret->gpu[i], name, line + at);
}

int gpus_parse(const char *text, struct gpus *ret, struct err *err)
{
    char line[512];
    gpus_init(ret);
    for (int number = 1; *text; number++) {
        size_t n = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < 511 ? n : 511), text);
        if (parse_line(line, ret)) {
            ret->n = 0; /* nothing of a broken record is judged */
            return err_set_class(err, ERR_REQUEST,
                                 "health: record of GPUs: line %d: '%s'",
                                 number, line);
        }
        text += n + (text[n] == '\n');
    }
    return 0;
}
