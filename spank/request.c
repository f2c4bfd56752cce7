/* request - from options to a checked job; see request.h. */
#include "spank/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/base/file.h"
#include "runner/base/proc.h"
#include "runner/base/str.h"
#include "spank/say.h"
#include "spank/script.h"

enum {
    SCRIPT_READ_BYTES = 1 << 20,
    PLAN_OUT_BYTES = 256 << 10,
    PLAN_ARGS_MAX = 16,
    PLAN_ARG_BYTES = 64,
};

void request_read(struct request *request)
{
    size_t bytes = 0;
    char *words = cmdline_read(&bytes);
    if (!words)
        return;
    static const char *const programs[] = {"sbatch", "salloc", "srun"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (cmdline_is(words, bytes, programs[i]))
            str_copy(request->program, sizeof request->program, programs[i]);
    cmdline_parse(&request->asked, words, bytes);
    free(words);
}

char *request_script(const struct request *request)
{
    char path[PATH_MAX];
    struct stat st;
    if (strcmp(request->program, "sbatch") ||
        *request->asked.value[ASKED_WRAP])
        return NULL;
    if (*request->asked.script)
        str_copy(path, sizeof path, request->asked.script);
    else if (!request->supplied ||
             file_join(path, sizeof path, request->args->datadir,
                       SCRIPT_TEMPLATE, NULL))
        return NULL;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return NULL;
    return file_read(path, SCRIPT_READ_BYTES, NULL, NULL);
}

/* What the #SBATCH lines ask. */
static void read_script(struct request *request)
{
    char *text = request_script(request);
    if (text)
        cmdline_parse_script(&request->asked, text);
    free(text);
}

static void read_env(struct request *request)
{
    static const struct {
        const char *program, *prefix;
    } rows[] = {{"sbatch", "SBATCH"}, {"salloc", "SALLOC"}, {"srun", "SLURM"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].program, request->program))
            cmdline_parse_env(&request->asked, rows[i].prefix);
}

/* ---- The job's environment ------------------------------------------ */

/* Both ways: the environment that travels with the job (not under
 * --export=NONE), and the job control environment, which the prolog sees as
 * SPANK_NAME and the job always has as SLURM_SPANK_NAME. */
static void export_value(spank_t spank, const char *name, const char *value)
{
    if (setenv(name, value, 1) ||
        spank_job_control_setenv(spank, name, value, 1) != ESPANK_SUCCESS)
        say_warn("cannot put %s into the job's environment", name);
}

static void export_all(struct request *request, spank_t spank)
{
    /* What a job's own steps have and a new job must not inherit. */
    static const char *const stale[] = {
        KB_ENV_ATTEMPT, KB_ENV_SECRET, KB_ENV_SUPERVISOR, KB_ENV_NODE_DIR,
        KB_ENV_USER_EXCLUDE};
    const char *exclude = request->asked.value[ASKED_EXCLUDE];
    for (size_t i = 0; i < sizeof stale / sizeof *stale; i++)
        unsetenv(stale[i]);
    for (int i = 0; i < OPTION_N; i++)
        if (option_rows[i].env && request->options->value[i])
            export_value(spank, option_rows[i].env,
                         request->options->value[i]);
    /* A value with a slash is a file of names, which Slurm alone reads. */
    if (*exclude && !strchr(exclude, '/') &&
        strlen(exclude) < ASKED_BYTES - 1)
        export_value(spank, KB_ENV_USER_EXCLUDE, exclude);
}

/* ---- The plan ------------------------------------------------------- */

struct plan_words {
    char text[PLAN_ARGS_MAX][PLAN_ARG_BYTES];
    const char *argv[PLAN_ARGS_MAX + 4];
    int n;
};

__attribute__((format(printf, 3, 4))) static void
add_word(struct plan_words *words, bool known, const char *fmt, ...)
{
    va_list ap;
    if (!known || words->n >= PLAN_ARGS_MAX)
        return;
    va_start(ap, fmt);
    vsnprintf(words->text[words->n], PLAN_ARG_BYTES, fmt, ap);
    va_end(ap);
    words->argv[words->n] = words->text[words->n];
    words->n++;
}

static void make_words(const struct request *request, const char *program,
                       struct plan_words *words)
{
    struct asked_size size;
    cmdline_size(&request->asked, &size);
    words->argv[words->n++] = program;
    add_word(words, true, "plan");
    add_word(words, true, "--submit");
    add_word(words, size.nodes, "--nodes=%ld", size.nodes);
    add_word(words, size.ranks_per_node, "--ranks-per-node=%ld",
             size.ranks_per_node);
    add_word(words, size.gpus_per_node, "--gpus-per-node=%ld",
             size.gpus_per_node);
    add_word(words, size.cores_per_rank, "--cores-per-rank=%ld",
             size.cores_per_rank);
    add_word(words, size.mem_per_rank_bytes >= 1, "--memory-per-rank=%.0f",
             size.mem_per_rank_bytes);
    add_word(words, size.time_limit_s > 0, "--time-limit=%.0f",
             size.time_limit_s);
    add_word(words, *request->asked.value[ASKED_ARRAY], "--array");
    words->argv[words->n++] = request->options->value[OPTION_TRAIN];
    words->argv[words->n] = NULL;
}

