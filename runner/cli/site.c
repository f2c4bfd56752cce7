/* site - what can be found out about where a run would go; see site.h.
 *
 * A path is "not seen from here" when this host has not even its first
 * folders: a login node without the file system of the nodes. Then nothing is
 * said about it but that; otherwise what is missing is missing.
 */
#include "runner/cli/site.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runner/base/contract.h"
#include "runner/base/str.h"

void site_init(struct site *site)
{
    memset(site, 0, sizeof *site);
    site->spares = -1;
    site->disk_free_bytes = -1;
    site->slurmd_timeout_s = site->requeue_delay_s = -1;
    site->max_batch_requeue = site->job_requeue = site->kill_wait_s = -1;
    site->plugin_required = site->plugin_missing = -1;
}

/* ---- The job's environment ---------------------------------------------- */

/* "4", "4(x2),3": the first number. */
static int first_number(const char *text)
{
    char digits[16];
    int64_t v;
    if (!text)
        return 0;
    snprintf(digits, sizeof digits, "%.*s", (int)strspn(text, "0123456789"),
             text);
    return str_to_i64(digits, &v) || v > 1000000 ? 0 : (int)v;
}

void site_take_env(struct site *site, const char *(*lookup)(const char *name))
{
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {
        {"SLURM_JOB_NUM_NODES", offsetof(struct site, nodes)},
        {"SLURM_NTASKS_PER_NODE", offsetof(struct site, ranks_per_node)},
        {"SLURM_GPUS_ON_NODE", offsetof(struct site, gpus_per_node)},
        {"SLURM_GPUS_PER_NODE", offsetof(struct site, gpus_per_node)},
        {"SLURM_CPUS_PER_TASK", offsetof(struct site, cores_per_rank)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int *to = (int *)((char *)site + rows[i].offset);
        if (!*to)
            *to = first_number(lookup(rows[i].name));
    }
}

/* ---- Paths -------------------------------------------------------------- */

/* The nearest folder above path that exists, and whether it is path's own. */
static void nearest_folder(const char *path, char folder[PATH_MAX],
                           bool *ret_own)
{
    bool own = true;
    snprintf(folder, PATH_MAX, "%s", path);
    for (;;) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            break;
        if (slash == folder) {
            folder[1] = 0;
            break;
        }
        *slash = 0;
        if (!access(folder, F_OK))
            break;
        own = false;
    }
    *ret_own = own;
}

/* "/mnt" and above tell nothing about what the nodes have below. */
static bool is_seen(const char *path, char folder[PATH_MAX])
{
    bool own;
    nearest_folder(path, folder, &own);
    return own || strchr(folder + 1, '/');
}

/* The committed ones; *ret_found: one of them is of this step. */
static int count_checkpoints(const char *run_dir, int64_t step,
                             bool *ret_found)
{
    char dir[PATH_MAX], path[PATH_MAX];
    if (snprintf(dir, sizeof dir, "%s/%s", run_dir, KB_CKPT_DIR) >=
        (int)sizeof dir)
        return 0;
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (str_starts(e->d_name, "step-") &&
            snprintf(path, sizeof path, "%s/%s/%s", dir, e->d_name,
                     KB_CKPT_MANIFEST) < (int)sizeof path &&
            !access(path, F_OK)) {
            *ret_found |= atoll(e->d_name + 5) == step;
            n++;
        }
    if (d)
        closedir(d);
    return n;
}

