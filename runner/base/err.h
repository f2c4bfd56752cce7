/* err - what went wrong, in words for a person and a class for the machine.
 *
 * A caller owns a struct err (on its stack, zeroed by ERR_INIT) and passes it
 * last. The first function that knows what failed fills it; nobody above fills
 * it again, but may put context in front (err_prefix). NULL is allowed.
 * Message form: `module: what failed: 'subject': cause`, lower case, no full
 * stop, then `; REMEDY` where it is known.
 */
#ifndef KB_BASE_ERR_H
#define KB_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>

/* What is lost, smallest first. The class decides what recovery does, and is
 * the program's exit code by contract_exit_code(). */
enum err_class {
    ERR_NONE = 0,
    ERR_REQUEST, /* the user's request cannot be done: stop and say why */
    ERR_STEP,    /* this step or file is bad: go on from an older one */
    ERR_RANK,    /* this process is done for; another could go on */
    ERR_GPU,     /* this device is suspect */
    ERR_NODE,    /* this node is suspect */
    ERR_JOB,     /* the allocation is lost */
};

struct err {
    enum err_class class;
    int sys_errno;  /* errno where a system call failed, else 0 */
    char msg[1000]; /* never empty when class is set */
};

#define ERR_INIT ((struct err){0})

/* Fill err with class ERR_RANK unless said; returns -1 always; keeps errno.
 * A message that does not fit ends in '+'. The first error wins: a filled err
 * is left as it is. */
int err_set(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int err_set_class(struct err *err, enum err_class class, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, with `: strerror(errno)` added and sys_errno set. No room on a disk
 * or in a quota is ERR_REQUEST: no other process or node has more. */
int err_set_errno(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Put context in front of a filled message: "ctx: msg". Returns -1. */
int err_prefix(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

const char *err_class_name(enum err_class class);

#endif
