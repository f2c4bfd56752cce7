/* probe_gpu - read the GPUs and have them judged: once, or again and again
 * with the driver's events between.
 *
 * The values come from the driver (in a child: it may hang) or a record.
 */
#include "health/probe_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/klog_judge.h"
#include "health/nvml_abi.h"
#include "runner/base/clock.h"
#include "runner/base/str.h"

#define PCI "/sys/bus/pci/devices"
#define ROUND_MORE_S 12.0 /* a round's own time, past the wait before it */
#define AGAIN_S 0.5
#define DEAF 3 /* failures to wait for events in a row: none will come */
enum { PCI_MAX = 4096, VENDOR_NVIDIA = 0x10de };

/* ---- Rules of the node ---------------------------------------------- */

static void check_mixed(struct scene *scene)
{
    const struct gpu *first = &scene->gpus.gpu[0];
    for (int i = 1; i < scene->gpus.n; i++) {
        const struct gpu *gpu = &scene->gpus.gpu[i];
        const char *what = strcmp(gpu->name, first->name)       ? "model"
                           : strcmp(gpu->vbios, first->vbios)   ? "VBIOS"
                           : strcmp(gpu->inforom, first->inforom)
                               ? "InfoROM"
                               : NULL;
        if (!what || gpu->value[GPU_LOST] != GPU_UNKNOWN ||
            first->value[GPU_LOST] != GPU_UNKNOWN)
            continue;
        findings_add(scene->findings, F_GPU_MIXED, "node",
                     "%s of gpu %d is not that of gpu 0", what, i);
        return;
    }
}

/* How many others a GPU does not reach, for reasons that are no choice. */
static int count_cut(const struct gpu *gpu)
{
    int n = 0;
    for (const char *p = gpu->access; *p; p++)
        n += *p == 'n';
    return n;
}

/* Where NVLinks join the GPUs and some reach each other, all must. One that
 * reaches less than half of the others is to blame, not they. */
static void check_access(struct scene *scene)
{
    const struct gpus *gpus = &scene->gpus;
    bool reached = false;
    char who[96];
    for (int i = 0; i < gpus->n; i++) {
        reached |= strchr(gpus->gpu[i].access, 'y') != NULL;
        if (gpus->gpu[i].value[GPU_NVLINKS_ACTIVE] <= 0)
            return;
    }
    for (int i = 0; i < gpus->n && reached; i++) {
        const struct gpu *gpu = &gpus->gpu[i];
        bool alone = 2 * count_cut(gpu) > gpus->n - 1;
        int cut = 0;
        for (int j = 0; gpu->access[j] && j < gpus->n; j++)
            cut += gpu->access[j] == 'n' &&
                   (alone || 2 * count_cut(&gpus->gpu[j]) <= gpus->n - 1);
        if (cut)
            findings_add(scene->findings, F_GPU_PEER_CUT,
                         gpu_subject(scene, i, who), "access %s", gpu->access);
    }
}

static void check_failures(struct scene *scene)
{
    for (int i = 0; i < scene->gpus.failure_n; i++) {
        const struct gpu_failure *failure = &scene->gpus.failure[i];
        char who[96] = "node";
        if (failure->gpu >= 0 && failure->gpu < GPUS_MAX)
            gpu_subject(scene, failure->gpu, who);
        findings_add(scene->findings, F_GPU_CALL_FAILS, who,
                     "NVML %s gave code %d", failure->call, failure->code);
    }
}

/* Slurm's GRES against the driver. MIG instances are counted by Slurm as GPUs;
 * where they are on, nothing can be said. */
static void check_gres(struct scene *scene)
{
    int want = scene->look->lent;
    if (!scene->gpus.n && scene->look->user)
        return; /* a step that was given none sees none */
    for (int i = 0; i < scene->gpus.n; i++)
        if (scene->gpus.gpu[i].value[GPU_MIG] == 1)
            return;
    if (want > scene->gpus.n)
        findings_add(scene->findings, F_GPU_GRES_FEW, "node",
                     "the driver shows %d, Slurm lends %d", scene->gpus.n,
                     want);
}

