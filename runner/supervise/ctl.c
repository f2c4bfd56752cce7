/* ctl - libslurm behind a small table of questions; see ctl.h. */
#include <config.h>

#include "runner/supervise/ctl.h"

/* Newer headers take a job's number only then. */
#define SLURM_BACKWARD_COMPAT

#include <errno.h>
#include <math.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner/base/clock.h"

/* slurm_hostlist_* take hostlist_t, which became a pointer type under another
 * name in 23.11. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
typedef hostlist_t *ctl_hostlist;
#else
typedef hostlist_t ctl_hostlist;
#endif

/* A job's number, in what describes one: it moved in newer releases. */
#ifdef HAVE_SLURM_JOB_ID
#define JOB_ID(thing) (thing).job_id
#else
#define JOB_ID(thing) (thing).step_id.job_id
#endif

#define EXCLUDE_TRIES 40
#define EXCLUDE_AGAIN_S 0.1
#define LIST_MAX_BYTES ((size_t)16 << 20)

/* slurmctld does not answer, or answers that it is not yet to be asked. */
static bool is_away(int code)
{
    return (code >= SLURM_COMMUNICATIONS_CONNECTION_ERROR &&
            code <= SLURM_COMMUNICATIONS_SHUTDOWN_ERROR) ||
           (code >= SLURMCTLD_COMMUNICATIONS_CONNECTION_ERROR &&
            code <= SLURMCTLD_COMMUNICATIONS_SHUTDOWN_ERROR) ||
           code == SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT ||
           code == SLURM_PROTOCOL_SOCKET_ZERO_BYTES_SENT ||
           code == ESLURM_IN_STANDBY_MODE || code == ECONNREFUSED ||
           code == ETIMEDOUT || code == EHOSTUNREACH;
}

static int fail(struct err *err, int code, const char *what)
{
    return err_set_class(err, is_away(code) ? ERR_JOB : ERR_RANK,
                         "slurm: %s: %s", what, slurm_strerror(code));
}

int ctl_check(struct err *err)
{
    long have = slurm_api_version(), want = SLURM_API_BUILT;
    if (!want || have >> 16 == want >> 16) {
        slurm_init(NULL);
        return 0;
    }
    return err_set_class(
        err, ERR_REQUEST,
        "slurm: this program was built for libslurm.so.%ld (Slurm %d.%02d) "
        "and found libslurm.so.%ld; build Koboshi against the installed Slurm",
        want >> 16, SLURM_VERSION_NUMBER >> 16, SLURM_VERSION_NUMBER >> 8 & 255,
        have >> 16);
}

/* ---- The job ------------------------------------------------------------ */

static enum ctl_state state_of(uint32_t job_state)
{
    switch (job_state & JOB_STATE_BASE) {
    case JOB_PENDING:
        return CTL_PENDING;
    case JOB_RUNNING:
        return CTL_RUNNING;
    case JOB_SUSPENDED:
        return CTL_SUSPENDED;
    case JOB_CANCELLED:
        return CTL_CANCELLED;
    case JOB_PREEMPTED:
        return CTL_PREEMPTED;
    case JOB_TIMEOUT:
        return CTL_TIMEOUT;
    default:
        return CTL_OTHER;
    }
}

static char *copy(const char *text)
{
    return strdup(text ? text : "");
}

