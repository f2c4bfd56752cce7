/* fake_nvml - a libnvidia-ml.so.1 that answers from a record of GPUs, so that
 * the real loading path is tested where there is no GPU. From the environment:
 *   FAKE_NVML=FILE    the record (health/gpu.h); read again when it changes
 *   FAKE_FAULT=CALL GPU ACTION: the call (names of nvml_abi.h) on that GPU
 *     (-1: of the node) hangs, crashes, or returns the number ACTION; a word
 *     that begins with a slash is a file that holds such a line, or is absent
 *   FAKE_EVENTS=FILE  a line `XID GPU` added to it is an event
 * %h in a file's name is the host's.
 * With FAKE_OLD defined it has only what drivers of 2018 had.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "health/gpu.h"
#include "health/nvml_abi.h"
#include "runner/base/file.h"

static struct gpus gpus;

static int index_of(nvml_device d)
{
    return (int)(intptr_t)d - 1;
}

/* The file that a variable names; NULL: none. */
static const char *file_of(const char *variable, char dst[PATH_MAX])
{
    char host[128] = "";
    const char *text = getenv(variable), *mark = text ? strstr(text, "%h") : 0;
    if (!mark)
        return text;
    gethostname(host, sizeof host - 1);
    snprintf(dst, PATH_MAX, "%.*s%s%s", (int)(mark - text), text, host,
             mark + 2);
    return dst;
}

static int fault(const char *call, int gpu)
{
    char name[64], action[32], path[PATH_MAX], line[256];
    int which;
    const char *text = file_of("FAKE_FAULT", path);
    if (text && *text == '/') {
        FILE *file = fopen(text, "r");
        text = file && fgets(line, sizeof line, file) ? line : NULL;
        if (file)
            fclose(file);
    }
    if (!text || sscanf(text, "%63s %d %31s", name, &which, action) != 3 ||
        strcmp(name, call) || which != gpu)
        return NVML_OK;
    if (!strcmp(action, "hangs"))
        for (;;)
            pause();
    if (!strcmp(action, "crashes")) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own */
        raise(SIGSEGV);
    }
    return atoi(action);
}

/* The record, if it changed. */
static int refresh(void)
{
    static struct timespec last;
    static off_t last_bytes;
    char full[PATH_MAX];
    struct stat st;
    const char *path = file_of("FAKE_NVML", full);
    if (!path || stat(path, &st))
        return NVML_DRIVER_NOT_LOADED;
    if (st.st_mtim.tv_sec == last.tv_sec &&
        st.st_mtim.tv_nsec == last.tv_nsec && st.st_size == last_bytes)
        return NVML_OK;
    last = st.st_mtim;
    last_bytes = st.st_size;
    char *text = file_read(path, 1 << 20, NULL, NULL);
    if (!text)
        return NVML_DRIVER_NOT_LOADED;
    int rc = gpus_parse(text, &gpus, NULL);
    free(text);
    return rc ? NVML_UNKNOWN_ERROR : NVML_OK;
}

#define NODE_CALL(call)                                                        \
    do {                                                                       \
        int code_ = fault(call, -1);                                           \
        if (code_)                                                             \
            return code_;                                                      \
    } while (0)

#define GPU_CALL(call)                                                         \
    struct gpu *gpu = &gpus.gpu[index_of(d)];                                  \
    do {                                                                       \
        int code_ = fault(call, index_of(d));                                  \
        if (code_)                                                             \
            return code_;                                                      \
        if (gpu->value[GPU_LOST] == 1)                                         \
            return NVML_GPU_LOST;                                              \
        if (gpu->value[GPU_LOST] == 2)                                         \
            return NVML_RESET_REQUIRED;                                        \
    } while (0)

static int give(struct gpu *gpu, enum gpu_value value, unsigned *ret)
{
    if (gpu->value[value] == GPU_UNKNOWN)
        return NVML_NOT_SUPPORTED;
    *ret = (unsigned)gpu->value[value];
    return NVML_OK;
}

static int give_long(struct gpu *gpu, enum gpu_value value,
                     unsigned long long *ret)
{
    if (gpu->value[value] == GPU_UNKNOWN)
        return NVML_NOT_SUPPORTED;
    *ret = (unsigned long long)gpu->value[value];
    return NVML_OK;
}

