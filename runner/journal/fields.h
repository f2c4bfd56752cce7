/* fields - the members of struct metrics as rows: name in metrics.jsonl and
 * for MLflow, tag in TensorBoard. */
#ifndef KB_JOURNAL_FIELDS_H
#define KB_JOURNAL_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runner/journal/journal.h"

enum field_kind { FIELD_I64, FIELD_INT, FIELD_DOUBLE };

struct field {
    const char *name;
    const char *tag;    /* Megatron's, NULL: not shown in TensorBoard */
    bool vs_samples;    /* also as "TAG vs samples" */
    double tag_scale;   /* times this in TensorBoard */
    enum field_kind kind;
    size_t offset;      /* in struct metrics */
};

extern const struct field metrics_fields[];
extern const int metrics_fields_n;

/* A field's value; NAN: not measured at this step. */
double field_value(const struct field *field, const struct metrics *m);
/* All fields that are measured. What is no number in JSON (infinity, a loss
 * that is NaN) is null. NULL when memory ran out. */
json_t *metrics_json(const struct metrics *m);

#endif
