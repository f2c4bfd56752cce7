/* main_train - koboshi-train: one rank of a training run.
 *
 * Table of contents: options, configuration, BLAS pinned, place, plan, wired,
 * attempt, memory, checkpoint, steps, end. Only this file exits.
 */
#include <config.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/base/file.h"
#include "runner/base/log.h"
#include "runner/data/tokenizer.h"
#include "runner/plan/share.h"
#include "runner/train/site.h"
#include "runner/train/train.h"

#define PROGRAM "koboshi-train"

/* ---- Plan ---------------------------------------------------------------- */
/* The run's own run.yaml, when no file is named. */
static int find_config(struct options *o, struct err *err)
{
    if (*o->config)
        return 0;
    if (!*o->run_dir)
        return err_set_class(err, ERR_REQUEST,
                             "train: no configuration: give --config FILE or "
                             "set " KB_ENV_CONFIG);
    return file_join(o->config, sizeof o->config, o->run_dir, KB_RUN_YAML,
                     err);
}

static struct conf *conf_open(struct options *o, struct err *err)
{
    char set[PATH_MAX + 16];
    if (find_config(o, err) != 0)
        return NULL;
    struct conf *conf = plan_conf_open(o->config, err);
    snprintf(set, sizeof set, "run.dir=%s", o->run_dir);
    if (conf && *o->run_dir && conf_set(conf, set, "--run-dir", err) != 0) {
        conf_destroy(conf);
        return NULL;
    }
    return conf;
}

static int plan_read(struct train *t, struct conf *conf, struct err *err)
{
    struct plan_notes *notes = calloc(1, sizeof *notes);
    struct site *site = calloc(1, sizeof *site);
    int rc = -1;
    if (!notes || !site) {
        err_set(err, "train: no memory for the plan");
        goto out;
    }
    site_look(conf, &t->place, site);
    if (tokenizer_look(conf, &site->tokenizer, err))
        goto out;
    rc = plan_make(conf, site, &t->plan, notes, err);
    if (rc == 0)
        plan_settle(&t->plan, t->place.rank);
    for (int i = 0; rc == 0 && t->place.rank == 0 && i < notes->n; i++)
        log_warn("%s", notes->text[i]);
out:
    free(notes);
    free(site);
    return rc;
}

/* ---- Wiring -------------------------------------------------------------- */
static int open_report(struct train *t, struct err *err)
{
    char dir[PATH_MAX];
    bool watched = !t->unsupervised || getenv(KB_ENV_NODE_DIR);
    if (watched && contract_node_dir(dir, sizeof dir, t->options.job,
                                     t->options.attempt, err) != 0)
        return -1;
    if (watched && access(dir, W_OK) != 0)
        watched = false;
    if (report_open(&t->report, watched ? dir : NULL, t->place.rank,
                    t->place.local_rank, t->options.attempt, err) != 0)
        return -1;
    report_event(&t->report, KB_EV_RANK_HELLO,
                 json_pack("{s:i}", "local", t->place.local_rank));
    return 0;
}

static int open_device(struct train *t, struct err *err)
{
    char why[256] = "";
    bool cuda = t->plan.device == PLAN_CUDA;
    ops_cpu_threads(t->plan.blas_threads);
    t->device = device_create(cuda ? DEVICE_CUDA : DEVICE_CPU,
                              t->place.local_rank, why, sizeof why);
    return t->device ? 0
                     : err_set_class(err, cuda ? ERR_GPU : ERR_RANK,
                                     "train: no device: %s", why);
}

/* Whatever hangs in a library after an abort: a process that is of no use ends
 * in the end. */
#define BROKEN_LIMIT_S 5.0

static void *end_later(void *ignored)
{
    clock_sleep_s(BROKEN_LIMIT_S);
    _exit(KB_EXIT_PEER);
    return ignored;
}

static void on_broken(void *ignored)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_later, ignored) == 0)
        pthread_detach(thread);
}

static int open_comm(struct train *t, struct err *err)
{
    struct comm_spec spec = {
        .kind = device_kind(t->device), .device = t->device,
        .data = t->plan.data, .tensor = t->plan.tensor,
        .pipeline = t->plan.pipeline, .twins = share_replicas(&t->plan),
        .ring = t->plan.chunks > 1,
        .wireup_limit_s = t->plan.wireup_limit_s, .beat = t->report.beat,
        .collective_limit_s = t->plan.collective_limit_s,
        .on_broken = on_broken,
    };
    t->comm = comm_open(&t->place, &spec, err);
    return t->comm ? 0 : -1;
}