static int give_text(const char *text, char *dst, unsigned bytes)
{
    if (!*text)
        return NVML_NOT_SUPPORTED;
    return str_copy(dst, bytes, text) ? NVML_OK : NVML_INSUFFICIENT_SIZE;
}

int nvmlInit_v2(void)
{
    NODE_CALL("init");
    return refresh();
}

int nvmlShutdown(void)
{
    NODE_CALL("shutdown");
    return NVML_OK;
}

int nvmlSystemGetDriverVersion(char *dst, unsigned bytes)
{
    NODE_CALL("driver");
    return give_text(gpus.driver, dst, bytes);
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
    NODE_CALL("count");
    refresh();
    *ret = (unsigned)gpus.n;
    return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device *ret)
{
    nvml_device d = (nvml_device)(intptr_t)(i + 1);
    GPU_CALL("handle");
    *ret = d;
    return NVML_OK;
}

#define TEXT(symbol, call, member)                                             \
    int symbol(nvml_device d, char *dst, unsigned bytes)                       \
    {                                                                          \
        GPU_CALL(call);                                                        \
        return give_text(gpu->member, dst, bytes);                             \
    }
#define NUMBER(symbol, call, value)                                            \
    int symbol(nvml_device d, unsigned *ret)                                   \
    {                                                                          \
        GPU_CALL(call);                                                        \
        return give(gpu, value, ret);                                          \
    }

TEXT(nvmlDeviceGetName, "name", name)
TEXT(nvmlDeviceGetUUID, "uuid", uuid)
TEXT(nvmlDeviceGetVbiosVersion, "vbios", vbios)
TEXT(nvmlDeviceGetInforomImageVersion, "inforom", inforom)
NUMBER(nvmlDeviceGetMinorNumber, "minor", GPU_MINOR)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending",
       GPU_RETIRED_PENDING)
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit", GPU_POWER_LIMIT_MW)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default",
       GPU_POWER_DEFAULT_MW)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", GPU_PCIE_WIDTH)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", GPU_PCIE_WIDTH_MAX)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen", GPU_PCIE_GEN)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max", GPU_PCIE_GEN_MAX)
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replays", GPU_PCIE_REPLAYS_N)
NUMBER(nvmlDeviceGetPersistenceMode, "persistence", GPU_PERSISTENCE)
NUMBER(nvmlDeviceGetComputeMode, "compute_mode", GPU_COMPUTE_MODE_IS)

int nvmlDeviceGetPciInfo_v3(nvml_device d, struct nvml_pci *ret)
{
    GPU_CALL("pci");
    memset(ret, 0, sizeof *ret);
    return give_text(gpu->pci, ret->bus_id, sizeof ret->bus_id);
}

int nvmlDeviceGetMemoryErrorCounter(nvml_device d, int kind, int since,
                                    int place, unsigned long long *ret)
{
    GPU_CALL("ecc");
    enum gpu_value value =
        since == NVML_AGGREGATE
            ? (place == NVML_IN_DRAM ? GPU_ECC_LIFE_UNCORRECTED_DRAM
                                     : GPU_ECC_LIFE_UNCORRECTED_SRAM)
        : kind == NVML_CORRECTED
            ? (place == NVML_IN_DRAM ? GPU_ECC_CORRECTED_DRAM
                                     : GPU_ECC_CORRECTED_SRAM)
            : (place == NVML_IN_DRAM ? GPU_ECC_UNCORRECTED_DRAM
                                     : GPU_ECC_UNCORRECTED_SRAM);
    return give_long(gpu, value, ret);
}

int nvmlDeviceGetRetiredPages(nvml_device d, int cause, unsigned *n,
                              unsigned long long *pages)
{
    GPU_CALL("retired");
    int code = give(gpu, cause ? GPU_RETIRED_DOUBLE : GPU_RETIRED_SINGLE, n);
    return code == NVML_OK && *n && !pages ? NVML_INSUFFICIENT_SIZE : code;
}

int nvmlDeviceGetTemperature(nvml_device d, int sensor, unsigned *ret)
{
    GPU_CALL("temperature");
    return give(gpu, GPU_TEMPERATURE, ret);
}

