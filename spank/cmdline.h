/* cmdline - what the user asked of sbatch, salloc or srun, as far as its
 * command line, its SBATCH_ environment and the #SBATCH lines of its script
 * show it. Slurm gives a plugin none of this before a job exists, and the plan
 * needs the number of nodes, tasks and GPUs. It is a good guess and used as
 * one: preflight repeats the plan with the real allocation.
 */
#ifndef KB_SPANK_CMDLINE_H
#define KB_SPANK_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>

enum asked_key {
    ASKED_NODES,
    ASKED_NTASKS,
    ASKED_NTASKS_PER_NODE,
    ASKED_CPUS_PER_TASK,
    ASKED_GPUS,
    ASKED_GPUS_PER_NODE,
    ASKED_GRES,
    ASKED_MEM,
    ASKED_TIME,
    ASKED_EXCLUDE,
    ASKED_ARRAY,
    ASKED_CHDIR,
    ASKED_WRAP,
    ASKED_DISTRIBUTION,
    ASKED_NODELIST,
    ASKED_N
};

#define ASKED_BYTES 1024

struct asked {
    char value[ASKED_N][ASKED_BYTES]; /* "" : not asked; cut if longer */
    char script[ASKED_BYTES];         /* first word that is no option */
    bool train; /* --llm-train, or what getopt takes for it, is there */
    bool nested;                      /* inside a job's allocation */
};

/* Long names, for messages: "nodes", ... */
extern const char *const asked_names[ASKED_N];

/* The words of this process (/proc/self/cmdline): NUL after each, two at the
 * end; to be freed. NULL when they cannot be read. */
char *cmdline_read(size_t *ret_bytes);

/* Words as cmdline_read gives them, the first being the program. */
void cmdline_parse(struct asked *asked, const char *words, size_t bytes);
/* The program of these words is `name` (its last path component), or one that
 * a site renamed, as sbatch.real. */
bool cmdline_is(const char *words, size_t bytes, const char *name);
/* Text of a batch script: its #SBATCH lines up to the first command; what is
 * already set stays. */
void cmdline_parse_script(struct asked *asked, const char *text);
/* SBATCH_..., SALLOC_... or SLURM_... of the environment, by program; what is
 * already set stays. */
void cmdline_parse_env(struct asked *asked, const char *prefix);

/* What the words say in numbers, as the plan wants them; 0 or negative where
 * they say nothing or a range. */
struct asked_size {
    long nodes, ranks_per_node, gpus_per_node, cores_per_rank;
    double time_limit_s;
    double mem_per_rank_bytes; /* of a CPU rank, by --mem */
};
void cmdline_size(const struct asked *asked, struct asked_size *ret);

#endif
