/* log - one line for people, on standard error. Only main_*.c and the step
 * loop's own printer call it; modules return errors instead.
 * Line: `koboshi-train: message` (info) or `koboshi-train: warning: message`.
 */
#ifndef KB_BASE_LOG_H
#define KB_BASE_LOG_H

/* Program name and, when rank >= 0, `[rank R] ` in front of each line. */
void log_init(const char *program, int rank);
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Shown only when KOBOSHI_DEBUG is set. */
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
