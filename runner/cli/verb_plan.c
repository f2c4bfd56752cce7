/* verb_plan - `koboshi plan`: check a run.yaml and show what it would do. The
 * plugin runs it at submit (--submit), so that it must be quick: no child, no
 * network, headers of files only. Every mistake is told, a line each. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/base/str.h"
#include "runner/cli/site.h"
#include "runner/cli/verbs.h"
#include "runner/data/tokenizer.h"

#define SETS_MAX 256

static const char usage[] =
    "usage: koboshi plan [options] [FILE]\n"
    "Check a run's configuration and show the plan. FILE is run.yaml, or what\n"
    "KOBOSHI_CONFIG says.\n"
    "  --set KEY=VALUE       a key over what FILE says (several times)\n"
    "  --nodes N             nodes of the job, spares among them\n"
    "  --ranks-per-node N    tasks on a node\n"
    "  --gpus-per-node N     GPUs on a node\n"
    "  --cores-per-rank N    cores of a task\n"
    "  --gpu NAME            their model, as H200\n"
    "  --gpu-memory S        memory of one, as 80G\n"
    "  --memory-per-rank S   host memory of a rank, as 80G\n"
    "  --time-limit S        of the job: seconds, or as 30m, 8h\n"
    "  --array               the job is an array\n"
    "  --submit              as sbatch asks: what this host cannot see is a\n"
    "                        warning\n"
    "  --dump                print the effective configuration, as YAML with\n"
    "                        the origin of each value\n"
    "  --keys                list all keys of run.yaml\n"
    "  --presets             list the known models\n"
    "exit code: 0 it can run, 2 it cannot\n";

enum option_id { OPT_SET = 256, OPT_NODES, OPT_RANKS, OPT_GPUS, OPT_CORES,
                 OPT_MEMORY, OPT_TIME, OPT_GPU_MEMORY, OPT_GPU,
                 OPT_ARRAY, OPT_SUBMIT, OPT_DUMP, OPT_KEYS, OPT_PRESETS };

static const struct option options[] = {
    {"set", required_argument, NULL, OPT_SET},
    {"nodes", required_argument, NULL, OPT_NODES},
    {"ranks-per-node", required_argument, NULL, OPT_RANKS},
    {"gpus-per-node", required_argument, NULL, OPT_GPUS},
    {"cores-per-rank", required_argument, NULL, OPT_CORES},
    {"gpu", required_argument, NULL, OPT_GPU},
    {"gpu-memory", required_argument, NULL, OPT_GPU_MEMORY},
    {"memory-per-rank", required_argument, NULL, OPT_MEMORY},
    {"time-limit", required_argument, NULL, OPT_TIME},
    {"array", no_argument, NULL, OPT_ARRAY},
    {"submit", no_argument, NULL, OPT_SUBMIT},
    {"dump", no_argument, NULL, OPT_DUMP},
    {"keys", no_argument, NULL, OPT_KEYS},
    {"presets", no_argument, NULL, OPT_PRESETS},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* Numbers on the command line have rows, so that they are read as keys are. */
static const struct conf_row number_rows[] = {
    {"--nodes", CONF_INT, "0", 0, 65536, "nodes", NULL, false, "", NULL},
    {"--ranks-per-node", CONF_INT, "0", 0, 4096, "", NULL, false, "", NULL},
    {"--gpus-per-node", CONF_INT, "0", 0, 4096, "", NULL, false, "", NULL},
    {"--cores-per-rank", CONF_INT, "0", 0, 65536, "", NULL, false, "", NULL},
    {"--memory-per-rank", CONF_SIZE, "0", 0, 0x1p60, "bytes", NULL, false, "",
     NULL},
    {"--time-limit", CONF_DURATION, "0", 0, 1e9, "s", NULL, false, "", NULL},
    {"--gpu-memory", CONF_SIZE, "0", 0, 0x1p60, "bytes", NULL, false, "", NULL},
};
#define NUMBERS_N ((int)(sizeof number_rows / sizeof *number_rows))

struct args {
    const char *sets[SETS_MAX];
    int sets_n;
    struct conf *numbers;
    bool array, submit, dump, keys, presets, help;
    const char *file, *gpu;
};

static struct site site;        /* large, and one a process */
static struct plan plan;
static struct plan_notes notes;

/* sbatch puts its own words in front of ours. */
static bool bare;
static int said_n;

static void say(void *ctx, const char *message)
{
    fprintf(stderr, "%s%s\n", bare ? "" : "koboshi plan: ", message);
    said_n++;
}

static int take_option(struct args *args, int id, const char *value,
                       struct err *err)
{
    switch (id) {
    case OPT_SET:
        if (args->sets_n == SETS_MAX)
            return err_set_class(err, ERR_REQUEST, "more than %d --set",
                                 SETS_MAX);
        args->sets[args->sets_n++] = value;
        return 0;
    case OPT_GPU: args->gpu = value; return 0;
    case OPT_ARRAY: args->array = true; return 0;
    case OPT_SUBMIT: args->submit = true; return 0;
    case OPT_DUMP: args->dump = true; return 0;
    case OPT_KEYS: args->keys = true; return 0;
    case OPT_PRESETS: args->presets = true; return 0;
    case 'h': args->help = true; return 0;
    case OPT_NODES: case OPT_RANKS: case OPT_GPUS: case OPT_CORES:
    case OPT_MEMORY: case OPT_TIME: case OPT_GPU_MEMORY:
        return conf_put(args->numbers, number_rows[id - OPT_NODES].key, value,
                        "command line", err);
    default:
        return err_set_class(err, ERR_REQUEST,
                             "an option that is not known or lacks its value; "
                             "see koboshi plan --help");
    }
}

