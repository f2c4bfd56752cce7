/* exec - see exec.h. */
#include "kernels/exec.h"

#include <string.h>

static enum kstatus choose(struct exec *ex, enum dtype act, enum dtype grad)
{
    bool cpu = device_kind(ex->device) == DEVICE_CPU;

    ex->act = act;
    ex->grad = cpu ? act : grad;
    ex->stat = cpu ? act : DT_F32;
    if (cpu && act == DT_F32)
        ex->ops = &ops_cpu_f32;
    else if (cpu && act == DT_F64)
        ex->ops = &ops_cpu_f64;
    else if (!cpu && (act == DT_BF16 || act == DT_F16 || act == DT_F32) &&
             (grad == DT_F32 || (grad == DT_BF16 && act == DT_BF16)))
        ex->ops = ops_cuda();
    return ex->ops ? K_OK : K_UNSUPPORTED;
}

enum kstatus exec_init(struct exec *ex, struct device *device, enum dtype act,
                       enum dtype grad, size_t ws_bytes, bool deterministic)
{
    enum kstatus status;

    memset(ex, 0, sizeof *ex);
    ex->device = device;
    ex->stream = device_stream(device, 0);
    ex->deterministic = deterministic;
    if ((status = choose(ex, act, grad)))
        return status;
    if (ws_bytes && !(ex->ws = device_alloc(device, ws_bytes)))
        return K_NOMEM;
    ex->ws_bytes = ws_bytes;
    return ex->ops->open(ex);
}

void exec_release(struct exec *ex)
{
    if (ex && ex->ops)
        ex->ops->close(ex);
    if (ex)
        ex->ops = NULL;
}

const struct tuning *exec_tuning(const struct exec *ex)
{
    return device_kind(ex->device) == DEVICE_CUDA ? &tuning_cuda : NULL;
}
