/* site - see site.h. */
#include "runner/train/site.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kernels/exec.h"
#include "runner/base/proc.h"
#include "runner/data/tokens.h"

static void look_at_file(const char *prefix, struct site_file *ret)
{
    struct err err = ERR_INIT;
    struct tokens *t = tokens_open(prefix, &err);
    *ret = (struct site_file){.known = true};
    if (!t) {
        snprintf(ret->problem, sizeof ret->problem, "%.250s", err.msg);
        return;
    }
    ret->exists = true;
    ret->sequences = tokens_sequences(t);
    ret->documents = tokens_documents(t);
    ret->tokens = tokens_total(t);
    ret->dtype_bytes = tokens_item_bytes(t);
    tokens_close(t);
}

/* In the order of the key's items, as plan_make reads them. */
static void look_at_files(const char *items, struct site_file *ret)
{
    for (int i = 0; *items && i < PLAN_LIST_MAX; i++) {
        struct plan_data item;
        size_t n = strcspn(items, "\n");
        if (plan_data_item(items, n, &item) == 0)
            look_at_file(item.prefix, &ret[i]);
        items += n + (items[n] == '\n');
    }
}

/* The run directory, or the nearest parent that exists. */
static void look_at_disk(const char *run_dir, struct site *site)
{
    char path[PATH_MAX];
    struct statvfs fs;
    snprintf(path, sizeof path, "%s", run_dir);
    while (access(path, F_OK) != 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            strcpy(path, "/");
            break;
        }
        *slash = 0;
    }
    site->run_dir_known = true;
    site->run_dir_writable = access(path, W_OK) == 0;
    if (!site->run_dir_writable)
        snprintf(site->run_dir_problem, sizeof site->run_dir_problem,
                 "'%.200s' is not writable", path);
    if (statvfs(path, &fs) == 0)
        site->disk_free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

/* GPUs that this host shows. */
static int count_gpus(void)
{
    char path[32];
    int n = 0;
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "/dev/nvidia%d", i);
        n += access(path, F_OK) == 0;
    }
    return n;
}

void site_look(const struct conf *conf, const struct comm_place *place,
               struct site *ret)
{
    int local = place->local_size > 0 ? place->local_size : 1;
    int gpus = ops_cuda() ? count_gpus() : 0;
    *ret = (struct site){
        .nodes = (place->size + local - 1) / local,
        .ranks_per_node = local,
        /* those of the ranks that were started: one may train beside
         * others' GPUs */
        .gpus_per_node = gpus < local ? gpus : local,
        .cores_per_rank = (int)(sysconf(_SC_NPROCESSORS_ONLN) / local),
        .disk_free_bytes = -1,
        .slurmd_timeout_s = -1, .requeue_delay_s = -1,
        .max_batch_requeue = -1, .job_requeue = -1, .kill_wait_s = -1,
    };
    if (gpus > 0 && device_look(DEVICE_CUDA, place->local_rank, ret->gpu,
                                sizeof ret->gpu, &ret->gpu_bytes,
                                &ret->cuda_version) != 0)
        ret->gpu_bytes = 0; /* opening it will say why */
    if (ret->cores_per_rank > proc_cores()) /* this rank is bound to some */
        ret->cores_per_rank = proc_cores();
    if (ret->cores_per_rank < 1)
        ret->cores_per_rank = 1;
    look_at_files(conf_text(conf, "data.train"), ret->train);
    look_at_files(conf_text(conf, "data.valid"), ret->valid);
    look_at_disk(conf_text(conf, "run.dir"), ret);
}
