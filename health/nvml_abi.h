/* nvml_abi - the part of NVIDIA's management library that Koboshi asks, as its
 * binary interface has it; so that neither its header nor its library is needed
 * to build. Names without the library's prefix; numbers are the interface's.
 */
#ifndef KB_HEALTH_NVML_ABI_H
#define KB_HEALTH_NVML_ABI_H

enum nvml_code {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_INFOROM_BAD = 14,
    NVML_GPU_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_BLOCKED = 17, /* by the operating system: a cgroup, say */
    NVML_DRIVER_MISMATCH = 18, /* library and kernel module differ */
    NVML_NO_DATA = 21,
    NVML_VERSION_MISMATCH = 25,
    NVML_DEPRECATED = 26,
    NVML_UNKNOWN_ERROR = 999,
};

typedef struct nvml_device *nvml_device;
typedef struct nvml_event_set *nvml_event_set;

struct nvml_pci {
    char bus_id_short[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_memory {
    unsigned long long total, free, used;
};

/* The newer one, in which used leaves out what the driver keeps. */
struct nvml_memory_2 {
    unsigned version; /* NVML_MEMORY_2 */
    unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_2 ((unsigned)sizeof(struct nvml_memory_2) | 2u << 24)

struct nvml_field {
    unsigned field, scope;
    long long time_us, latency_us;
    unsigned type; /* 0 double, 1 unsigned, 2 ulong, 3 ulonglong, 4 longlong */
    int code;
    union {
        double d;
        unsigned u;
        unsigned long ul;
        unsigned long long ull;
        long long ll;
    } value;
};

/* How many banks of memory have all, many, some, few, none of their spare rows
 * left. */
struct nvml_banks {
    unsigned all, many, some, few, none;
};

struct nvml_fabric {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

struct nvml_event {
    nvml_device device;
    unsigned long long type; /* NVML_EVENT_ bits */
    unsigned long long data; /* of an Xid: its number */
    unsigned gpu_instance, compute_instance;
};

struct nvml_violation {
    unsigned long long reference_us, violation_ns;
};

enum {
    NVML_CORRECTED = 0,
    NVML_UNCORRECTED = 1,
    NVML_VOLATILE = 0,
    NVML_AGGREGATE = 1,
    NVML_IN_DRAM = 2,
    NVML_IN_SRAM = 7,
    NVML_RETIRED_SINGLE = 0,
    NVML_RETIRED_DOUBLE = 1,
    NVML_TEMPERATURE_GPU = 0,
    NVML_THRESHOLD_SLOWDOWN = 1,
    NVML_LINKS_MAX = 18,
    NVML_LINK_REPLAY = 0,
    NVML_LINK_RECOVERY = 1,
    NVML_FIELD_NVLINK_SPEED = 90, /* MB/s of each link, up to Ampere */
    NVML_FIELD_LINK_SPEED = 164,  /* of the link that scope says, since */
    NVML_LINK_CRC = 2,
    NVML_EVENT_DOUBLE_BIT = 0x2,
    NVML_EVENT_XID = 0x8,
    NVML_VIOLATION_THERMAL = 1,
    NVML_VIOLATION_BOARD = 3,
    NVML_FIELD_LINK_CRC_TOTAL = 38,
    NVML_FIELD_LINK_REPLAY_TOTAL = 52,
    NVML_FIELD_LINK_RECOVERY_TOTAL = 59,
    NVML_FIELD_RECOVERY_ACTION = 230,
    NVML_ACCESS_READ = 0,
    NVML_ACCESS_OK = 0,
    NVML_ACCESS_OFF = 4,
    NVML_REASON_HW_SLOWDOWN = 0x8,
    NVML_REASON_HW_THERMAL = 0x40,
    NVML_REASON_POWER_BRAKE = 0x80,
};

/* RETURN NAME ARGUMENTS: every function that is looked up, all of which return
 * an enum nvml_code. The newer name first where there are two; the same
 * signature behind both. */
#define NVML_FUNCTIONS(F)                                                      \
    F(init, "nvmlInit_v2", NULL, (void))                                       \
    F(shutdown, "nvmlShutdown", NULL, (void))                                  \
    F(driver, "nvmlSystemGetDriverVersion", NULL, (char *, unsigned))          \
    F(count, "nvmlDeviceGetCount_v2", NULL, (unsigned *))                      \
    F(handle, "nvmlDeviceGetHandleByIndex_v2", NULL,                           \
      (unsigned, nvml_device *))                                               \
    F(name, "nvmlDeviceGetName", NULL, (nvml_device, char *, unsigned))        \
    F(uuid, "nvmlDeviceGetUUID", NULL, (nvml_device, char *, unsigned))        \
    F(pci, "nvmlDeviceGetPciInfo_v3", NULL, (nvml_device, struct nvml_pci *))  \
    F(minor, "nvmlDeviceGetMinorNumber", NULL, (nvml_device, unsigned *))      \
    F(vbios, "nvmlDeviceGetVbiosVersion", NULL,                                \
      (nvml_device, char *, unsigned))                                         \
    F(inforom, "nvmlDeviceGetInforomImageVersion", NULL,                       \
      (nvml_device, char *, unsigned))                                         \
    F(ecc, "nvmlDeviceGetMemoryErrorCounter", NULL,                            \
      (nvml_device, int, int, int, unsigned long long *))                      \
    F(retired, "nvmlDeviceGetRetiredPages", NULL,                              \
      (nvml_device, int, unsigned *, unsigned long long *))                    \
    F(retired_pending, "nvmlDeviceGetRetiredPagesPendingStatus", NULL,         \
      (nvml_device, unsigned *))                                               \
    F(remapped, "nvmlDeviceGetRemappedRows", NULL,                             \
      (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *))           \
    F(banks, "nvmlDeviceGetRowRemapperHistogram", NULL,                        \
      (nvml_device, struct nvml_banks *))                                      \
    F(access, "nvmlDeviceGetP2PStatus", NULL,                                  \
      (nvml_device, nvml_device, int, int *))                                  \
    F(near, "nvmlDeviceGetTopologyCommonAncestor", NULL,                       \
      (nvml_device, nvml_device, int *))                                       \
    F(fields, "nvmlDeviceGetFieldValues", NULL,                                \
      (nvml_device, int, struct nvml_field *))                                 \
    F(clock_reasons, "nvmlDeviceGetCurrentClocksEventReasons",                 \
      "nvmlDeviceGetCurrentClocksThrottleReasons",                             \
      (nvml_device, unsigned long long *))                                     \
    F(temperature, "nvmlDeviceGetTemperature", NULL,                           \
      (nvml_device, int, unsigned *))                                          \
    F(threshold, "nvmlDeviceGetTemperatureThreshold", NULL,                    \
      (nvml_device, int, unsigned *))                                          \
    F(power_limit, "nvmlDeviceGetPowerManagementLimit", NULL,                  \
      (nvml_device, unsigned *))                                               \
    F(power_default, "nvmlDeviceGetPowerManagementDefaultLimit", NULL,         \
      (nvml_device, unsigned *))                                               \
    F(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", NULL,                      \
      (nvml_device, unsigned *))                                               \
    F(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth", NULL,                   \
      (nvml_device, unsigned *))                                               \
    F(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration", NULL,                   \
      (nvml_device, unsigned *))                                               \
    F(pcie_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration", NULL,                \
      (nvml_device, unsigned *))                                               \
    F(pcie_replays, "nvmlDeviceGetPcieReplayCounter", NULL,                    \
      (nvml_device, unsigned *))                                               \
    F(link_state, "nvmlDeviceGetNvLinkState", NULL,                            \
      (nvml_device, unsigned, unsigned *))                                     \
    F(link_errors, "nvmlDeviceGetNvLinkErrorCounter", NULL,                    \
      (nvml_device, unsigned, int, unsigned long long *))                      \
    F(fabric, "nvmlDeviceGetGpuFabricInfo", NULL,                              \
      (nvml_device, struct nvml_fabric *))                                     \
    F(persistence, "nvmlDeviceGetPersistenceMode", NULL,                       \
      (nvml_device, unsigned *))                                               \
    F(compute_mode, "nvmlDeviceGetComputeMode", NULL,                          \
      (nvml_device, unsigned *))                                               \
    F(mig, "nvmlDeviceGetMigMode", NULL,                                       \
      (nvml_device, unsigned *, unsigned *))                                   \
    F(memory, "nvmlDeviceGetMemoryInfo", NULL,                                 \
      (nvml_device, struct nvml_memory *))                                     \
    F(memory_2, "nvmlDeviceGetMemoryInfo_v2", NULL,                            \
      (nvml_device, struct nvml_memory_2 *))                                   \
    F(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                    \
      "nvmlDeviceGetComputeRunningProcesses",                                  \
      (nvml_device, unsigned *, void *))                                       \
    F(ecc_mode, "nvmlDeviceGetEccMode", NULL,                                  \
      (nvml_device, unsigned *, unsigned *))                                   \
    F(violation, "nvmlDeviceGetViolationStatus", NULL,                         \
      (nvml_device, int, struct nvml_violation *))                             \
    F(inforom_check, "nvmlDeviceValidateInforom", NULL, (nvml_device))         \
    F(event_create, "nvmlEventSetCreate", NULL, (nvml_event_set *))            \
    F(event_types, "nvmlDeviceGetSupportedEventTypes", NULL,                   \
      (nvml_device, unsigned long long *))                                     \
    F(event_register, "nvmlDeviceRegisterEvents", NULL,                        \
      (nvml_device, unsigned long long, nvml_event_set))                       \
    F(event_wait, "nvmlEventSetWait_v2", "nvmlEventSetWait",                   \
      (nvml_event_set, struct nvml_event *, unsigned))                         \
    F(event_free, "nvmlEventSetFree", NULL, (nvml_event_set))

#endif
