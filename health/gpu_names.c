/* gpu_names - one GPU has five names: PCI address, UUID, NVML's index, the
 * minor number of its device file, and CUDA's ordinal in the job. And what the
 * node's GPUs are like, in one line each, to be laid beside other nodes'.
 */
#include "health/probe_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runner/base/str.h"

/* Place on the bus, from 0; -1: not known. CUDA counts by speed and then by
 * place, or by place alone: the same, where all are of one model. */
static int by_bus(const struct scene *scene, int i)
{
    const char *order = scene->look->cuda_order;
    const struct gpu *gpu = scene->gpus.gpu;
    int before = 0;
    for (int j = 0; j < scene->gpus.n; j++) {
        if (!*gpu[j].pci || (strcmp(gpu[j].name, gpu[0].name) &&
                             !(order && !strcmp(order, "PCI_BUS_ID"))))
            return -1;
        before += strcasecmp(gpu[j].pci, gpu[i].pci) < 0;
    }
    return before;
}

/* One word of CUDA_VISIBLE_DEVICES: the GPU's index, -1: none. */
static int visible(const struct scene *scene, const char *word, size_t n)
{
    char text[96];
    int64_t place = -1;
    if (!n || n >= sizeof text)
        return -1;
    snprintf(text, sizeof text, "%.*s", (int)n, word);
    bool is_place = !str_to_i64(text, &place);
    for (int i = 0; i < scene->gpus.n; i++)
        if (is_place ? by_bus(scene, i) == place && place >= 0
                     : str_starts(text, "GPU-") &&
                           str_starts(scene->gpus.gpu[i].uuid, text))
            return i;
    return -1;
}

int gpu_cuda_ordinal(const struct scene *scene, int i)
{
    const char *list = scene->look->cuda_visible;
    if (!list)
        return by_bus(scene, i);
    /* The first word that names none ends the list. */
    for (int ordinal = 0; *list; ordinal++) {
        size_t n = strcspn(list, ",");
        int which = visible(scene, list, n);
        if (which < 0)
            return -1;
        if (which == i)
            return ordinal;
        list += n + (list[n] == ',');
    }
    return -1;
}

static void tell_one(const struct scene *scene, int i)
{
    const struct gpu *gpu = &scene->gpus.gpu[i];
    char who[96], name[32], minor[24] = "-", cuda[16] = "-";
    int ordinal = gpu_cuda_ordinal(scene, i);
    long long number = gpu->value[GPU_MINOR] == GPU_UNKNOWN
                           ? -1
                           : (long long)gpu->value[GPU_MINOR];
    gpu_subject(scene, i, who);
    snprintf(name, sizeof name, "gpu %d", i);
    if (number >= 0)
        snprintf(minor, sizeof minor, "%lld", number);
    if (ordinal >= 0)
        snprintf(cuda, sizeof cuda, "%d", ordinal);
    findings_note(scene->findings, name, "%s, %s, PCI %s, minor %s, CUDA %s",
                  *gpu->name ? gpu->name : "name not known", who,
                  *gpu->pci ? gpu->pci : "not known", minor, cuda);
    findings_gpu(scene->findings, "%d %lld %d %s %s %s", i, number, ordinal,
                 who, *gpu->pci ? gpu->pci : "-",
                 *gpu->name ? gpu->name : "-");
}

/* ---- Lines of the node ------------------------------------------------- */

static void like_links(const struct gpu *gpu, char *dst, size_t dst_bytes)
{
    const int64_t *v = gpu->value;
    long long gen = v[GPU_PCIE_GEN_MAX] == GPU_UNKNOWN
                        ? 0
                        : (long long)v[GPU_PCIE_GEN_MAX];
    long long width = v[GPU_PCIE_WIDTH] == GPU_UNKNOWN
                          ? 0
                          : (long long)v[GPU_PCIE_WIDTH];
    long long links = v[GPU_NVLINKS_ACTIVE] == GPU_UNKNOWN
                          ? 0
                          : (long long)v[GPU_NVLINKS_ACTIVE];
    if (gen || width || links)
        snprintf(dst, dst_bytes, "PCIe %lldx%lld NVLink %lld", gen, width,
                 links);
}

static void like_firmware(const struct gpu *gpu, char *dst, size_t dst_bytes)
{
    if (*gpu->vbios || *gpu->inforom)
        snprintf(dst, dst_bytes, "%s/%s", *gpu->vbios ? gpu->vbios : "-",
                 *gpu->inforom ? gpu->inforom : "-");
}

/* All GPUs' words, equal neighbours as one with their number. */
static void tell_like(const struct scene *scene, const char *name,
                      void (*like)(const struct gpu *, char *, size_t))
{
    char word[96], last[96] = "";
    struct sbuf all = SBUF_INIT;
    int same = 0;
    for (int i = 0; i <= scene->gpus.n; i++) {
        *word = 0;
        if (i < scene->gpus.n)
            like(&scene->gpus.gpu[i], word, sizeof word);
        if (i && strcmp(word, last)) {
            if (same > 1)
                sbuf_printf(&all, "%s%d x %s", all.len ? "; " : "", same, last);
            else
                sbuf_printf(&all, "%s%s", all.len ? "; " : "", last);
            same = 0;
        }
        same++;
        str_copy(last, sizeof last, word);
    }
    if (strspn(all.data, "; ") < all.len)
        findings_note(scene->findings, name, "%s", all.data);
    sbuf_release(&all);
}

/* Who reaches whom and how near they are, as a line each: the same on each node
 * of a kind. */
static void tell_ways(const struct scene *scene)
{
    struct sbuf access = SBUF_INIT, near = SBUF_INIT;
    for (int i = 0; i < scene->gpus.n; i++) {
        sbuf_printf(&access, "%s%s", i ? " " : "", scene->gpus.gpu[i].access);
        sbuf_printf(&near, "%s%s", i ? " " : "", scene->gpus.gpu[i].near);
    }
    if (strpbrk(access.data, "ynd"))
        findings_note(scene->findings, "peer access", "%s", access.data);
    if (strpbrk(near.data, "012345"))
        findings_note(scene->findings, "gpu topology", "%s", near.data);
    sbuf_release(&access);
    sbuf_release(&near);
}

void gpu_tell_names(const struct scene *scene)
{
    for (int i = 0; i < scene->gpus.n; i++)
        tell_one(scene, i);
    if (!scene->gpus.n)
        return;
    tell_like(scene, "gpu links", like_links);
    tell_like(scene, "gpu firmware", like_firmware);
    if (scene->gpus.n > 1)
        tell_ways(scene);
}