int nvmlDeviceGetTemperatureThreshold(nvml_device d, int which, unsigned *ret)
{
    GPU_CALL("threshold");
    return give(gpu, GPU_TEMPERATURE_SLOWDOWN, ret);
}

int nvmlDeviceGetNvLinkState(nvml_device d, unsigned link, unsigned *ret)
{
    GPU_CALL("link_state");
    if (gpu->value[GPU_NVLINKS_N] == GPU_UNKNOWN ||
        (int64_t)link >= gpu->value[GPU_NVLINKS_N])
        return NVML_NOT_SUPPORTED;
    *ret = (int64_t)link < gpu->value[GPU_NVLINKS_ACTIVE];
    return NVML_OK;
}

/* All errors of the record are on link 0. */
int nvmlDeviceGetNvLinkErrorCounter(nvml_device d, unsigned link, int counter,
                                    unsigned long long *ret)
{
    GPU_CALL("link_errors");
    *ret = 0;
    if (link == 0 && counter == NVML_LINK_CRC)
        give_long(gpu, GPU_NVLINK_CRC_N, ret);
    return link == 0 && counter == NVML_LINK_REPLAY
               ? give_long(gpu, GPU_NVLINK_ERRORS_N, ret)
               : NVML_OK;
}

int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *ret)
{
    GPU_CALL("memory");
    return give_long(gpu, GPU_MEMORY_USED, &ret->used);
}

#ifndef FAKE_OLD
int nvmlDeviceGetMemoryInfo_v2(nvml_device d, struct nvml_memory_2 *ret)
{
    GPU_CALL("memory_2");
    if (ret->version != NVML_MEMORY_2)
        return NVML_VERSION_MISMATCH;
    return give_long(gpu, GPU_MEMORY_USED, &ret->used);
}
#endif

static int reasons(nvml_device d, unsigned long long *ret)
{
    GPU_CALL("clock_reasons");
    return give_long(gpu, GPU_CLOCK_REASONS, ret);
}

static int processes(nvml_device d, unsigned *n)
{
    GPU_CALL("processes");
    int code = give(gpu, GPU_PROCESSES, n);
    return code == NVML_OK && *n ? NVML_INSUFFICIENT_SIZE : code;
}

#ifdef FAKE_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(nvml_device d,
                                              unsigned long long *ret)
{
    return reasons(d, ret);
}

int nvmlDeviceGetComputeRunningProcesses(nvml_device d, unsigned *n, void *to)
{
    return processes(d, n);
}
#else
int nvmlDeviceGetCurrentClocksEventReasons(nvml_device d,
                                           unsigned long long *ret)
{
    return reasons(d, ret);
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device d, unsigned *n,
                                            void *to)
{
    return processes(d, n);
}

int nvmlDeviceGetRemappedRows(nvml_device d, unsigned *corrected,
                              unsigned *uncorrected, unsigned *pending,
                              unsigned *failed)
{
    GPU_CALL("remapped");
    int code = give(gpu, GPU_REMAPPED_CORRECTED, corrected);
    if (!code)
        code = give(gpu, GPU_REMAPPED_UNCORRECTED, uncorrected);
    if (!code)
        code = give(gpu, GPU_REMAP_IS_PENDING, pending);
    return code ? code : give(gpu, GPU_REMAP_HAS_FAILED, failed);
}

int nvmlDeviceGetFieldValues(nvml_device d, int n, struct nvml_field *fields)
{
    GPU_CALL("fields");
    for (int i = 0; i < n; i++) {
        enum gpu_value value =
            fields[i].field == NVML_FIELD_RECOVERY_ACTION ? GPU_RECOVERY_ACTION
            : fields[i].field == NVML_FIELD_LINK_SPEED    ? GPU_NVLINK_MB_PER_S
                                                          : GPU_VALUE_N;
        fields[i].type = 1;
        fields[i].code = value == GPU_VALUE_N
                             ? NVML_NOT_SUPPORTED
                             : give(gpu, value, &fields[i].value.u);
    }
    return NVML_OK;
}

int nvmlDeviceGetRowRemapperHistogram(nvml_device d, struct nvml_banks *ret)
{
    GPU_CALL("banks");
    *ret = (struct nvml_banks){.all = 512};
    return give(gpu, GPU_BANKS_FULL, &ret->none);
}