static void check_count(struct scene *scene)
{
    int expected = (int)conf_int(scene->look->site, "expect.gpus");
    if (scene->gpus.n < expected)
        findings_add(scene->findings, F_GPU_COUNT_LOW, "node",
                     "the driver shows %d, %d expected", scene->gpus.n,
                     expected);
    if (expected < 0 && scene->gpus.n < scene->on_bus)
        findings_add(scene->findings, F_GPU_BUS_MISMATCH, "node",
                     "the driver shows %d, the bus %d", scene->gpus.n,
                     scene->on_bus);
    check_gres(scene);
}

/* Display controllers of NVIDIA: classes 0x0300xx and 0x0302xx. The driver may
 * show fewer by will (a container, a card lent to a virtual machine), so that
 * the bus is a hint and expect.gpus the judge. */
static int count_on_bus(const struct source *source)
{
    static char names[PCI_MAX][SOURCE_NAME_BYTES];
    char text[32];
    int found = 0, n = source_list(source, names, PCI_MAX, PCI);
    for (int i = 0; i < n; i++) {
        if (source_read(source, text, sizeof text, PCI "/%s/vendor",
                        names[i]) ||
            strtoul(text, NULL, 16) != VENDOR_NVIDIA ||
            source_read(source, text, sizeof text, PCI "/%s/class", names[i]))
            continue;
        unsigned long class = strtoul(text, NULL, 16) >> 8;
        found += class == 0x0300 || class == 0x0302;
    }
    return found;
}

/* ---- Reading ----------------------------------------------------------- */

static void tell_call(void *arg, const char *call, int gpu)
{
    struct findings *findings = arg;
    if (gpu < 0)
        findings_at(findings, "NVML %s", call);
    else
        findings_at(findings, "NVML %s of gpu %d", call, gpu);
}

static struct nvml *open_driver(const struct look *look,
                                struct findings *findings, int *ret_code,
                                struct err *err)
{
    struct nvml_teller teller = {tell_call, findings};
    return nvml_open(look->nvml, &teller, ret_code, err);
}

static bool is_by_driver(const struct look *look)
{
    return source_is_live(&look->source) || look->nvml;
}

static int read_record(const struct look *look, struct gpus *ret,
                       struct err *err)
{
    char *text = source_text(&look->source, "/gpus");
    if (!text)
        return err_set(err, "no GPUs recorded");
    int rc = gpus_parse(text, ret, err);
    free(text);
    return rc;
}

/* *ret_code: what the driver said, 0 if there is not even a library. */
static int read_gpus(const struct look *look, struct findings *findings,
                     struct gpus *ret, int *ret_code, struct err *err)
{
    *ret_code = 0;
    if (!is_by_driver(look))
        return read_record(look, ret, err);
    struct nvml *nvml = open_driver(look, findings, ret_code, err);
    if (!nvml)
        return -1;
    nvml_read(nvml, look->full, -1, ret);
    nvml_close(nvml);
    return 0;
}

int probe_read_gpus(const struct look *look, struct findings *findings,
                    struct gpus *ret, struct err *err)
{
    int code;
    return read_gpus(look, findings, ret, &code, err);
}

static void judge_absence(struct scene *scene, int code, const struct err *err)
{
    int expected = (int)conf_int(scene->look->site, "expect.gpus");
    if (code == NVML_DRIVER_MISMATCH)
        findings_add(scene->findings, F_GPU_DRIVER_MISMATCH, "node", "%s",
                     err->msg);
    else if (expected > 0)
        findings_add(scene->findings, F_GPU_ABSENT, "node", "%s", err->msg);
    else if (code && scene->look->lent > 0)
        findings_add(scene->findings, F_GPU_GRES_FEW, "node",
                     "Slurm lends %d; %s", scene->look->lent, err->msg);
    else if (expected < 0 && scene->on_bus > 0)
        findings_add(scene->findings, F_GPU_BUS_MISMATCH, "node",
                     "the bus shows %d; %s", scene->on_bus, err->msg);
    else
        findings_skip(scene->findings, "%s",
                      err->class == ERR_REQUEST ? err->msg : "no GPU");
}

static void judge_all(struct scene *scene)
{
    check_count(scene);
    for (int i = 0; i < scene->gpus.n; i++)
        gpu_judge(scene, i);
    if (scene->gpus.n > 1) {
        check_mixed(scene);
        check_access(scene);
    }
    check_failures(scene);
}

