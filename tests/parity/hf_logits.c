/* hf_logits - what a run's checkpoint says of tokens: a line of logits each.
 *
 *   hf_logits RUN_DIR TOKEN...
 *
 * For hf_logits.py, which holds them against Hugging Face's transformers. */
#include <stdio.h>
#include <stdlib.h>

#include "runner/serve/serve.h"

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct serve_spec spec = {.run_dir = argc > 1 ? argv[1] : ".", .step = -1,
                              .tokens_max = argc - 2, .threads = 1};
    if (argc < 3) {
        fprintf(stderr, "usage: hf_logits RUN_DIR TOKEN...\n");
        return 2;
    }
    struct serve *serve = serve_open(&spec, &err);
    for (int i = 2; serve && i < argc; i++) {
        int32_t token = (int32_t)atoi(argv[i]);
        const float *logits;
        if (serve_feed(serve, &token, 1, &logits, &err) != 0)
            break;
        for (int v = 0; v < serve_vocab(serve); v++)
            printf("%.9g%c", logits[v], v + 1 < serve_vocab(serve) ? ' '
                                                                   : '\n');
    }
    serve_close(serve);
    if (err.class != ERR_NONE)
        fprintf(stderr, "hf_logits: %s\n", err.msg);
    return err.class != ERR_NONE;
}
