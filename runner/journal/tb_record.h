/* tb_record - TensorBoard's events as bytes: a record is length, its check
 * sum, a protobuf message, its check sum. */
#ifndef KB_JOURNAL_TB_RECORD_H
#define KB_JOURNAL_TB_RECORD_H

#include <stdint.h>

#include "runner/base/str.h"

/* Each appends one record. The first of a file is the version. */
void tb_record_version(struct sbuf *out, double wall_s);
void tb_record_scalar(struct sbuf *out, double wall_s, int64_t step,
                      const char *tag, float value);
/* A session starts at step: readers forget what older files of the folder
 * say about that step and later ones. */
void tb_record_session(struct sbuf *out, double wall_s, int64_t step);

#endif
