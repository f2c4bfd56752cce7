/* active - what koboshi-health-gpu is asked and says, and what it means.
 *
 * The request, on its standard input:
 *   {"gpus": [{"pci": "00000000:3b:00.0"}, ...], "seconds": 24,
 *    "corrupt": "bf16",                a fault to make, for tests
 *    "pair": {"node": 0|1, "address": HOST, "port": N, "secret": HEX}}
 * With "pair" it only sums with another node's GPUs. The answer, lines:
 *   {"kind": "gpu", "gpu": 0, "pci", "name", "ordinal", "total_bytes", ...}
 *   {"kind": "product", "gpu", "type", "runs", "differ", "bits", "tflops",
 *    "wrong", "row", "first", "want", "got", "wrong_rows"}
 *   {"kind": "memory", "gpu", "bytes", "passes", "gb_per_s", "wrong", ...}
 *   {"kind": "host", "gpu", "in_gb_per_s", "out_gb_per_s", "wrong", ...}
 *   {"kind": "peer", "gpu", "to", "access", "gb_per_s", "wrong", ...}
 *   {"kind": "reduce", "gpu", "what", "ranks", "gb_per_s", "wrong" | "error"}
 *   {"kind": "skip", "gpu", "what", "why"}
 *   {"kind": "fault", "gpu", "at", "call", "code", "text"}    CUDA's
 *   {"kind": "hung" | "crashed" | "late", ...}
 *   {"kind": "end", "seconds"}
 * "gpu" is the place in the request. Nothing of it is trusted: what is no such
 * line is counted, what is missing is not known, and neither is ever a fault
 * of the GPU.
 */
#ifndef KB_HEALTH_ACTIVE_H
#define KB_HEALTH_ACTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "health/gpu_model.h"
#include "health/probe.h"

/* All of it: with the child that runs the program, killed at this. */
#define ACTIVE_LIMIT_S 30.0
enum { ACTIVE_GPUS_MAX = 32, ACTIVE_LINES_MAX = 4096 };

enum active_kind {
    ACTIVE_GPU,
    ACTIVE_PRODUCT,
    ACTIVE_MEMORY,
    ACTIVE_HOST,
    ACTIVE_PEER,
    ACTIVE_REDUCE,
    ACTIVE_SKIP,
    ACTIVE_FAULT,
    ACTIVE_HUNG,
    ACTIVE_CRASHED,
    ACTIVE_LATE,
    ACTIVE_END,
    ACTIVE_KIND_N
};

struct active_line {
    enum active_kind kind;
    int gpu; /* -1: the node */
    int to;  /* peer */
    enum gpu_figure figure; /* product */
    char bits[24];
    int64_t wrong, differ, runs, code, ordinal;
    bool access;
    double value, other; /* the figure; host: in, out */
    char text[160];      /* what, why, where: for people */
};

struct active_gpu {
    int index;      /* NVML's */
    char who[96];   /* subject of findings: its UUID */
    char name[96];  /* model */
    char pci[32];
    double power; /* its power limit by the default, at most 1 */
};

struct active {
    struct active_gpu gpu[ACTIVE_GPUS_MAX];
    int gpu_n;
    struct active_line line[ACTIVE_LINES_MAX];
    int line_n;
    int garbage_n;
    char garbage[80]; /* the first of it */
};

/* Another node to sum with. */
struct active_pair {
    int node;            /* 0: this one listens, 1 */
    const char *address; /* of node 0 */
    int port;
    const char *secret;  /* 64 hex digits, known to both */
};
/* The request as text, to be freed; NULL: out of memory. corrupt may be "",
 * pair NULL. */
char *active_request(const struct active *active, double seconds,
                     const char *corrupt, const struct active_pair *pair);
/* Lines of an answer; active->gpu[] is set. */
void active_read(struct active *active, const char *text);
/* What they mean; site has limits. */
void active_judge(const struct active *active, const struct conf *site,
                  struct findings *findings);

#endif
