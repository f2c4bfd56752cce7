/* tensors - the model's parameters as the optimizer's table has them. optim
 * knows no model; both are known here. */
#include "runner/train/tensors.h"

#include <stdlib.h>
#include <string.h>

struct optim_tensor *train_tensors(struct model *model, int *ret_n,
                                   struct err *err)
{
    struct param *params;
    int n = model_params(model, &params);
    struct optim_tensor *tensors = calloc((size_t)n, sizeof *tensors);
    if (!tensors) {
        err_set(err, "train: no memory for the optimizer's table");
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        const struct param *p = &params[i];
        tensors[i] = (struct optim_tensor){
            .dims = p->dims, .n = p->n, .data = p->data, .grad = p->grad,
            .decay = p->decay, .shared = p->shared, .bucket = p->bucket,
            .cols_n = p->cols_n,
        };
        memcpy(tensors[i].name, p->name, sizeof p->name);
        memcpy(tensors[i].shape, p->shape, sizeof p->shape);
        memcpy(tensors[i].offset, p->offset, sizeof p->offset);
        memcpy(tensors[i].extent, p->extent, sizeof p->extent);
        memcpy(tensors[i].cols, p->cols, sizeof p->cols);
    }
    *ret_n = n;
    return tensors;
}
