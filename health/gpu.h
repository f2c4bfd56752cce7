/* gpu - what the driver says of the node's GPUs, as plain values: read from
 * NVML (nvml.c) or from a record of another machine, judged by probe_gpu.c.
 *
 * A value that the driver does not have (an old one, another model, no right
 * to ask) is GPU_UNKNOWN and judged by nobody. The record is text, a line a
 * value: `gpu 0 temperature 31`.
 */
#ifndef KB_HEALTH_GPU_H
#define KB_HEALTH_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/base/err.h"
#include "runner/base/str.h"

#define GPU_UNKNOWN INT64_MIN
enum { GPUS_MAX = 32, GPU_FAILURES_MAX = 64 };

enum gpu_value {
    GPU_LOST, /* 1: a call said so; the other values are then unknown */
    GPU_MINOR,
    GPU_ECC_CORRECTED_DRAM, /* since the driver was loaded */
    GPU_ECC_CORRECTED_SRAM,
    GPU_ECC_UNCORRECTED_DRAM,
    GPU_ECC_UNCORRECTED_SRAM,
    GPU_ECC_LIFE_UNCORRECTED_DRAM,
    GPU_ECC_LIFE_UNCORRECTED_SRAM,
    GPU_RETIRED_SINGLE,
    GPU_RETIRED_DOUBLE,
    GPU_RETIRED_PENDING,
    GPU_REMAPPED_CORRECTED,
    GPU_REMAPPED_UNCORRECTED,
    GPU_BANKS_FULL, /* memory banks that have no spare row left */
    GPU_REMAP_IS_PENDING,
    GPU_REMAP_HAS_FAILED,
    GPU_RECOVERY_ACTION, /* 0 none 1 reset 2 reboot 3 drain 4 drain, reset */
    GPU_CLOCK_REASONS,   /* bits */
    GPU_TEMPERATURE,
    GPU_TEMPERATURE_SLOWDOWN,
    GPU_POWER_LIMIT_MW,
    GPU_POWER_DEFAULT_MW,
    GPU_PCIE_WIDTH,
    GPU_PCIE_WIDTH_MAX,
    GPU_PCIE_GEN,
    GPU_PCIE_GEN_MAX,
    GPU_PCIE_REPLAYS_N,
    GPU_NVLINKS_ACTIVE,
    GPU_NVLINKS_N,       /* links that the GPU has */
    GPU_NVLINK_ERRORS_N, /* replays and recoveries of all links */
    GPU_NVLINK_MB_PER_S, /* of each active link */
    GPU_NVLINK_CRC_N,    /* repaired errors of all links */
    GPU_FABRIC_STATE,    /* 0 none 1 not started 2 in progress 3 completed */
    GPU_FABRIC_STATUS,   /* 0: joined */
    GPU_PERSISTENCE,
    GPU_COMPUTE_MODE_IS,
    GPU_MIG,
    GPU_MEMORY_USED,
    GPU_PROCESSES,
    GPU_ECC_MODE,        /* 1: on */
    GPU_SLOWED_HEAT_US,  /* time of slowed clocks since the driver's load */
    GPU_SLOWED_BOARD_US,
    GPU_INFOROM_BAD,     /* 1: its check fails; asked only when full */
    GPU_VALUE_N
};
extern const char *const gpu_value_names[GPU_VALUE_N];

struct gpu {
    char name[96], uuid[96], pci[32], vbios[32], inforom[32];
    /* To each GPU a letter, "-" to itself, "?" unknown. access: y, n not
     * possible, d switched off. near: 1 one switch, 2 several, 3 one host
     * bridge, 4 one NUMA node, 5 none of these. */
    char access[GPUS_MAX + 1], near[GPUS_MAX + 1];
    int64_t value[GPU_VALUE_N];
};

/* A call that failed in another way than "I do not have that". */
struct gpu_failure {
    int gpu; /* -1: of the node */
    char call[64];
    int code;
};

struct gpus {
    char driver[80];
    struct gpu gpu[GPUS_MAX];
    int n;
    struct gpu_failure failure[GPU_FAILURES_MAX];
    int failure_n;
};

/* All values unknown, no GPU. Large: static, or the caller's allocation. */
void gpus_init(struct gpus *gpus);
/* The record; without UUIDs, which name a machine. */
void gpus_write(const struct gpus *gpus, struct sbuf *out);
/* Lines that are none of a record are an error. */
int gpus_parse(const char *text, struct gpus *ret, struct err *err);

/* ---- The driver, asked through its library ----------------------------- */

/* Before each call the teller is told which, so that somebody knows it when
 * the call never comes back. */
struct nvml_teller {
    void (*at)(void *arg, const char *call, int gpu);
    void *arg;
};

struct nvml;

/* `path`, or by its usual name if NULL. NULL with err: there is no library or
 * driver; *ret_code is what the driver said, 0 if it was not asked. */
struct nvml *nvml_open(const char *path, const struct nvml_teller *teller,
                       int *ret_code, struct err *err);
/* All values, or those of GPU `only` if it is not negative. `full`: what takes
 * longer, too. */
void nvml_read(struct nvml *nvml, bool full, int only, struct gpus *ret);
void nvml_close(struct nvml *nvml);

/* Xids as they come. 0; -1: this driver has no events. */
int nvml_listen(struct nvml *nvml);
struct nvml_xid {
    int gpu; /* index; -1: a GPU that is not known */
    int xid;
};
/* Waits at most timeout_ms. 1: *ret set; 0: nothing came; -1: the driver does
 * not tell events any more. */
int nvml_wait(struct nvml *nvml, int timeout_ms, struct nvml_xid *ret);

#endif
