/* finding - the words for severities and actions; see finding.h. */
#include "health/finding.h"

const char *const finding_severity_names[FINDING_SEVERITY_N] = {
    [FINDING_INFO] = "info",   [FINDING_WARN] = "warn",
    [FINDING_UNKNOWN] = "unknown", [FINDING_DRAIN] = "drain",
    [FINDING_FAIL] = "fail",
};

const char *const finding_action_names[FINDING_ACTION_N] = {
    [FINDING_DO_NOTHING] = "none",
    [FINDING_DO_RESTART_APP] = "restart app",
    [FINDING_DO_RESET_GPU] = "reset GPU",
    [FINDING_DO_REBOOT] = "reboot",
    [FINDING_DO_DRAIN] = "drain",
    [FINDING_DO_REPLACE] = "replace hardware",
    [FINDING_DO_LOOK_CLOSER] = "look closer",
};
