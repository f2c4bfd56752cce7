/* tuned - the products' algorithms of a run, kept in its attempts' folders: a
 * file in JSON with a sum over its rows. What does not read, or is of another
 * GPU or other libraries, is left alone.
 */
#ifndef KB_TRAIN_TUNED_H
#define KB_TRAIN_TUNED_H

#include "kernels/exec.h"
#include "runner/base/err.h"

#define TUNED_JSON "products.json"
#define TUNED_MAX 1024
#define TUNED_ID_BYTES 256

/* 1: read; 0: there is no such file, or it is of another id; -1: damaged. *ret
 * is to be freed. */
int tuned_read(const char *path, const char *id, struct tuned **ret,
               int *ret_n, struct err *err);
int tuned_write(const char *path, const char *id, const struct tuned *tuned,
                int n, struct err *err);

#endif
