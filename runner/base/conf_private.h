/* conf_private - what conf's files share: conf.c (table, setting, getting),
 * conf_yaml.c (reading), conf_value.c (types), conf_dump.c (printing). */
#ifndef KB_BASE_CONF_PRIVATE_H
#define KB_BASE_CONF_PRIVATE_H

#include "runner/base/conf.h"

#define CONF_REDACTED "(redacted)"
#define CONF_MISTAKES_MAX 64

struct conf_entry {
    char *text;   /* owned; NULL: the default */
    char *origin; /* owned; NULL: "default" */
    int read_no;  /* which conf_read_* set it, for duplicates */
};

struct conf {
    const struct conf_row *rows; /* borrowed */
    int rows_n;
    struct conf_entry *entries;  /* [rows_n] */
    int read_no;                 /* grows with each conf_read_* */
    char *mistakes[CONF_MISTAKES_MAX]; /* owned: what reading found */
    int mistakes_n;
};

int conf_find(const struct conf *conf, const char *key); /* -1: none */
/* "; did you mean 'model.layers'" of the key nearest to an unknown one. */
const char *conf_hint(const struct conf *conf, const char *key, char *buf,
                      size_t buf_bytes);
/* Keep a mistake of reading; returns -1 and fills err too. */
int conf_mistake(struct conf *conf, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Is text a value of row? Number in *ret_real and *ret_int (may be NULL). The
 * message says what is wrong with the text and what to give, without key. */
int conf_value(const struct conf_row *row, const char *text, double *ret_real,
               int64_t *ret_int, struct err *err);
const char *conf_type_name(enum conf_type type);

#endif
