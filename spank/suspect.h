/* suspect - what a job suspects of the node that it runs on.
 *
 * The prolog makes a file for it in root's folder, the user's to write: a code
 * of the contract's table a line. The epilog reads it as a stranger's: no link
 * is followed, no more than KB_SUSPECT_BYTES are read, only codes of the table
 * count, each once. All that it can bring about is that root's own check looks
 * closer, and that only so often within an hour: what a user says drains
 * nothing.
 */
#ifndef KB_SPANK_SUSPECT_H
#define KB_SPANK_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/base/err.h"

#define SUSPECT_TEXT_BYTES 256

/* In an open store (store.h): an empty file for this user alone, in the place
 * of whatever was there. */
int suspect_make(int store, uint32_t job, uid_t uid, struct err *err);
/* The codes, with commas between; "" for none. The file is gone after it. */
void suspect_take(int store, uint32_t job, uid_t uid,
                  char dst[SUSPECT_TEXT_BYTES]);
/* Whether one more closer look is due within the hour; then it is counted. */
bool suspect_may_look(int store, double now_s);

#endif
