/* site_slurm - the few settings of slurm.conf that can defeat recovery. Reads
 * the file itself: asking slurmctld would keep sbatch waiting. */
#include "runner/cli/site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runner/base/file.h"
#include "runner/base/str.h"

#define INCLUDE_DEPTH 3
#define LINES_MAX 20000 /* of all files: node lists are long, not endless */

/* Defaults that hold when the file says nothing. */
enum { SLURMD_TIMEOUT = 300, KILL_WAIT = 30, JOB_REQUEUE = 1,
       CRED_EXPIRE = 120 };

struct slurm_conf {
    struct site *site;
    int cred_expire, lines_n;
    char plugstack[PATH_MAX]; /* "" not named: beside slurm.conf */
};

/* "AuthInfo=socket=/x,cred_expire=5" */
static void take_auth_info(struct slurm_conf *conf, const char *value)
{
    const char *p = strstr(value, "cred_expire=");
    if (p)
        conf->cred_expire = atoi(p + strlen("cred_expire="));
}

static void take_line(struct slurm_conf *conf, const char *key,
                      const char *value)
{
    const struct {
        const char *key;
        int *to;
    } rows[] = {
        {"SlurmdTimeout", &conf->site->slurmd_timeout_s},
        {"KillWait", &conf->site->kill_wait_s},
        {"JobRequeue", &conf->site->job_requeue},
        {"MaxBatchRequeue", &conf->site->max_batch_requeue},
    };
    if (!strcasecmp(key, "AuthInfo"))
        take_auth_info(conf, value);
    if (!strcasecmp(key, "PlugStackConfig"))
        str_copy(conf->plugstack, sizeof conf->plugstack, value);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcasecmp(key, rows[i].key))
            *rows[i].to = atoi(value);
}

static void read_file(struct slurm_conf *conf, const char *path, int depth);

static void read_include(struct slurm_conf *conf, const char *from,
                         const char *name, int depth)
{
    char path[PATH_MAX];
    const char *slash = strrchr(from, '/');
    int dir_n = slash ? (int)(slash - from) + 1 : 0;
    if (name[0] == '/')
        dir_n = 0;
    if (snprintf(path, sizeof path, "%.*s%s", dir_n, from, name) <
        (int)sizeof path)
        read_file(conf, path, depth + 1);
}

static void read_file(struct slurm_conf *conf, const char *path, int depth)
{
    char line[4096], key[64], value[1024];
    FILE *f = depth < INCLUDE_DEPTH ? fopen(path, "re") : NULL;
    while (f && conf->lines_n++ < LINES_MAX && fgets(line, sizeof line, f)) {
        line[strcspn(line, "#\n")] = 0;
        if (sscanf(line, " %63[A-Za-z] = %1023s", key, value) == 2 ||
            sscanf(line, " %63[A-Za-z]=%1023s", key, value) == 2)
            take_line(conf, key, value);
        else if (sscanf(line, " %63[A-Za-z] %1023s", key, value) == 2 &&
                 !strcasecmp(key, "include"))
            read_include(conf, path, value, depth);
    }
    if (f)
        fclose(f);
}

/* ---- plugstack.conf ----------------------------------------------------- */

/* A file of `optional|required PATH WORDS...`; includes are not followed. */
static void read_plugstack(struct site *site, const char *path)
{
    char line[4096], word[32], plugin[PATH_MAX];
    FILE *f = fopen(path, "re");
    for (int n = 0; f && n < LINES_MAX && fgets(line, sizeof line, f); n++) {
        line[strcspn(line, "#\n")] = 0;
        if (sscanf(line, " %31s %4095s", word, plugin) != 2 ||
            !strstr(plugin, "spank_koboshi.so"))
            continue;
        site->plugin_required = !strcasecmp(word, "required");
        site->plugin_missing = plugin[0] == '/' && !file_exists(plugin);
    }
    if (f)
        fclose(f);
}

static void find_plugstack(struct slurm_conf *conf, const char *slurm_conf)
{
    const char *slash = strrchr(slurm_conf, '/');
    if (!conf->plugstack[0] &&
        snprintf(conf->plugstack, sizeof conf->plugstack, "%.*splugstack.conf",
                 slash ? (int)(slash - slurm_conf) + 1 : 0, slurm_conf) >=
            (int)sizeof conf->plugstack)
        return;
    read_plugstack(conf->site, conf->plugstack);
}

void site_read_slurm_conf(struct site *site, const char *path)
{
    static const char *const usual[] = {"/etc/slurm/slurm.conf",
                                        "/run/slurm/conf/slurm.conf",
                                        "/etc/slurm-llnl/slurm.conf"};
    struct slurm_conf conf = {site, CRED_EXPIRE, 0, ""};
    for (size_t i = 0; !path && i < sizeof usual / sizeof *usual; i++)
        if (file_exists(usual[i]))
            path = usual[i];
    if (!path || !file_exists(path))
        return;
    site->slurmd_timeout_s = SLURMD_TIMEOUT;
    site->kill_wait_s = KILL_WAIT;
    site->job_requeue = JOB_REQUEUE;
    read_file(&conf, path, 0);
    site->requeue_delay_s = conf.cred_expire + 1;
    find_plugstack(&conf, path);
}