static void look_at_run_dir(struct site *site, const char *path,
                            const char *resume)
{
    bool found = false, named;
    int64_t step = -1;
    char folder[PATH_MAX];
    struct statvfs disk;
    struct stat st;
    char *problem = site->run_dir_problem;
    size_t bytes = sizeof site->run_dir_problem;

    bool there = !stat(path, &st);
    if (there)
        snprintf(folder, sizeof folder, "%s", path);
    site->run_dir_known = there || is_seen(path, folder) || !site->submit;
    if (!site->run_dir_known)
        return;
    if (!stat(folder, &st) && !S_ISDIR(st.st_mode))
        snprintf(problem, bytes, "'%.150s' is not a folder", folder);
    else if (access(folder, W_OK | X_OK))
        snprintf(problem, bytes, "'%.150s': %s", folder, strerror(errno));
    else
        site->run_dir_writable = true;
    if (!statvfs(folder, &disk))
        site->disk_free_bytes =
            (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    named = !str_to_i64(resume, &step) && step >= 0;
    site->ckpts_n = count_checkpoints(path, step, &found);
    site->resume_missing = named && !found;
}

/* ---- Token files -------------------------------------------------------- */

/* Megatron's index: 9 bytes of magic, u64 version 1, u8 number type, u64
 * sequences, u64 document marks; then lengths, pointers and marks. */
enum { IDX_HEADER = 34 };
struct idx {
    int64_t bytes, sequences, marks;
    int item_bytes;
};

static int idx_read(FILE *f, const struct stat *st, struct idx *ret,
                    const char **why)
{
    static const int bytes_of[] = {0, 1, 1, 2, 4, 8, 0, 0, 2};
    unsigned char head[IDX_HEADER];
    uint64_t version, sequences, marks;
    *why = "the .idx is not a token file's index";
    if (fread(head, 1, sizeof head, f) != sizeof head ||
        memcmp(head, "MMIDIDX\0\0", 9))
        return -1;
    memcpy(&version, head + 9, 8);
    memcpy(&sequences, head + 18, 8);
    memcpy(&marks, head + 26, 8);
    *why = "the .idx is of a version or number type that is not known";
    if (version != 1 || head[17] >= sizeof bytes_of / sizeof *bytes_of ||
        !bytes_of[head[17]])
        return -1;
    *why = "the .idx is cut or its counts are wrong";
    if (sequences > (uint64_t)st->st_size || marks > (uint64_t)st->st_size ||
        !marks)
        return -1;
    uint64_t want = IDX_HEADER + 12 * sequences + 8 * marks;
    if ((uint64_t)st->st_size != want &&
        (uint64_t)st->st_size != want + sequences)
        return -1;
    *ret = (struct idx){st->st_size, (int64_t)sequences, (int64_t)marks,
                        bytes_of[head[17]]};
    return 0;
}

/* The last sequence must end where the .bin does, the last document with the
 * last sequence. */
static int idx_check_end(FILE *f, const struct idx *idx, int64_t bin_bytes,
                         const char **why)
{
    int32_t length;
    int64_t pointer = 0, mark, end = 0;
    *why = "the .idx cannot be read";
    if (idx->sequences) {
        long at = (long)(IDX_HEADER + 4 * (idx->sequences - 1));
        long at2 = (long)(IDX_HEADER + 4 * idx->sequences +
                          8 * (idx->sequences - 1));
        if (fseek(f, at, SEEK_SET) || fread(&length, 4, 1, f) != 1 ||
            fseek(f, at2, SEEK_SET) || fread(&pointer, 8, 1, f) != 1)
            return -1;
        end = pointer + (int64_t)length * idx->item_bytes;
    }
    if (fseek(f, (long)(IDX_HEADER + 12 * idx->sequences +
                        8 * (idx->marks - 1)), SEEK_SET) ||
        fread(&mark, 8, 1, f) != 1)
        return -1;
    *why = ".bin and .idx do not belong together: the index ends elsewhere";
    return end == bin_bytes && mark == idx->sequences ? 0 : -1;
}

void site_look_at_tokens(const char *prefix, struct site_file *ret)
{
    char bin[PATH_MAX], name[PATH_MAX], folder[PATH_MAX];
    struct stat bin_st, idx_st;
    struct idx idx;
    const char *why = "";
    FILE *f = NULL;

    *ret = (struct site_file){0};
    if (snprintf(bin, sizeof bin, "%s.bin", prefix) >= (int)sizeof bin ||
        snprintf(name, sizeof name, "%s.idx", prefix) >= (int)sizeof name) {
        why = "its path is too long";
        ret->known = true;
        goto out;
    }
    ret->known = is_seen(prefix, folder);
    bool has_bin = !stat(bin, &bin_st), has_idx = !stat(name, &idx_st);
    if (!has_bin && !has_idx)
        return;
    ret->known = ret->exists = true;
    why = !has_bin ? "its .bin is missing" : "its .idx is missing";
    if (!has_bin || !has_idx)
        goto out;
    f = fopen(name, "re");
    if (!f || access(bin, R_OK)) {
        why = strerror(errno);
        goto out;
    }
    if (idx_read(f, &idx_st, &idx, &why) ||
        idx_check_end(f, &idx, bin_st.st_size, &why))
        goto out;
    why = "";
    ret->sequences = idx.sequences;
    ret->documents = idx.marks - 1;
    ret->tokens = bin_st.st_size / idx.item_bytes;
    ret->dtype_bytes = idx.item_bytes;
out:
    snprintf(ret->problem, sizeof ret->problem, "%s", why);
    if (f)
        fclose(f);
}

static void look_at_list(const char *text, struct site_file *files)
{
    struct plan_data data;
    for (int i = 0; *text && i < PLAN_LIST_MAX;) {
        size_t n = strcspn(text, "\n");
        if (!plan_data_item(text, n, &data))
            site_look_at_tokens(data.prefix, &files[i++]);
        text += n + (text[n] == '\n');
    }
}

void site_look(struct site *site, const struct conf *conf)
{
    if (conf_is_set(conf, "run.dir"))
        look_at_run_dir(site, conf_text(conf, "run.dir"),
                        conf_text(conf, "checkpoint.resume"));
    look_at_list(conf_text(conf, "data.train"), site->train);
    look_at_list(conf_text(conf, "data.valid"), site->valid);
}
