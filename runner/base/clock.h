/* clock - the two times: monotonic for durations, wall for records. */
#ifndef KB_BASE_CLOCK_H
#define KB_BASE_CLOCK_H

#include <stddef.h>

double clock_mono_s(void); /* CLOCK_MONOTONIC, seconds */
double clock_wall_s(void); /* CLOCK_REALTIME, seconds since 1970 */
void clock_sleep_s(double s);
/* "2026-01-31T12:00:00.123Z" into buf (at least 32 bytes); returns buf. */
char *clock_iso(double wall_s, char *buf, size_t buf_bytes);
/* "1h02m", "3m20s", "12.3s" into buf (at least 24 bytes); returns buf. */
char *clock_human(double duration_s, char *buf, size_t buf_bytes);

#endif