int nvmlDeviceGetP2PStatus(nvml_device d, nvml_device other, int which,
                           int *ret)
{
    GPU_CALL("access");
    char letter = gpu->access[index_of(other)];
    *ret = letter == 'y' ? NVML_ACCESS_OK : letter == 'd' ? NVML_ACCESS_OFF : 5;
    return strchr("ynd", letter) && letter ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetTopologyCommonAncestor(nvml_device d, nvml_device other,
                                        int *ret)
{
    GPU_CALL("near");
    char letter = gpu->near[index_of(other)];
    *ret = (letter - '0') * 10;
    return letter >= '0' && letter <= '5' ? NVML_OK : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetGpuFabricInfo(nvml_device d, struct nvml_fabric *ret)
{
    unsigned state = 0, status = 0;
    GPU_CALL("fabric");
    int code = give(gpu, GPU_FABRIC_STATE, &state);
    if (!code)
        code = give(gpu, GPU_FABRIC_STATUS, &status);
    *ret = (struct nvml_fabric){.state = (unsigned char)state,
                                .status = (int)status};
    return code;
}

int nvmlDeviceGetMigMode(nvml_device d, unsigned *ret, unsigned *pending)
{
    GPU_CALL("mig");
    *pending = 0;
    return give(gpu, GPU_MIG, ret);
}

int nvmlDeviceGetEccMode(nvml_device d, unsigned *ret, unsigned *pending)
{
    GPU_CALL("ecc_mode");
    *pending = 0;
    return give(gpu, GPU_ECC_MODE, ret);
}

int nvmlDeviceGetViolationStatus(nvml_device d, int which,
                                 struct nvml_violation *ret)
{
    GPU_CALL("violation");
    int code = give_long(gpu,
                         which == NVML_VIOLATION_THERMAL ? GPU_SLOWED_HEAT_US
                                                         : GPU_SLOWED_BOARD_US,
                         &ret->violation_ns);
    ret->violation_ns *= 1000;
    return code;
}

int nvmlDeviceValidateInforom(nvml_device d)
{
    GPU_CALL("inforom_check");
    return gpu->value[GPU_INFOROM_BAD] == GPU_UNKNOWN ? NVML_NOT_SUPPORTED
           : gpu->value[GPU_INFOROM_BAD]              ? NVML_INFOROM_BAD
                                                      : NVML_OK;
}

/* ---- Events ---------------------------------------------------------- */

static FILE *events;
static bool listened[GPUS_MAX];

int nvmlEventSetCreate(nvml_event_set *ret)
{
    NODE_CALL("event_create");
    *ret = (nvml_event_set)&events;
    return NVML_OK;
}

int nvmlDeviceGetSupportedEventTypes(nvml_device d, unsigned long long *ret)
{
    GPU_CALL("event_types");
    *ret = NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT;
    return NVML_OK;
}

int nvmlDeviceRegisterEvents(nvml_device d, unsigned long long types,
                             nvml_event_set set)
{
    GPU_CALL("event_register");
    listened[index_of(d)] = types & NVML_EVENT_XID;
    return NVML_OK;
}

int nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *ret,
                        unsigned timeout_ms)
{
    char full[PATH_MAX], line[128];
    const char *path = file_of("FAKE_EVENTS", full);
    int xid, gpu;
    for (unsigned ms = 0;; ms += 20) {
        NODE_CALL("event_wait");
        if (!events && path)
            events = fopen(path, "r");
        if (events && fgets(line, sizeof line, events)) {
            if (sscanf(line, "%d %d", &xid, &gpu) != 2 || gpu < 0 ||
                gpu >= GPUS_MAX || !listened[gpu])
                continue;
            *ret = (struct nvml_event){
                .device = (nvml_device)(intptr_t)(gpu + 1),
                .type = NVML_EVENT_XID,
                .data = (unsigned long long)xid};
            refresh();
            return NVML_OK;
        }
        if (events)
            clearerr(events);
        if (ms >= timeout_ms)
            return NVML_TIMEOUT;
        usleep(20000);
    }
}

int nvmlEventSetFree(nvml_event_set set)
{
    NODE_CALL("event_free");
    if (events)
        fclose(events);
    events = NULL;
    return NVML_OK;
}
#endif
