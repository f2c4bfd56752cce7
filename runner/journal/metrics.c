/* metrics - one logged step as a line for people and as fields. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runner/base/clock.h"
#include "runner/base/str.h"
#include "runner/journal/fields.h"

#define AT(member) offsetof(struct metrics, member)

const struct field metrics_fields[] = {
    {"step", NULL, false, 1, FIELD_I64, AT(step)},
    {"steps", NULL, false, 1, FIELD_I64, AT(steps)},
    {"consumed_samples", NULL, false, 1, FIELD_I64, AT(consumed_samples)},
    {"consumed_tokens", "consumed-tokens", false, 1, FIELD_I64,
     AT(consumed_tokens)},
    {"iteration_ms", "iteration-time", false, 1e-3, FIELD_DOUBLE,
     AT(iteration_ms)},
    {"tokens_per_s", "tokens-per-second", false, 1, FIELD_DOUBLE,
     AT(tokens_per_s)},
    {"tokens_per_s_rank", "tokens-per-second-per-rank", false, 1,
     FIELD_DOUBLE, AT(tokens_per_s_rank)},
    {"tflops_half", "throughput-causal", false, 1, FIELD_DOUBLE,
     AT(tflops_half)},
    {"tflops_full", "throughput", false, 1, FIELD_DOUBLE, AT(tflops_full)},
    {"lr", "learning-rate", true, 1, FIELD_DOUBLE, AT(lr)},
    {"loss", "lm loss", true, 1, FIELD_DOUBLE, AT(loss)},
    {"grad_norm", "grad-norm", true, 1, FIELD_DOUBLE, AT(grad_norm)},
    {"z", "z-loss", false, 1, FIELD_DOUBLE, AT(z)},
    {"accuracy", "accuracy", false, 1, FIELD_DOUBLE, AT(accuracy)},
    {"global_batch", "batch-size", true, 1, FIELD_INT, AT(global_batch)},
    {"skipped", "skipped-iterations", false, 1, FIELD_I64, AT(skipped)},
    {"nan", "nan-iterations", false, 1, FIELD_I64, AT(nan)},
    {"eta_s", NULL, false, 1, FIELD_DOUBLE, AT(eta_s)},
    {"valid_loss", "lm loss validation", true, 1, FIELD_DOUBLE,
     AT(valid_loss)},
    {"ckpt_wait_ms", "checkpoint-wait", false, 1e-3, FIELD_DOUBLE,
     AT(ckpt_wait_ms)},
    {"data_wait_ms", "data-wait", false, 1e-3, FIELD_DOUBLE,
     AT(data_wait_ms)},
    {"loss_scale", "loss-scale", false, 1, FIELD_DOUBLE, AT(loss_scale)},
    {"overflows", "overflow-iterations", false, 1, FIELD_DOUBLE,
     AT(overflows)},
    {"time", NULL, false, 1, FIELD_DOUBLE, AT(wall_s)},
};
const int metrics_fields_n =
    (int)(sizeof metrics_fields / sizeof *metrics_fields);

double field_value(const struct field *field, const struct metrics *m)
{
    const char *at = (const char *)m + field->offset;
    int64_t i64;
    double real;
    int number;
    switch (field->kind) {
    case FIELD_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case FIELD_INT:
        memcpy(&number, at, sizeof number);
        return number;
    default:
        memcpy(&real, at, sizeof real);
        return real;
    }
}

/* Fields that are left out when they are NAN; of the others NaN is news. */
static bool is_optional(const struct field *field)
{
    return !strcmp(field->name, "valid_loss") || !strcmp(field->name, "z") ||
           !strcmp(field->name, "accuracy") ||
           !strcmp(field->name, "loss_scale") ||
           !strcmp(field->name, "overflows");
}

json_t *metrics_json(const struct metrics *m)
{
    json_t *object = json_object();
    for (int i = 0; object && i < metrics_fields_n; i++) {
        const struct field *field = &metrics_fields[i];
        double v = field_value(field, m);
        if (isnan(v) && is_optional(field))
            continue;
        json_t *value = field->kind != FIELD_DOUBLE
                            ? json_integer((json_int_t)v)
                        : isfinite(v) ? json_real(v)
                                      : json_null();
        if (json_object_set_new(object, field->name, value)) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

void metrics_line(const struct metrics *m, char *buf, size_t buf_bytes)
{
    char eta[24];
    struct sbuf s = SBUF_INIT;
    sbuf_printf(&s,
                "iteration %8lld/%8lld | consumed samples: %lld | consumed "
                "tokens: %lld | elapsed time per iteration (ms): %.1f | "
                "tokens/s/rank: %.1f | TFLOP/s/rank: %.4g (causal %.4g) | "
                "learning rate: %.6E | global batch size: %d | "
                "lm loss: %.6E | grad norm: %.3f | skipped iterations: %lld | "
                "nan iterations: %lld",
                (long long)m->step, (long long)m->steps,
                (long long)m->consumed_samples, (long long)m->consumed_tokens,
                m->iteration_ms, m->tokens_per_s_rank, m->tflops_full,
                m->tflops_half, m->lr, m->global_batch, m->loss, m->grad_norm,
                (long long)m->skipped, (long long)m->nan);
    if (m->loss_scale > 0)
        sbuf_printf(&s, " | loss scale: %g | overflows: %.0f", m->loss_scale,
                    m->overflows);
    if (!isnan(m->valid_loss))
        sbuf_printf(&s, " | validation loss: %.6E", m->valid_loss);
    if (m->ckpt_wait_ms >= 1)
        sbuf_printf(&s, " | checkpoint wait (ms): %.0f", m->ckpt_wait_ms);
    if (m->data_wait_ms >= 1)
        sbuf_printf(&s, " | data wait (ms): %.0f", m->data_wait_ms);
    if (isfinite(m->eta_s))
        sbuf_printf(&s, " | time to finish: %s",
                    clock_human(m->eta_s, eta, sizeof eta));
    str_copy(buf, buf_bytes, s.data);
    sbuf_release(&s);
}