/* Lines for the plugin out of the plan's: what health.mode came to, for the
 * prolog, which sees no file of the user's. Only that, and only if it is one of
 * its words. The job itself reads the plan. */
static void take_marked(spank_t spank, struct sbuf *out)
{
    static const char mark[] = KB_SUBMIT_MARK KB_ENV_GATE "=";
    char *line = out->data;
    while (line && *line) {
        size_t n = strcspn(line, "\n"), whole = n + (line[n] == '\n');
        char value[8] = "";
        if (!str_starts(line, KB_SUBMIT_MARK)) {
            line += whole;
            continue;
        }
        if (str_starts(line, mark) && n - (sizeof mark - 1) < sizeof value)
            snprintf(value, sizeof value, "%.*s", (int)(n - sizeof mark + 1),
                     line + sizeof mark - 1);
        if (!option_rows[OPTION_HEALTH].check(value, NULL))
            spank_job_control_setenv(spank, KB_ENV_GATE, value, 1);
        out->len -= whole;
        memmove(line, line + whole, strlen(line + whole) + 1);
    }
}

/* Run `koboshi plan --submit`. Exits if it refuses, or after a dry run; a
 * planner that cannot run, hangs or crashes is no reason to refuse a job. */
static void check_plan(const struct request *request, spank_t spank)
{
    bool dry = request->options->value[OPTION_DRY_RUN];
    struct proc_result result = {0};
    struct plan_words words = {0};
    struct err err = ERR_INIT;
    char program[PATH_MAX], how[64];
    if (file_join(program, sizeof program, request->args->bindir, "koboshi",
                  &err))
        goto unknown;
    make_words(request, program, &words);
    struct proc_spec spec = {
        .argv = words.argv,
        .deadline_s = request->args->plan_timeout_s,
        .term_grace_s = 0.2,
        .out_max_bytes = PLAN_OUT_BYTES,
    };
    if (proc_run(&spec, &result, &err))
        goto unknown;
    if (result.exit_code == KB_EXIT_REQUEST) {
        say_lines(result.err.len ? result.err.data : result.out.data,
                  say_error);
        if (!result.err.len && !result.out.len)
            say_error("'%s': refused by koboshi plan without a word",
                      request->options->value[OPTION_TRAIN]);
        exit(1);
    }
    if (result.exit_code != 0) {
        say_lines(result.err.data, say_warn);
        err_set(&err, "koboshi plan %s",
                proc_result_text(&result, how, sizeof how));
        goto unknown;
    }
    say_lines(result.err.data, say_warn);
    take_marked(spank, &result.out);
    if (dry) {
        file_write_all(STDOUT_FILENO, result.out.data, result.out.len);
        exit(0);
    }
    proc_result_release(&result);
    return;
unknown:
    if (dry) {
        say_error("no plan: %s; nothing is submitted", err.msg);
        exit(1);
    }
    say_warn("the plan was not checked: %s; it will be on the nodes", err.msg);
    proc_result_release(&result);
}

/* ---- The whole ------------------------------------------------------ */

/* An option that would silently do nothing is a mistake. */
static void refuse_without_train(const struct request *request)
{
    for (int i = 0; i < OPTION_N; i++)
        if (request->options->value[i]) {
            say_error("--%s: needs --llm-train=FILE too", option_rows[i].name);
            exit(1);
        }
    if (request->supplied && !*request->asked.script &&
        !*request->asked.value[ASKED_WRAP]) {
        say_error("no batch script, and --llm-train was not read as an "
                  "option; name a script or write --llm-train=FILE");
        exit(1);
    }
}

void request_finish(struct request *request, spank_t spank)
{
    if (!request->options->value[OPTION_TRAIN]) {
        refuse_without_train(request);
        return;
    }
    if (*request->args->complaint)
        say_warn("%s", request->args->complaint);
    read_env(request);
    read_script(request);
    export_all(request, spank);
    check_plan(request, spank);
    if (strcmp(request->program, "sbatch") && !request->asked.nested)
        say_warn("Slurm cannot requeue a job of %s: a failure that the spares "
                 "do not cover ends this one; sbatch jobs go on",
                 *request->program ? request->program : "this command");
}