static int open_ckpt(struct train *t, struct err *err)
{
    int n = optim_views(t->optim, true, NULL, 0);
    t->views = calloc((size_t)n + 1, sizeof *t->views);
    if (!t->views)
        return err_set(err, "train: no memory for the checkpoint's table");
    optim_views(t->optim, true, t->views, n);
    t->ckpt = ckpt_open(t->comm, &t->plan, t->device, t->views, n,
                        t->options.attempt, err);
    return t->ckpt ? 0 : -1;
}

/* ---- The rank ------------------------------------------------------------ */
/* An enum kb_exit, or -1 with err. */
static int rank_run(struct train *t, char **argv, struct err *err)
{
    struct conf *conf = conf_open(&t->options, err);
    if (!conf || plan_conf_recall(conf, err) != 0 ||
        (t->unsupervised && !getenv(BLAS_CORE_ENV) &&
         blas_pin(conf, argv, err) != 0))
        return -1;
    if (comm_find_place(&t->place, err) != 0)
        return -1;
    log_init(PROGRAM, t->place.size > 1 ? t->place.rank : -1);
    if (t->unsupervised && t->place.rank == 0)
        log_info("unsupervised: nobody restarts this run when it fails");
    if (plan_read(t, conf, err) != 0)
        return -1;
    parts_end(&t->parts, "plan");
    int rc = open_report(t, err) || open_device(t, err) ? -1 : 0;
    parts_end(&t->parts, "device");
    if (rc == 0 && open_comm(t, err) != 0)
        rc = err->class == ERR_REQUEST ? -1 : KB_EXIT_WIREUP;
    if (rc == 0 && t->unsupervised &&
        (blas_agree(t, conf, err) != 0 || attempt_make(t, conf, err) != 0))
        rc = -1;
    conf_destroy(conf);
    if (rc != 0)
        return rc;
    parts_end(&t->parts, "wiring");
    report_phase(&t->report, KB_PHASE_LOAD);
    if (state_open(t, err) != 0 || trackers_open(t, err) != 0)
        return -1;
    if (t->place.rank == 0)
        lines_start(t);
    parts_end(&t->parts, "trackers");
    if (resume_load(t, err) != 0) /* a step's class: none is valid */
        return err->class == ERR_STEP ? KB_EXIT_NO_CKPT : -1;
    if (tuned_begin(t, err) != 0)
        return -1;
    parts_end(&t->parts, "load");
    if (open_ckpt(t, err) != 0)
        return -1;
    parts_end(&t->parts, "checkpoints");
    return loop_run(t, err);
}

static int exit_code(const struct train *t, int rc, const struct err *err)
{
    if (rc >= 0)
        return rc;
    if (t->comm && comm_peer_lost(t->comm))
        return KB_EXIT_PEER;
    return contract_exit_code(err);
}

/* Tell why, and leave without waiting for anybody. */
static void leave(struct train *t, int rc, const struct err *err)
{
    int code = exit_code(t, rc, err);
    log_error("%s", err->msg);
    report_error(&t->report, err);
    trackers_close(t, code == KB_EXIT_REQUEST ? "FAILED" : NULL);
    comm_abort(t->comm);
    fflush(NULL);
    _exit(code);
}

static const char *lookup(const char *name)
{
    return getenv(name);
}

int main(int argc, char **argv)
{
    static struct train t;
    struct err err = ERR_INIT;
    log_init(PROGRAM, -1);
    t.report.sock = -1;
    if (options_read(argc, argv, lookup, &t.options, &err) != 0) {
        log_error("%s", err.msg);
        return KB_EXIT_REQUEST;
    }
    if (t.options.help) {
        struct sbuf text = SBUF_INIT;
        options_help(&text);
        fputs(text.data, stdout);
        sbuf_release(&text);
        return 0;
    }
    if (t.options.print_blas_core) {
        puts(getenv(BLAS_CORE_ENV) ? ops_cpu_core()
                                        : ops_cpu_core_best());
        return 0;
    }
    t.unsupervised = t.options.attempt == 0;
    stop_install();
    parts_begin(&t.parts);
    int rc = rank_run(&t, argv, &err);
    if (err.class != ERR_NONE)
        leave(&t, rc, &err);
    trackers_close(&t, rc == KB_EXIT_DONE ? "FINISHED" : NULL);
    state_close(&t);
    return rc;
}
