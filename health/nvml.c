/* nvml - ask the GPU driver through its own library; see gpu.h.
 *
 * The library is opened at run time and any function may be missing. It may
 * hang or crash: the caller is a child that may die. What a function does not
 * have for this GPU is unknown; a GPU that is said to be lost is asked nothing
 * more, for each further question may take seconds.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/gpu.h"
#include "health/nvml_abi.h"

struct nvml {
#define MEMBER(name, symbol, older, args) int (*name) args;
    NVML_FUNCTIONS(MEMBER)
#undef MEMBER
    void *library;
    struct gpus *gpus; /* that are read now; NULL: none */
    int gpu;           /* that is asked now; -1: the node */
    struct nvml_teller teller;
    nvml_event_set events;
    nvml_device device[GPUS_MAX]; /* as they registered for events */
};

static void load(struct nvml *nvml)
{
    /* dlsym gives a data pointer; POSIX wants it to be assigned this way. */
#define LOAD(name, symbol, older, args)                                        \
    *(void **)(void *)&nvml->name = dlsym(nvml->library, symbol);              \
    if (!nvml->name && (older))                                                \
        *(void **)(void *)&nvml->name =                                        \
            dlsym(nvml->library, (older) ? (older) : "");
    NVML_FUNCTIONS(LOAD)
#undef LOAD
}

/* True when the answer counts. Other failures than "not here" are noted. */
static bool answered(struct nvml *nvml, const char *call, int code)
{
    static const int not_here[] = {
        NVML_NOT_SUPPORTED, NVML_NO_PERMISSION, NVML_FUNCTION_NOT_FOUND,
        NVML_NO_DATA,       NVML_DEPRECATED,    NVML_VERSION_MISMATCH,
        NVML_BLOCKED};
    struct gpus *gpus = nvml->gpus;
    if (code == NVML_OK)
        return true;
    for (size_t i = 0; i < sizeof not_here / sizeof *not_here; i++)
        if (code == not_here[i])
            return false;
    if (!gpus)
        return false;
    if (nvml->gpu >= 0 && (code == NVML_GPU_LOST ||
                           code == NVML_RESET_REQUIRED)) {
        gpus->gpu[nvml->gpu].value[GPU_LOST] = code == NVML_GPU_LOST ? 1 : 2;
    } else if (gpus->failure_n < GPU_FAILURES_MAX) {
        struct gpu_failure *failure = &gpus->failure[gpus->failure_n++];
        failure->gpu = nvml->gpu;
        failure->code = code;
        str_copy(failure->call, sizeof failure->call, call);
    }
    return false;
}

