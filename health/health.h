/* health - look at this node, or at a recorded one, and report.
 *
 * A look runs every probe of the table in a child of its own, all at once,
 * each with a deadline, so that the whole takes as long as the slowest and a
 * driver that hangs costs one probe. It never acts: no drain, no reset, no
 * change of a file but the user's own test files, which it removes.
 */
#ifndef KB_HEALTH_HEALTH_H
#define KB_HEALTH_HEALTH_H

#include <jansson.h>
#include <stdbool.h>

#include "health/finding.h"
#include "runner/base/str.h"

#define HEALTH_FINDINGS_MAX 256
#define HEALTH_NOTES_MAX 64
#define HEALTH_FIGURES_MAX 512
#define HEALTH_PROBES_MAX 32
#define HEALTH_GPUS_MAX 32

struct health_request {
    const char *root;    /* "/" or a recorded host's folder */
    const char *expect;  /* site file; NULL: the installed one, if any */
    const char *run_dir; /* with user; NULL: none */
    const char *nvml;    /* library of the GPU driver; NULL: by its name */
    bool full, user;
    bool active;         /* try the GPUs: half a minute of load */
    const char *gpus;    /* with active: only these, "0,2-3"; NULL: all */
    const char *trial;   /* the program that tries them; NULL: ours */
    const char *corrupt; /* a fault that it makes, for tests; NULL: none */
    const char *pairs;   /* nodes to sum with in pairs, "a,b"; NULL: none */
    const char *self;    /* this node's name in it */
    const char *secret;  /* 64 hex digits that they all know; NULL: none */
    int port;            /* and the next: where pairs meet; 0: the usual */
    double klog_after_s; /* lines of the kernel log up to this uptime are
                            settled: somebody acted on them; 0: none */
    double slow_s;       /* deadlines of probes times this; 0: 1 */
    const char *history; /* file to remember counters in; NULL: none */
    long job;            /* that ends here, for the history; 0: none */
    const char *suspicions; /* of that job: codes with commas, or NULL */
    int lent;            /* GPUs that Slurm lends to the job; -1: not known */
    /* CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; NULL: not set. */
    const char *cuda_visible, *cuda_order;
    double watch_s;      /* health_watch: between two rounds */
};

enum health_status {
    HEALTH_OK,      /* looked, found nothing */
    HEALTH_FOUND,
    HEALTH_SKIPPED, /* nothing there to look at */
    HEALTH_HUNG,
    HEALTH_CRASHED,
};

struct health_probe {
    const char *name;
    enum health_status status;
    char why[160];       /* of a skip or crash */
    double seconds;
};

struct health_note {
    char name[64];
    char value[256];
};

/* What was measured, of whom. */
struct health_figure {
    char name[32]; /* "bf16" */
    char subject[32]; /* "gpu 0" */
    char unit[16];
    double value;
};

/* One GPU by all its names. */
struct health_gpu {
    int index;    /* of NVML */
    int64_t minor; /* of /dev/nvidiaMINOR; -1: not known */
    int cuda;     /* ordinal for the job; -1: not visible or not known */
    char uuid[96], pci[32], name[96];
};

struct health_report {
    char host[256];
    double time_s;       /* wall clock when it was begun */
    double seconds;
    bool full, user;
    enum finding_severity verdict; /* the worst; FINDING_INFO: all is well */
    struct finding finding[HEALTH_FINDINGS_MAX]; /* the worst first */
    int finding_n, dropped_n;
    struct health_note note[HEALTH_NOTES_MAX];
    int note_n;
    struct health_figure figure[HEALTH_FIGURES_MAX];
    int figure_n;
    struct health_probe probe[HEALTH_PROBES_MAX];
    int probe_n;
    struct health_gpu gpu[HEALTH_GPUS_MAX];
    int gpu_n;
};

/* Large: the caller allocates the report. -1: the request is wrong (class
 * ERR_REQUEST) or no child could be made. */
int health_look(const struct health_request *request,
                struct health_report *ret, struct err *err);
/* Looks again and again, and writes each finding once, as it comes, to fd as a
 * line of JSON: driver's events and kernel log at once, probes each watch_s
 * seconds. Until SIGTERM, or nobody reads. */
int health_watch(const struct health_request *request, int fd,
                 struct err *err);
/* enum health_exit for it. */
int health_exit_code(const struct health_report *report);
/* "ok", or the verdict's name. */
const char *health_verdict(const struct health_report *report);
/* For machines (koboshi-health(8) has the schema); NULL: out of memory. */
json_t *health_json(const struct health_report *report);
json_t *health_finding_json(const struct finding *finding);
/* For Prometheus's text files. */
void health_prometheus(const struct health_report *report, struct sbuf *out);
/* For people: what is wrong first, the advice under it. */
void health_text(const struct health_report *report, struct sbuf *out);

/* The command line that koboshi-health and `koboshi health` share. */
struct health_options {
    struct health_request request;
    bool json, verdict, help;
    const char *capture; /* folder to record this host into, or NULL */
    const char *const *compare; /* reports to compare, or NULL */
    int compare_n;
    bool prometheus;
    bool watch;
};
/* argv[0] is not looked at; strings are borrowed from argv. */
int health_parse(int argc, char **argv, struct health_options *ret,
                 struct err *err);
/* Text for --help of program `name`. */
void health_help(const char *name, struct sbuf *out);
/* What these options ask for: report to out, verdict line to verdict. Exit
 * code in *ret_code. */
int health_run(const struct health_options *options, struct sbuf *out,
               struct sbuf *verdict, int *ret_code, struct err *err);

#endif
