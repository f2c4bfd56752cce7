/* verb_data - what the files of `koboshi data` share. */
#ifndef KB_CLI_VERB_DATA_H
#define KB_CLI_VERB_DATA_H

#include "runner/base/str.h"
#include "runner/data/build.h"
#include "runner/data/tokens.h"

struct args {
    struct build build;
    const char *tokenizer, *shares, *pattern;
    int64_t vocab, document, run;
    bool quiet, help;
    char **rest;
    int rest_n;
    char **file; /* [files_n] owned, of take_files */
    int files_n;
};

/* The files that rest names, patterns as what they match. */
int take_files(struct args *a, struct err *err);

/* ---- verb_data_look.c: what is in a token file --------------------------- */
/* The one PREFIX that is asked for. NULL on error. */
struct tokens *open_prefix(struct args *a, struct err *err);
/* Control characters, newlines too, become blanks. */
void put_on_one_line(struct sbuf *text);
int run_inspect(struct args *a, struct err *err);
int run_verify(struct args *a, struct err *err);
int run_decode(struct args *a, struct err *err);

/* ---- verb_data_files.c: token files to token files and a report ---------- */
int run_merge(struct args *a, struct err *err);
int run_split(struct args *a, struct err *err);
int run_dedup_report(struct args *a, struct err *err);
int run_train_tokenizer(struct args *a, struct err *err);

#endif
