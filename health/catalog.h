/* catalog - all findings, one row each: what it is called, on what, how bad,
 * what is lost if it is true, what it says, what to do in words and as one of
 * a few actions.
 *
 * The rule for severities: what a job's user can bring about is at most warn;
 * what only a broken node shows is drain or fail. A site may change severities
 * in its file, not beyond that rule's purpose: it is root's file.
 */
#ifndef KB_HEALTH_CATALOG_H
#define KB_HEALTH_CATALOG_H

#include "health/finding.h"

enum finding_code {
    F_CPU_COUNT_LOW,
    F_CPU_OFFLINE,
    F_CPU_CLOCK_LOW,
    F_CPU_CLOCK_CAPPED,
    F_CPU_GOVERNOR,
    F_CLOCKSOURCE_SLOW,
    F_MEM_SIZE_LOW,
    F_MEM_FREE_LOW,
    F_SWAP_SIZE_LOW,
    F_SWAP_USED,
    F_MEM_ECC_UNCORRECTED,
    F_MEM_ECC_CORRECTED,
    F_LOAD_HIGH,
    F_PROCESSES_STUCK,
    F_ZOMBIES,
    F_DAEMON_ABSENT,
    F_DISK_FULL,
    F_DISK_INODES_FULL,
    F_DISK_READ_ONLY,
    F_DISK_ABSENT,
    F_DISK_WRITE_FAILS,
    F_DISK_WRITE_REFUSED,
    F_MOUNT_ABSENT,
    F_NVME_COUNT_LOW,
    F_SHM_ABSENT,
    F_SHM_FULL,
    F_TIME_UNSYNCED,
    F_TIME_OFFSET,
    F_CLOCK_WRONG,
    F_CLOCK_BEHIND,
    F_NET_DOWN,
    F_NET_EXPECTED_DOWN,
    F_NET_ABSENT,
    F_NET_SLOW,
    F_KLOG_UNREADABLE,
    F_KLOG_IO_ERROR,
    F_KLOG_FS_ERROR,
    F_KLOG_LOCKUP,
    F_KLOG_HUNG_TASK,
    F_KLOG_MACHINE_CHECK,
    F_KLOG_HW_CORRECTED,
    F_KLOG_OOM,
    F_KLOG_OOPS,
    F_KLOG_PCIE_FATAL,
    F_KLOG_PCIE_ERRORS,
    F_GPU_XID,
    F_GPU_XID_FATAL,
    F_GPU_XID_APP,
    F_GPU_XID_INFO,
    F_GPU_XID_UNKNOWN,
    F_GPU_XID_REPEATED,
    F_NVSWITCH_SXID,
    F_KLOG_STORAGE_SILENT,
    F_LIMIT_MEMLOCK,
    F_LIMIT_NOFILE,
    F_UPTIME_SHORT,
    F_UPTIME_LONG,
    F_USER_DIR_REFUSED,
    F_USER_DIR_BROKEN,
    F_USER_DIR_SLOW,
    F_GPU_ABSENT,
    F_GPU_COUNT_LOW,
    F_GPU_BUS_MISMATCH,
    F_GPU_GRES_FEW,
    F_GPU_DRIVER_MISMATCH,
    F_GPU_INFOROM_BAD,
    F_GPU_ECC_OFF,
    F_GPU_LOST,
    F_GPU_CALL_FAILS,
    F_GPU_ECC_UNCORRECTED,
    F_GPU_ECC_CORRECTED,
    F_GPU_ECC_SRAM,
    F_GPU_PAGES_RETIRED,
    F_GPU_PAGES_PENDING,
    F_GPU_REMAP_FAILED,
    F_GPU_REMAP_PENDING,
    F_GPU_REMAP_MANY,
    F_GPU_BANKS_FULL,
    F_GPU_RECOVERY_RESET,
    F_GPU_RECOVERY_REBOOT,
    F_GPU_RECOVERY_DRAIN,
    F_GPU_HW_SLOWDOWN,
    F_GPU_SLOWED,
    F_GPU_HOT,
    F_GPU_POWER_CAPPED,
    F_GPU_PCIE_NARROW,
    F_GPU_PCIE_REPLAYS,
    F_GPU_NVLINK_DOWN,
    F_GPU_NVLINK_SLOW,
    F_GPU_NVLINK_ERRORS,
    F_GPU_NVLINK_CRC,
    F_GPU_FABRIC_NOT_READY,
    F_GPU_FABRIC_FAILED,
    F_GPU_PERSISTENCE_OFF,
    F_GPU_COMPUTE_MODE,
    F_GPU_MIG_ON,
    F_GPU_BUSY,
    F_GPU_MIXED,
    F_GPU_PCIE_SLOW,
    F_GPU_PRODUCT_WRONG,
    F_GPU_PRODUCT_DIFFERS,
    F_GPU_MEMORY_WRONG,
    F_GPU_HOST_WRONG,
    F_GPU_PEER_WRONG,
    F_GPU_REDUCE_WRONG,
    F_GPU_FAULT,
    F_GPU_SLOW_PRODUCT,
    F_GPU_SLOW_MEMORY,
    F_GPU_SLOW_HOST,
    F_GPU_SLOW_PEER,
    F_GPU_SLOW_REDUCE,
    F_GPU_SLOWER,
    F_GPU_PEER_CUT,
    F_GPU_REDUCE_FAILS,
    F_ACTIVE_UNKNOWN,
    F_PAIR_FAILS,
    F_IB_COUNT_LOW,
    F_IB_DOWN,
    F_IB_SLOW,
    F_IB_FLAPS,
    F_IB_FLAPPING,
    F_IB_ERRORS,
    F_PROBE_HUNG,
    F_PROBE_CRASHED,
    F_HISTORY_BROKEN,
    F_NODE_LEMON,
    F_CODE_N
};

struct catalog_row {
    const char *code;
    const char *subject;  /* kind: node, cpu, disk, nic, gpu, ... */
    enum finding_severity severity;
    enum err_class class;
    const char *message;
    const char *advice;
    enum finding_action action;
};

extern const struct catalog_row catalog[F_CODE_N];

/* The row's words into a finding; subject and evidence are the caller's. */
void catalog_fill(struct finding *ret, enum finding_code code,
                  const char *subject, const char *evidence);
/* enum finding_code of a code, or -1. */
int catalog_find_code(const char *code);

#endif