void probe_gpu(const struct look *look, struct findings *findings)
{
    static struct scene scene;
    struct err err = ERR_INIT;
    int code;
    scene.look = look;
    scene.findings = findings;
    scene.on_bus = count_on_bus(&look->source);
    if (read_gpus(look, findings, &scene.gpus, &code, &err)) {
        judge_absence(&scene, code, &err);
        return;
    }
    if (*scene.gpus.driver)
        findings_note(findings, "gpu driver", "%s", scene.gpus.driver);
    gpu_tell_names(&scene);
    judge_all(&scene);
    if (!scene.gpus.n && !conf_int(look->site, "expect.gpus"))
        findings_skip(findings, "no GPU");
}

/* ---- The watch --------------------------------------------------------- */

/* "00000000:3B:00.0" as the kernel's log has it: "0000:3b:00". */
static void log_address(const char *pci, char dst[32])
{
    size_t n = strcspn(pci, ":");
    str_copy(dst, 32, n > 4 ? pci + n - 4 : pci);
    dst[strcspn(dst, ".")] = 0;
    for (char *p = dst; *p; p++)
        *p = *p >= 'A' && *p <= 'F' ? (char)(*p - 'A' + 'a') : *p;
}

/* The Xid itself, and what the GPU's fields say now: they judge those Xids that
 * do not say by their number how bad it is. */
static void take_xid(struct scene *scene, struct nvml *nvml,
                     struct klog_judge *judge, const struct nvml_xid *xid,
                     bool has_fields)
{
    static struct scene fresh;
    struct xid_event event;
    char device[32] = "gpu";
    if (xid->gpu >= 0 && *scene->gpus.gpu[xid->gpu].pci)
        log_address(scene->gpus.gpu[xid->gpu].pci, device);
    xid_from_number(xid->xid, device, has_fields, &event);
    klog_judge_xid(judge, &event, clock_mono_s());
    klog_judge_tell(judge, scene->findings);
    if (xid->gpu < 0)
        return;
    fresh.look = scene->look;
    fresh.findings = scene->findings;
    nvml_read(nvml, false, xid->gpu, &fresh.gpus);
    gpu_judge(&fresh, xid->gpu);
}

/* Until the next round is due. False: the driver tells no more events. */
static bool wait_for_xids(struct scene *scene, struct nvml *nvml,
                          struct klog_judge *judge, double until_s)
{
    bool has_fields =
        scene->gpus.gpu[0].value[GPU_RECOVERY_ACTION] != GPU_UNKNOWN;
    for (;;) {
        struct nvml_xid xid;
        double left_s = until_s - clock_mono_s();
        if (left_s <= 0)
            return true;
        findings_round(scene->findings, "%g", left_s + ROUND_MORE_S);
        int rc = nvml_wait(nvml, (int)(left_s * 1000) + 1, &xid);
        if (rc < 0)
            return false;
        if (rc > 0)
            take_xid(scene, nvml, judge, &xid, has_fields);
    }
}

static void watch_record(struct scene *scene)
{
    struct err err = ERR_INIT;
    for (;;) {
        if (!read_record(scene->look, &scene->gpus, &err))
            judge_all(scene);
        findings_round(scene->findings, "%g",
                       scene->look->watch_s + ROUND_MORE_S);
        clock_sleep_s(scene->look->watch_s);
    }
}

void watch_gpu(const struct look *look, struct findings *findings)
{
    static struct scene scene;
    static struct klog_judge judge;
    struct err err = ERR_INIT;
    int code;
    scene.look = look;
    scene.findings = findings;
    scene.on_bus = count_on_bus(&look->source);
    if (!is_by_driver(look)) {
        watch_record(&scene);
        return;
    }
    struct nvml *nvml = open_driver(look, findings, &code, &err);
    if (!nvml) {
        judge_absence(&scene, code, &err);
        return;
    }
    int failed = nvml_listen(nvml) ? DEAF : 0;
    for (;;) {
        double until_s = clock_mono_s() + look->watch_s;
        nvml_read(nvml, false, -1, &scene.gpus);
        judge_all(&scene);
        if (failed < DEAF &&
            wait_for_xids(&scene, nvml, &judge, until_s)) {
            failed = 0;
            continue;
        }
        /* A GPU was lost, say: look at once, but not all the time. */
        double wait_s = ++failed < DEAF ? AGAIN_S : look->watch_s;
        findings_round(findings, "%g", wait_s + ROUND_MORE_S);
        clock_sleep_s(wait_s);
    }
}
