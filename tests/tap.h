/* tap - the tests' side of the Test Anything Protocol, for C.
 * plan is printed at the end (tap_done). A failed check prints file:line. */
#ifndef KB_TESTS_TAP_H
#define KB_TESTS_TAP_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int tap_n, tap_failed;

__attribute__((format(printf, 4, 5), unused)) static int
tap_ok(int good, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%sok %d - ", good ? "" : "not ", ++tap_n);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    if (!good) {
        tap_failed++;
        printf("# failed at %s:%d\n", file, line);
    }
    fflush(stdout);
    return good;
}

#define ok(good, ...) tap_ok(!!(good), __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, name)                                                \
    do {                                                                       \
        long long got_ = (got), want_ = (want);                                \
        if (!ok(got_ == want_, "%s", name))                                    \
            printf("# got %lld, want %lld\n", got_, want_);                    \
    } while (0)
#define is_str(got, want, name)                                                \
    do {                                                                       \
        const char *got_ = (got), *want_ = (want);                             \
        if (!ok(got_ && !strcmp(got_, want_), "%s", name))                     \
            printf("# got '%s', want '%s'\n", got_ ? got_ : "(null)", want_);  \
    } while (0)
#define is_near(got, want, tol, name)                                          \
    do {                                                                       \
        double got_ = (got), want_ = (want);                                   \
        if (!ok(fabs(got_ - want_) <= (tol), "%s", name))                      \
            printf("# got %.17g, want %.17g within %g\n", got_, want_,         \
                   (double)(tol));                                             \
    } while (0)

/* For main's end: prints the plan; the exit status. */
__attribute__((unused)) static int tap_done(void)
{
    printf("1..%d\n", tap_n);
    return tap_failed != 0;
}

__attribute__((unused)) static int tap_skip_all(const char *why)
{
    printf("1..0 # SKIP %s\n", why);
    return 0;
}

#endif
