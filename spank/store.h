/* store - the gate's own folder (/run/koboshi): verdicts of looks, root's alone
 * to write, everybody's to read. Nothing in it is believed that another user
 * could have put there, and no link is followed.
 */
#ifndef KB_SPANK_STORE_H
#define KB_SPANK_STORE_H

#include <stddef.h>

#include "runner/base/err.h"

/* A descriptor of the folder, made 0755 if absent; -1 if it is not a folder of
 * this user (root) that only this user may write. */
int store_open(const char *dir, struct err *err);
/* A file's text, to be freed, if it is this user's, a plain file, and at most
 * max_age_s old (0: of any age); NULL otherwise. */
char *store_read(int store, const char *name, double max_age_s,
                 size_t *ret_bytes);
/* Whole or not at all, 0644. */
int store_write(int store, const char *name, const char *text, size_t bytes,
                struct err *err);
void store_remove(int store, const char *name);

#endif