int ctl_load_job(uint32_t id, struct ctl_job *ret, struct err *err)
{
    job_info_msg_t *msg = NULL;
    if (slurm_load_job(&msg, id, SHOW_DETAIL)) {
        if (errno == ESLURM_INVALID_JOB_ID)
            return err_set_class(err, ERR_REQUEST,
                                 "slurm: job %u is not known any more", id);
        return fail(err, errno, "cannot ask about the job");
    }
    /* An array gives all its tasks: ours is the one with this id. */
    const slurm_job_info_t *info = NULL;
    for (uint32_t i = 0; i < msg->record_count; i++)
        if (JOB_ID(msg->job_array[i]) == id)
            info = &msg->job_array[i];
    int rc = 0;
    if (!info) {
        rc = err_set_class(err, ERR_REQUEST,
                           "slurm: job %u is not known any more", id);
        goto out;
    }
    *ret = (struct ctl_job){
        .id = id,
        .array_job = info->array_job_id,
        .array_task = info->array_task_id,
        .state = state_of(info->job_state),
        .completing = info->job_state & JOB_COMPLETING,
        .batch = info->batch_flag,
        .requeue = info->requeue,
        .preempting = info->preempt_time != 0,
        .restart_count = info->restart_cnt,
        .left_s = info->time_limit == INFINITE
                      ? HUGE_VAL
                      : difftime(info->end_time, msg->last_update),
        .nodes = copy(info->nodes),
        .exclude = copy(info->exc_nodes),
        .comment = copy(info->comment),
        .batch_host = copy(info->batch_host),
    };
    if (!ret->nodes || !ret->exclude || !ret->comment || !ret->batch_host) {
        ctl_job_release(ret);
        rc = err_set(err, "slurm: out of memory");
    }
out:
    slurm_free_job_info_msg(msg);
    return rc;
}

void ctl_job_release(struct ctl_job *job)
{
    free(job->nodes);
    free(job->exclude);
    free(job->comment);
    free(job->batch_host);
    *job = (struct ctl_job){0};
}

int ctl_requeue(uint32_t id, struct err *err)
{
    int code = slurm_requeue(id, 0); /* gives the errno value itself */
    if (code == 0)
        return 0;
    if (code == -1)
        code = errno;
    if (code == ESLURM_JOB_PENDING)
        return 0; /* somebody else was quicker */
    if (code == ESLURM_BATCH_ONLY || code == ESLURM_DISABLED)
        return err_set_class(err, ERR_REQUEST,
                             "slurm: the job cannot be requeued: %s; submit "
                             "it with sbatch --requeue", slurm_strerror(code));
    return fail(err, code, "cannot requeue the job");
}

int ctl_exclude(uint32_t id, const char *list, struct err *err)
{
    int code = 0;
    for (int i = 0; i < EXCLUDE_TRIES; i++) {
        job_desc_msg_t desc;
        slurm_init_job_desc_msg(&desc);
        JOB_ID(desc) = id;
        desc.exc_nodes = (char *)list;
        if (!slurm_update_job(&desc))
            return 0;
        code = errno;
        if (code != ESLURM_JOB_NOT_PENDING &&
            code != ESLURM_TRANSITION_STATE_NO_UPDATE)
            break;
        clock_sleep_s(EXCLUDE_AGAIN_S);
    }
    return fail(err, code, "cannot exclude nodes from the job");
}

int ctl_comment(uint32_t id, const char *text, struct err *err)
{
    job_desc_msg_t desc;
    slurm_init_job_desc_msg(&desc);
    JOB_ID(desc) = id;
    desc.comment = (char *)text;
    return slurm_update_job(&desc) ? fail(err, errno, "cannot set the comment")
                                   : 0;
}

/* ---- Nodes -------------------------------------------------------------- */

static void take_node(const node_info_t *info, struct ctl_node *ret)
{
    uint32_t base = info->node_state & NODE_STATE_BASE;
    *ret = (struct ctl_node){
        .port = info->port,
        .down = base == NODE_STATE_DOWN,
        .draining = info->node_state & NODE_STATE_DRAIN,
        .silent = info->node_state & NODE_STATE_NO_RESPOND,
    };
    snprintf(ret->name, sizeof ret->name, "%s", info->name);
    snprintf(ret->address, sizeof ret->address, "%s",
             info->node_addr && *info->node_addr ? info->node_addr
                                                 : info->name);
}

int ctl_load_node(const char *name, struct ctl_node *ret, struct err *err)
{
    node_info_msg_t *msg = NULL;
    if (slurm_load_node_single(&msg, (char *)name, SHOW_ALL))
        return fail(err, errno, "cannot ask about a node");
    int rc = 0;
    if (msg->record_count && msg->node_array[0].name)
        take_node(&msg->node_array[0], ret);
    else
        rc = err_set(err, "slurm: no such node: '%s'", name);
    slurm_free_node_info_msg(msg);
    return rc;
}