static int parse(int argc, char **argv, struct args *args, struct err *err)
{
    int id;
    args->numbers = conf_create(number_rows, NUMBERS_N, err);
    if (!args->numbers)
        return -1;
    optind = 0;
    opterr = 0;
    while ((id = getopt_long(argc, argv, "h", options, NULL)) != -1)
        if (take_option(args, id, optarg, err))
            return -1;
    if (argc - optind > 1)
        return err_set_class(err, ERR_REQUEST, "more than one FILE: '%s'",
                             argv[optind + 1]);
    args->file = optind < argc ? argv[optind] : getenv(KB_ENV_CONFIG);
    if (!args->file || !*args->file)
        args->file = "run.yaml";
    return conf_check(args->numbers, err);
}

/* File, environment, --set, paths, preset; NULL when something was wrong, which
 * has been said. */
static struct conf *read_conf(const struct args *args, struct err *err)
{
    char dir[PATH_MAX];
    struct conf *conf = plan_conf_create(err);
    if (!conf)
        return NULL;
    const char *slash = strrchr(args->file, '/');
    snprintf(dir, sizeof dir, "%.*s",
             slash ? slash == args->file ? 1 : (int)(slash - args->file) : 1,
             slash ? args->file : ".");
    struct err told = ERR_INIT; /* again by conf_mistakes */
    plan_conf_read(conf, args->file, &told);
    for (int i = 0; i < args->sets_n; i++)
        conf_set(conf, args->sets[i], "--set", &told);
    if (!conf_mistakes(conf, say, NULL) && !plan_conf_finish(conf, dir, err))
        return conf;
    conf_destroy(conf);
    return NULL;
}

static const char *lookup(const char *name)
{
    return getenv(name);
}

static int find_gpu(const char *name, struct err *err)
{
    str_copy(site.gpu, sizeof site.gpu, name);
    if (plan_gpu_bytes(name) > 0 || site.gpu_bytes > 0)
        return 0;
    return err_set_class(err, ERR_REQUEST, "--gpu: '%s' is not known; give "
                         "--gpu-memory too", name);
}

static int find_site(const struct args *args, struct conf *conf,
                     struct err *err)
{
    site_init(&site);
    site.submit = args->submit;
    site.nodes = (int)conf_int(args->numbers, "--nodes");
    site.ranks_per_node = (int)conf_int(args->numbers, "--ranks-per-node");
    site.gpus_per_node = (int)conf_int(args->numbers, "--gpus-per-node");
    site.cores_per_rank = (int)conf_int(args->numbers, "--cores-per-rank");
    site.mem_per_rank_bytes = conf_int(args->numbers, "--memory-per-rank");
    site.time_limit_s = conf_real(args->numbers, "--time-limit");
    site.gpu_bytes = conf_int(args->numbers, "--gpu-memory");
    site.array_job = args->array;
    if (args->gpu && find_gpu(args->gpu, err))
        return -1;
    if (!args->submit) /* sbatch may be called from inside another job */
        site_take_env(&site, lookup);
    site_look(&site, conf);
    site_read_slurm_conf(&site, getenv("SLURM_CONF"));
    return tokenizer_look(conf, &site.tokenizer, err);
}

/* Refusals; or warnings and the plan. Returns the exit code. */
static int show(const struct args *args, const struct conf *conf)
{
    struct sbuf out = SBUF_INIT;
    struct err err = ERR_INIT;
    int rc = plan_make(conf, &site, &plan, &notes, &err);
    for (int i = 0; i < notes.refusals_n; i++)
        say(NULL, notes.refusal[i]);
    if (rc && !notes.refusals_n)
        say(NULL, err.msg);
    for (int i = 0; i < notes.n && !(rc && bare); i++)
        fprintf(stderr, "%s%s\n", bare ? "" : "koboshi plan: warning: ",
                notes.text[i]);
    if (rc)
        return KB_EXIT_REQUEST;
    if (args->dump)
        conf_dump(conf, &out);
    else
        plan_print(&plan, &out);
    fputs(out.data, stdout);
    if (args->submit && !args->dump)
        printf(KB_SUBMIT_MARK KB_ENV_GATE "=%s\n", plan.health);
    sbuf_release(&out);
    return KB_EXIT_DONE;
}

static int print_lists(const struct args *args)
{
    struct sbuf out = SBUF_INIT;
    const char *const *names = plan_presets();
    if (args->help)
        sbuf_puts(&out, usage);
    else if (args->keys)
        conf_help(plan_rows, plan_rows_n, &out);
    for (; args->presets && *names; names++)
        sbuf_printf(&out, "%s\n", *names);
    fputs(out.data, stdout);
    sbuf_release(&out);
    return KB_EXIT_DONE;
}

int verb_plan(int argc, char **argv)
{
    struct args args = {0};
    struct err err = ERR_INIT;
    struct conf *conf = NULL;
    int rc = KB_EXIT_REQUEST;

    if (parse(argc, argv, &args, &err))
        goto out;
    bare = args.submit;
    if (args.help || args.keys || args.presets) {
        rc = print_lists(&args);
        goto out;
    }
    conf = read_conf(&args, &err);
    if (!conf || find_site(&args, conf, &err))
        goto out;
    rc = show(&args, conf);
out:
    if (err.class != ERR_NONE)
        say(NULL, err.msg);
    conf_destroy(args.numbers);
    conf_destroy(conf);
    return rc;
}
