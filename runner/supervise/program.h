/* program - where Koboshi's own programs are: beside this one, or installed. */
#ifndef KB_SUPERVISE_PROGRAM_H
#define KB_SUPERVISE_PROGRAM_H

#include <stddef.h>

#include "runner/base/err.h"

/* An absolute path of an executable, or -1. */
int program_find(const char *name, char *dst, size_t dst_bytes,
                 struct err *err);
/* This program itself. */
int program_self(char *dst, size_t dst_bytes, struct err *err);

#endif
