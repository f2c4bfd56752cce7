/* ckpt_import - `koboshi ckpt import`: Hugging Face's files to a run that
 * begins with their weights. */
#ifndef KB_CLI_CKPT_IMPORT_H
#define KB_CLI_CKPT_IMPORT_H

#include "runner/base/err.h"
#include "runner/base/str.h"

/* The model's keys for run.yaml: written into the run directory beside the
 * checkpoint, under this name. */
#define IMPORT_YAML "import.yaml"

/* notes: lines on what training does otherwise than the files' config.json. */
int ckpt_import(const char *run_dir, const char *hf_dir, struct sbuf *notes,
                struct err *err);

#endif
