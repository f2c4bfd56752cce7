/* bench_encode - the encoder alone, for bench/tokens.py: reads documents once,
 * then encodes all of them at each line of standard input.
 *
 * usage: bench_encode TOKENIZER TEXT CUTS THREADS
 * CUTS: the ends of the documents in TEXT, a number a line. Each round prints
 * its seconds, seconds of all processors, and tokens. A line "dump PATH"
 * writes the numbers of all documents instead: for each their count and they,
 * int32 each.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/data/tokenizer.h"

struct text {
    char *data;
    size_t *cut; /* [docs_n + 1] */
    size_t docs_n;
};

struct worker {
    pthread_t thread;
    const struct text *text;
    struct tokenizer *tokenizer;
    struct ids ids;
    size_t first, end, tokens_n;
    bool keep, failed;
};

static int read_cuts(struct text *t, const char *path)
{
    FILE *f = fopen(path, "r");
    size_t cap = 1 << 16, end;
    t->cut = malloc(cap * sizeof *t->cut);
    if (!f || !t->cut)
        return -1;
    t->cut[0] = 0;
    while (fscanf(f, "%zu", &end) == 1) {
        if (t->docs_n + 2 > cap) {
            cap *= 2;
            t->cut = realloc(t->cut, cap * sizeof *t->cut);
            if (!t->cut)
                return -1;
        }
        t->cut[++t->docs_n] = end;
    }
    fclose(f);
    return 0;
}

static void *work(void *ctx)
{
    struct worker *w = ctx;
    struct err err = ERR_INIT;
    w->tokens_n = 0;
    w->ids.n = 0;
    for (size_t d = w->first; d < w->end; d++) {
        size_t at = w->text->cut[d], n = w->text->cut[d + 1] - at;
        size_t before = w->ids.n + w->keep;
        if (w->keep && !ids_reserve(&w->ids, 1, &err))
            w->ids.n++; /* the count's place */
        if (tokenizer_encode(w->tokenizer, w->text->data + at, n, &w->ids,
                             &err))
            w->failed = true;
        w->tokens_n += w->ids.n - before;
        if (w->keep)
            w->ids.data[before - 1] = (int32_t)(w->ids.n - before);
        else
            w->ids.n = 0;
    }
    return NULL;
}

static double cpu_s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static double round_s(struct worker *worker, int workers_n, size_t *ret_tokens)
{
    double start_s = clock_mono_s();
    for (int i = 1; i < workers_n; i++)
        pthread_create(&worker[i].thread, NULL, work, &worker[i]);
    work(&worker[0]);
    for (int i = 1; i < workers_n; i++)
        pthread_join(worker[i].thread, NULL);
    double wall_s = clock_mono_s() - start_s;
    *ret_tokens = 0;
    for (int i = 0; i < workers_n; i++)
        *ret_tokens += worker[i].tokens_n;
    return wall_s;
}

static int dump(const char *path, struct worker *worker, int workers_n)
{
    size_t tokens_n;
    FILE *f = fopen(path, "w");
    for (int i = 0; i < workers_n; i++)
        worker[i].keep = true;
    round_s(worker, workers_n, &tokens_n);
    for (int i = 0; f && i < workers_n; i++)
        fwrite(worker[i].ids.data, sizeof(int32_t), worker[i].ids.n, f);
    for (int i = 0; i < workers_n; i++)
        worker[i].keep = false;
    return !f || fclose(f) ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    struct text text = {0};
    char line[4096];
    size_t n, tokens_n;
    if (argc != 5) {
        fprintf(stderr, "usage: bench_encode TOKENIZER TEXT CUTS THREADS\n");
        return 2;
    }
    int workers_n = atoi(argv[4]);
    struct worker *worker = calloc((size_t)workers_n, sizeof *worker);
    struct tokenizer *t = tokenizer_open(argv[1], &err);
    text.data = file_read(argv[2], (size_t)4 << 30, &n, &err);
    if (!worker || !t || !text.data || read_cuts(&text, argv[3])) {
        fprintf(stderr, "bench_encode: %s\n", err.msg);
        return 1;
    }
    for (int i = 0; i < workers_n; i++)
        worker[i] = (struct worker){
            .text = &text, .tokenizer = tokenizer_share(t, &err),
            .first = text.docs_n * (size_t)i / (size_t)workers_n,
            .end = text.docs_n * (size_t)(i + 1) / (size_t)workers_n};
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "dump ", 5)) {
            printf("%d\n", dump(line + 5, worker, workers_n));
        } else {
            double before_s = cpu_s();
            double wall_s = round_s(worker, workers_n, &tokens_n);
            printf("%.6f %.6f %zu\n", wall_s, cpu_s() - before_s, tokens_n);
        }
        fflush(stdout);
    }
    return 0;
}
