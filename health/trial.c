/* trial - koboshi-health-gpu as a child: on which GPUs, with what deadline; see
 * trial.h. */
#include "health/trial.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIAL "koboshi-health-gpu"
#define LATE_S 1.5 /* the program ends itself before its deadline */
enum { OUT_BYTES = 1 << 20 };

/* ---- Who is tried ------------------------------------------------------ */

/* Is i in "0,2-3"? -1: that is no list. */
static int is_listed(const char *list, int i)
{
    int found = 0;
    for (const char *p = list; *p;) {
        int from, to, used = 0;
        if (sscanf(p, "%d-%d%n", &from, &to, &used) != 2) {
            if (sscanf(p, "%d%n", &from, &used) != 1)
                return -1;
            to = from;
        }
        if (from < 0 || to < from)
            return -1;
        found |= i >= from && i <= to;
        p += used;
        if (*p && *p++ != ',')
            return -1;
    }
    return found;
}

/* NULL: it may be tried. */
static const char *why_not(const struct look *look, const struct gpu *gpu,
                           int i)
{
    const int64_t *value = gpu->value;
    /* Slurm counts device files; so does the list, where they are known. */
    int number = value[GPU_MINOR] == GPU_UNKNOWN ? i : (int)value[GPU_MINOR];
    if (look->gpus && is_listed(look->gpus, number) <= 0)
        return "not asked for";
    if (value[GPU_LOST] != GPU_UNKNOWN)
        return "the driver lost it";
    if (!*gpu->pci)
        return "its PCI address is not known";
    if (value[GPU_MIG] == 1)
        return "it is cut into MIG instances";
    if (value[GPU_COMPUTE_MODE_IS] > 0)
        return "its compute mode keeps programs away";
    if (value[GPU_PROCESSES] > 0 ||
        value[GPU_MEMORY_USED] > conf_int(look->site, "gpu.memory_used"))
        return "somebody uses it";
    return NULL;
}

/* 1 where it is not known. */
static double power_share(const struct gpu *gpu)
{
    int64_t limit = gpu->value[GPU_POWER_LIMIT_MW];
    int64_t usual = gpu->value[GPU_POWER_DEFAULT_MW];
    return limit > 0 && limit < usual ? (double)limit / (double)usual : 1;
}

void trial_choose(const struct look *look, struct findings *findings,
                  const struct gpus *gpus, struct active *ret)
{
    char name[64];
    for (int i = 0; i < gpus->n; i++) {
        const struct gpu *gpu = &gpus->gpu[i];
        const char *why = why_not(look, gpu, i);
        if (why) {
            snprintf(name, sizeof name, "not tried: gpu %d", i);
            findings_note(findings, name, "%s", why);
            continue;
        }
        struct active_gpu *to = &ret->gpu[ret->gpu_n++];
        to->index = i;
        str_copy(to->name, sizeof to->name, gpu->name);
        str_copy(to->pci, sizeof to->pci, gpu->pci);
        to->power = power_share(gpu);
        if (*gpu->uuid)
            str_copy(to->who, sizeof to->who, gpu->uuid);
        else
            snprintf(to->who, sizeof to->who, "gpu%d", i);
    }
}

/* ---- The child ------------------------------------------------------ */

static int find_program(const struct look *look, char *dst, size_t dst_bytes)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    const char *const folders[] = {self, KB_LIBEXECDIR "/koboshi"};
    if (look->trial)
        return str_copy(dst, dst_bytes, look->trial) && !access(dst, X_OK)
                   ? 0
                   : -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int len = snprintf(dst, dst_bytes, "%s/%s", folders[i], TRIAL);
        if (len > 0 && (size_t)len < dst_bytes && !access(dst, X_OK))
            return 0;
    }
    return -1;
}

/* The last line that it printed for people. */
static const char *last_words(struct proc_result *result)
{
    char *text = result->err.data;
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        text[--n] = 0;
    const char *last = strrchr(text, '\n');
    return last ? last + 1 : text;
}

int trial_run(const struct look *look, struct findings *findings,
              struct active *active, double seconds,
              const struct active_pair *pair, char *why, size_t why_bytes)
{
    char program[PATH_MAX], how[64];
    struct proc_result result = {0};
    struct err err = ERR_INIT;
    int rc = -1;
    *why = 0;
    if (find_program(look, program, sizeof program)) {
        snprintf(why, why_bytes, TRIAL " is not installed: Koboshi was built "
                                       "without CUDA");
        return -1;
    }
    char *request = active_request(active, seconds,
                                   look->corrupt ? look->corrupt : "", pair);
    const char *argv[] = {program, NULL};
    struct proc_spec spec = {.argv = argv,
                             .stdin_text = request,
                             .deadline_s = seconds + LATE_S,
                             .term_grace_s = 0.1,
                             .out_max_bytes = OUT_BYTES};
    findings_at(findings, TRIAL);
    if (!request || proc_run(&spec, &result, &err)) {
        snprintf(why, why_bytes, "cannot start " TRIAL ": %.160s", err.msg);
        goto out;
    }
    active_read(active, result.out.data);
    if (result.timed_out || result.exit_code) {
        const char *words = last_words(&result);
        snprintf(why, why_bytes, "%s%s%.160s",
                 proc_result_text(&result, how, sizeof how),
                 *words ? ": " : "", words);
    }
    rc = 0;
out:
    proc_result_release(&result);
    free(request);
    return rc;
}