int ctl_load_nodes(const char *const *names, int n, struct ctl_node *ret,
                   struct err *err)
{
    node_info_msg_t *msg = NULL;
    if (slurm_load_node(0, &msg, SHOW_ALL))
        return fail(err, errno, "cannot ask about the nodes");
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        uint32_t k = 0;
        while (k < msg->record_count &&
               (!msg->node_array[k].name ||
                strcmp(msg->node_array[k].name, names[i])))
            k++;
        if (k < msg->record_count)
            take_node(&msg->node_array[k], &ret[i]);
        else
            rc = err_set(err, "slurm: no such node: '%s'", names[i]);
    }
    slurm_free_node_info_msg(msg);
    return rc;
}

/* Is name one of "a,b,c"? */
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && *p; p += *p == ',') {
        size_t len = strcspn(p, ",");
        if (len == n && !strncmp(p, name, n))
            return true;
        p += len;
    }
    return false;
}

static ctl_hostlist partition_nodes(const char *names, struct err *err)
{
    partition_info_msg_t *msg = NULL;
    if (slurm_load_partitions(0, &msg, SHOW_ALL)) {
        fail(err, errno, "cannot ask about partitions");
        return NULL;
    }
    ctl_hostlist all = slurm_hostlist_create("");
    for (uint32_t i = 0; all && i < msg->record_count; i++) {
        const partition_info_t *p = &msg->partition_array[i];
        if (p->nodes && p->name && is_listed(names, p->name))
            slurm_hostlist_push(all, p->nodes);
    }
    slurm_free_partition_info_msg(msg);
    if (all)
        slurm_hostlist_uniq(all);
    return all;
}

int ctl_nodes_left(uint32_t id, const char *exclude, int *ret, struct err *err)
{
    char **out = NULL;
    job_info_msg_t *msg = NULL;
    int out_n = ctl_expand(exclude, &out, err);
    if (out_n < 0)
        return -1;
    if (slurm_load_job(&msg, id, SHOW_DETAIL)) {
        ctl_names_free(out);
        return fail(err, errno, "cannot ask about the job");
    }
    ctl_hostlist all =
        partition_nodes(msg->record_count ? msg->job_array[0].partition : "",
                        err);
    slurm_free_job_info_msg(msg);
    if (all) {
        *ret = slurm_hostlist_count(all);
        for (int i = 0; i < out_n; i++)
            *ret -= slurm_hostlist_find(all, out[i]) >= 0;
        slurm_hostlist_destroy(all);
    }
    ctl_names_free(out);
    return all ? 0 : -1;
}

/* ---- Host lists --------------------------------------------------------- */

int ctl_expand(const char *list, char ***ret, struct err *err)
{
    ctl_hostlist hl = slurm_hostlist_create(list);
    if (!hl)
        return err_set(err, "slurm: bad host list: '%s'", list);
    int n = slurm_hostlist_count(hl);
    char **names = calloc((size_t)n + 1, sizeof *names);
    for (int i = 0; names && i < n; i++)
        names[i] = slurm_hostlist_shift(hl);
    slurm_hostlist_destroy(hl);
    if (!names)
        return err_set(err, "slurm: out of memory");
    *ret = names;
    return n;
}

void ctl_names_free(char **names)
{
    for (char **p = names; p && *p; p++)
        free(*p);
    free(names);
}

/* The functions that allocate come and go with releases. */
static char *ranged(ctl_hostlist hl)
{
    for (size_t bytes = 1024; bytes <= LIST_MAX_BYTES; bytes *= 4) {
        char *list = malloc(bytes);
        ssize_t n = list ? slurm_hostlist_ranged_string(hl, bytes, list) : -1;
        if (n >= 0 && (size_t)n < bytes)
            return list;
        free(list);
    }
    return NULL;
}

char *ctl_compress(const char *const *names, int n)
{
    ctl_hostlist hl = slurm_hostlist_create("");
    if (!hl)
        return NULL;
    for (int i = 0; i < n; i++)
        slurm_hostlist_push_host(hl, names[i]);
    slurm_hostlist_uniq(hl);
    char *list = ranged(hl);
    slurm_hostlist_destroy(hl);
    return list;
}