/* Call a function if the library has it and the GPU is not lost. */
#define ASK(function, ...)                                                     \
    (nvml->function && !is_lost(nvml) && before(nvml, #function) &&            \
     answered(nvml, #function, nvml->function(__VA_ARGS__)))

static bool is_lost(const struct nvml *nvml)
{
    return nvml->gpu >= 0 && nvml->gpus &&
           nvml->gpus->gpu[nvml->gpu].value[GPU_LOST] != GPU_UNKNOWN;
}

static bool before(struct nvml *nvml, const char *call)
{
    if (nvml->teller.at)
        nvml->teller.at(nvml->teller.arg, call, nvml->gpu);
    return true;
}

/* ---- One subject each ------------------------------------------------ */

static void read_identity(struct nvml *nvml, nvml_device d, struct gpu *gpu)
{
    struct nvml_pci pci = {0};
    unsigned u;
    if (!ASK(name, d, gpu->name, sizeof gpu->name))
        gpu->name[0] = 0;
    if (!ASK(uuid, d, gpu->uuid, sizeof gpu->uuid))
        gpu->uuid[0] = 0;
    if (ASK(pci, d, &pci)) {
        pci.bus_id[sizeof pci.bus_id - 1] = 0;
        str_copy(gpu->pci, sizeof gpu->pci, pci.bus_id);
    }
    if (!ASK(vbios, d, gpu->vbios, sizeof gpu->vbios))
        gpu->vbios[0] = 0;
    if (!ASK(inforom, d, gpu->inforom, sizeof gpu->inforom))
        gpu->inforom[0] = 0;
    if (ASK(minor, d, &u))
        gpu->value[GPU_MINOR] = u;
}

static void read_memory_errors(struct nvml *nvml, nvml_device d,
                               struct gpu *gpu)
{
    static const struct {
        enum gpu_value value;
        int kind, since, place;
    } rows[] = {
        {GPU_ECC_CORRECTED_DRAM, NVML_CORRECTED, NVML_VOLATILE, NVML_IN_DRAM},
        {GPU_ECC_CORRECTED_SRAM, NVML_CORRECTED, NVML_VOLATILE, NVML_IN_SRAM},
        {GPU_ECC_UNCORRECTED_DRAM, NVML_UNCORRECTED, NVML_VOLATILE,
         NVML_IN_DRAM},
        {GPU_ECC_UNCORRECTED_SRAM, NVML_UNCORRECTED, NVML_VOLATILE,
         NVML_IN_SRAM},
        {GPU_ECC_LIFE_UNCORRECTED_DRAM, NVML_UNCORRECTED, NVML_AGGREGATE,
         NVML_IN_DRAM},
        {GPU_ECC_LIFE_UNCORRECTED_SRAM, NVML_UNCORRECTED, NVML_AGGREGATE,
         NVML_IN_SRAM},
    };
    unsigned long long n;
    unsigned a, b, c, e;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (ASK(ecc, d, rows[i].kind, rows[i].since, rows[i].place, &n))
            gpu->value[rows[i].value] = (int64_t)n;
    if (ASK(remapped, d, &a, &b, &c, &e)) {
        gpu->value[GPU_REMAPPED_CORRECTED] = a;
        gpu->value[GPU_REMAPPED_UNCORRECTED] = b;
        gpu->value[GPU_REMAP_IS_PENDING] = c;
        gpu->value[GPU_REMAP_HAS_FAILED] = e;
    }
    if (ASK(retired_pending, d, &a))
        gpu->value[GPU_RETIRED_PENDING] = a;
    struct nvml_banks banks;
    if (ASK(banks, d, &banks))
        gpu->value[GPU_BANKS_FULL] = banks.none;
    if (ASK(ecc_mode, d, &a, &b))
        gpu->value[GPU_ECC_MODE] = a;
}

/* With no room given the number of pages comes back with "too small". */
static void read_retired(struct nvml *nvml, nvml_device d, struct gpu *gpu,
                         int cause, enum gpu_value value)
{
    unsigned n = 0;
    if (!nvml->retired || is_lost(nvml))
        return;
    before(nvml, "retired");
    int code = nvml->retired(d, cause, &n, NULL);
    if (code == NVML_INSUFFICIENT_SIZE || answered(nvml, "retired", code))
        gpu->value[value] = n;
}

static void read_processes(struct nvml *nvml, nvml_device d, struct gpu *gpu)
{
    unsigned n = 0;
    if (!nvml->processes || is_lost(nvml))
        return;
    before(nvml, "processes");
    int code = nvml->processes(d, &n, NULL);
    if (code == NVML_INSUFFICIENT_SIZE || answered(nvml, "processes", code))
        gpu->value[GPU_PROCESSES] = n;
}

static int read_field(struct nvml *nvml, nvml_device d, unsigned which,
                      int64_t *ret)
{
    struct nvml_field field = {.field = which};
    if (!ASK(fields, d, 1, &field) || field.code != NVML_OK)
        return -1;
    *ret = field.type == 1 ? (int64_t)field.value.u
                           : (int64_t)field.value.ull;
    return 0;
}

static void read_recovery(struct nvml *nvml, nvml_device d, struct gpu *gpu)
{
    read_field(nvml, d, NVML_FIELD_RECOVERY_ACTION,
               &gpu->value[GPU_RECOVERY_ACTION]);
}

static void read_numbers(struct nvml *nvml, nvml_device d, struct gpu *gpu)
{
    int64_t *value = gpu->value;
    unsigned long long reasons;
    struct nvml_memory_2 memory = {.version = NVML_MEMORY_2};
    struct nvml_memory older;
    unsigned u, other;
#define NUMBER(function, which)                                                \
    if (ASK(function, d, &u))                                                  \
        value[which] = u;
    NUMBER(power_limit, GPU_POWER_LIMIT_MW)
    NUMBER(power_default, GPU_POWER_DEFAULT_MW)
    NUMBER(pcie_width, GPU_PCIE_WIDTH)
    NUMBER(pcie_width_max, GPU_PCIE_WIDTH_MAX)
    NUMBER(pcie_gen, GPU_PCIE_GEN)
    NUMBER(pcie_gen_max, GPU_PCIE_GEN_MAX)
    NUMBER(pcie_replays, GPU_PCIE_REPLAYS_N)
    NUMBER(persistence, GPU_PERSISTENCE)
    NUMBER(compute_mode, GPU_COMPUTE_MODE_IS)
#undef NUMBER
    if (ASK(clock_reasons, d, &reasons))
        value[GPU_CLOCK_REASONS] = (int64_t)reasons;
    if (ASK(temperature, d, NVML_TEMPERATURE_GPU, &u))
        value[GPU_TEMPERATURE] = u;
    if (ASK(threshold, d, NVML_THRESHOLD_SLOWDOWN, &u))
        value[GPU_TEMPERATURE_SLOWDOWN] = u;
    struct nvml_violation slow;
    if (ASK(violation, d, NVML_VIOLATION_THERMAL, &slow))
        value[GPU_SLOWED_HEAT_US] = (int64_t)(slow.violation_ns / 1000);
    if (ASK(violation, d, NVML_VIOLATION_BOARD, &slow))
        value[GPU_SLOWED_BOARD_US] = (int64_t)(slow.violation_ns / 1000);
    if (ASK(mig, d, &u, &other))
        value[GPU_MIG] = u;
    if (ASK(memory_2, d, &memory))
        value[GPU_MEMORY_USED] = (int64_t)memory.used;
    else if (ASK(memory, d, &older))
        value[GPU_MEMORY_USED] = (int64_t)older.used;
}

/* Errors of all links: of each link, or of newer drivers the sum. */
static void read_link_errors(struct nvml *nvml, nvml_device d, int64_t links,
                             struct gpu *gpu)
{
    int64_t errors = 0, crc = 0, more = 0;
    int known = 0;
    for (unsigned i = 0; i < links; i++) {
        unsigned long long n;
        if (ASK(link_errors, d, i, NVML_LINK_REPLAY, &n) && ++known)
            errors += (int64_t)n;
        if (ASK(link_errors, d, i, NVML_LINK_RECOVERY, &n))
            errors += (int64_t)n;
        if (ASK(link_errors, d, i, NVML_LINK_CRC, &n))
            crc += (int64_t)n;
    }
    if (!known) {
        if (read_field(nvml, d, NVML_FIELD_LINK_REPLAY_TOTAL, &errors))
            return;
        read_field(nvml, d, NVML_FIELD_LINK_RECOVERY_TOTAL, &more);
        read_field(nvml, d, NVML_FIELD_LINK_CRC_TOTAL, &crc);
    }
    gpu->value[GPU_NVLINK_ERRORS_N] = errors + more;
    gpu->value[GPU_NVLINK_CRC_N] = crc;
}

/* The slowest so far. */
static void read_link_speed(struct nvml *nvml, nvml_device d, unsigned link,
                            int64_t *least)
{
    struct nvml_field field = {.field = NVML_FIELD_LINK_SPEED, .scope = link};
    if (ASK(fields, d, 1, &field) && field.code == NVML_OK &&
        field.type == 1 && field.value.u > 0 &&
        (*least == GPU_UNKNOWN || field.value.u < *least))
        *least = field.value.u;
}

static void read_links(struct nvml *nvml, nvml_device d, struct gpu *gpu)
{
    struct nvml_fabric fabric = {0};
    int64_t links = 0, active = 0;
    for (unsigned i = 0; i < NVML_LINKS_MAX; i++) {
        unsigned is_active;
        if (!ASK(link_state, d, i, &is_active))
            continue;
        links++;
        active += is_active != 0;
        if (is_active)
            read_link_speed(nvml, d, i, &gpu->value[GPU_NVLINK_MB_PER_S]);
    }
    if (links) {
        gpu->value[GPU_NVLINKS_N] = links;
        gpu->value[GPU_NVLINKS_ACTIVE] = active;
        read_link_errors(nvml, d, links, gpu);
        if (active && gpu->value[GPU_NVLINK_MB_PER_S] == GPU_UNKNOWN)
            read_field(nvml, d, NVML_FIELD_NVLINK_SPEED,
                       &gpu->value[GPU_NVLINK_MB_PER_S]);
    }
    if (ASK(fabric, d, &fabric)) {
        gpu->value[GPU_FABRIC_STATE] = fabric.state;
        gpu->value[GPU_FABRIC_STATUS] = fabric.status;
    }
}

/* From this GPU to each: does it reach its memory, and how near is it. */
static void read_ways(struct nvml *nvml, nvml_device d, struct gpu *gpu)
{
    int self = nvml->gpu, n = nvml->gpus->n, status, level;
    for (int i = 0; i < n && n > 1; i++) {
        nvml_device other = NULL;
        gpu->access[i] = gpu->near[i] = i == self ? '-' : '?';
        if (i == self || !ASK(handle, (unsigned)i, &other))
            continue;
        if (ASK(access, d, other, NVML_ACCESS_READ, &status))
            gpu->access[i] = status == NVML_ACCESS_OK    ? 'y'
                             : status == NVML_ACCESS_OFF ? 'd'
                                                         : 'n';
        if (ASK(near, d, other, &level) && level >= 0 && level < 100)
            gpu->near[i] = (char)('0' + level / 10);
    }
}

/* ---- The whole ------------------------------------------------------- */

static void read_gpu(struct nvml *nvml, int i, bool full, bool ways)
{
    struct gpu *gpu = &nvml->gpus->gpu[i];
    nvml_device d = NULL;
    nvml->gpu = i;
    nvml->device[i] = NULL;
    if (!ASK(handle, (unsigned)i, &d))
        return;
    nvml->device[i] = d;
    read_identity(nvml, d, gpu);
    read_memory_errors(nvml, d, gpu);
    read_retired(nvml, d, gpu, NVML_RETIRED_SINGLE, GPU_RETIRED_SINGLE);
    read_retired(nvml, d, gpu, NVML_RETIRED_DOUBLE, GPU_RETIRED_DOUBLE);
    read_recovery(nvml, d, gpu);
    read_numbers(nvml, d, gpu);
    read_links(nvml, d, gpu);
    if (ways)
        read_ways(nvml, d, gpu);
    read_processes(nvml, d, gpu);
    if (full && nvml->inforom_check && !is_lost(nvml)) {
        before(nvml, "inforom_check");
        int code = nvml->inforom_check(d);
        if (code == NVML_INFOROM_BAD || answered(nvml, "inforom_check", code))
            gpu->value[GPU_INFOROM_BAD] = code == NVML_INFOROM_BAD;
    }
}

void nvml_read(struct nvml *nvml, bool full, int only, struct gpus *ret)
{
    unsigned n = 0;
    gpus_init(ret);
    nvml->gpus = ret;
    nvml->gpu = -1;
    if (!ASK(driver, ret->driver, sizeof ret->driver))
        ret->driver[0] = 0;
    if (!ASK(count, &n))
        n = 0;
    ret->n = n < GPUS_MAX ? (int)n : GPUS_MAX;
    for (int i = 0; i < ret->n; i++)
        if (only < 0 || i == only)
            read_gpu(nvml, i, full, only < 0);
    nvml->gpus = NULL;
    nvml->gpu = -1;
}

struct nvml *nvml_open(const char *path, const struct nvml_teller *teller,
                       int *ret_code, struct err *err)
{
    struct nvml *nvml = calloc(1, sizeof *nvml);
    *ret_code = 0;
    if (!nvml) {
        err_set(err, "health: out of memory");
        return NULL;
    }
    nvml->gpu = -1;
    if (teller)
        nvml->teller = *teller;
    nvml->library = dlopen(path ? path : "libnvidia-ml.so.1",
                           RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        err_set(err, "nvml: no library: %s", dlerror());
        goto fail;
    }
    load(nvml);
    if (!nvml->init) {
        err_set(err, "nvml: the library is none: '%s'", path);
        goto fail;
    }
    before(nvml, "init");
    *ret_code = nvml->init();
    if (*ret_code == NVML_OK)
        return nvml;
    err_set(err, "nvml: no driver: code %d", *ret_code);
fail:
    if (nvml->library)
        dlclose(nvml->library);
    free(nvml);
    return NULL;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    nvml->gpu = -1;
    if (nvml->events)
        (void)ASK(event_free, nvml->events);
    (void)ASK(shutdown);
    dlclose(nvml->library);
    free(nvml);
}

/* ---- Events ---------------------------------------------------------- */

int nvml_listen(struct nvml *nvml)
{
    unsigned n = 0;
    int listening = 0;
    nvml->gpu = -1;
    if (!nvml->event_wait || !nvml->event_register || !ASK(count, &n) ||
        !ASK(event_create, &nvml->events))
        return -1;
    for (int i = 0; i < (int)n && i < GPUS_MAX; i++) {
        unsigned long long has = NVML_EVENT_XID;
        nvml_device d;
        nvml->gpu = i;
        if (!ASK(handle, (unsigned)i, &d))
            continue;
        nvml->device[i] = d;
        (void)ASK(event_types, d, &has);
        if (has & NVML_EVENT_XID)
            listening += ASK(event_register, d, NVML_EVENT_XID, nvml->events);
    }
    nvml->gpu = -1;
    return listening ? 0 : -1;
}

int nvml_wait(struct nvml *nvml, int timeout_ms, struct nvml_xid *ret)
{
    struct nvml_event event = {0};
    before(nvml, "event_wait");
    int code = nvml->event_wait(nvml->events, &event, (unsigned)timeout_ms);
    if (code == NVML_TIMEOUT)
        return 0;
    if (code != NVML_OK)
        return -1;
    if (!(event.type & NVML_EVENT_XID) || event.data > 1000000)
        return 0;
    *ret = (struct nvml_xid){.gpu = -1, .xid = (int)event.data};
    for (int i = 0; i < GPUS_MAX; i++)
        if (event.device && nvml->device[i] == event.device)
            ret->gpu = i;
    return 1;
}
