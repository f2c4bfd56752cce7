/* hf_tensors - which tensors Hugging Face's files of a model hold, without
 * making one. */
#include "runner/model/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(const struct shape *s, const struct part_name *name, int layer,
                struct hf_tensor *list, int *n)
{
    int first, rows, out, in;
    part_rows(s, name->place, name->part, &first, &rows);
    place_dims(s, name->place, &out, &in);
    if (!out || !rows)
        return;
    bool turned = place_in_out(s, name->place);
    struct hf_tensor *t = &list[(*n)++];
    *t = (struct hf_tensor){.dims = place_is_vector(name->place) ? 1 : 2};
    snprintf(t->name, sizeof t->name, name->fmt, layer);
    t->shape[0] = turned ? in : rows;
    t->shape[1] = t->dims == 1 ? 1 : turned ? rows : in;
}

int model_hf_tensors(const struct shape *s, struct hf_tensor **ret)
{
    size_t most = (size_t)s->L * (P_LAYER_N + 5) + 8;
    int n = 0;
    *ret = calloc(most, sizeof **ret);
    if (!*ret)
        return -1;
    for (const struct part_name *name = hf_part_names; name->fmt; name++) {
        int times = name->place < P_LAYER_N ? s->L : 1;
        for (int l = 0; l < times && name->names == s->names; l++)
            add(s, name, l, *ret, &n);
    }
    return n;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);
    return n >= e && !strcmp(name + n - e, end);
}

bool model_hf_ignored(const struct shape *s, const char *name)
{
    if (s->names == SHAPE_NAMES_GPT2 &&
        (ends_in(name, ".attn.bias") || ends_in(name, ".attn.masked_bias")))
        return true;
    return ends_in(name, ".rotary_emb.inv_freq") ||
           (s->tied && !strcmp(name, "lm_head.weight"));
}
