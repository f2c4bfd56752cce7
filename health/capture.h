/* capture - record this host so that it can be looked at elsewhere: the files
 * that probes read, and the facts that system calls tell. Addresses and
 * serial numbers are not copied, but the kernel log is, as it stands: who gives
 * a record away reads its dev/kmsg first.
 */
#ifndef KB_HEALTH_CAPTURE_H
#define KB_HEALTH_CAPTURE_H

#include "runner/base/err.h"

/* dir must not exist yet. What cannot be read is left out. nvml: the GPU
 * driver's library, NULL by its name. */
int capture_host(const char *dir, const char *nvml, struct err *err);

#endif
