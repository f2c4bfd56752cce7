/* tensors - what the optimizer is told of the model's parameters. */
#ifndef KB_TRAIN_TENSORS_H
#define KB_TRAIN_TENSORS_H

#include "runner/base/err.h"
#include "runner/model/model.h"
#include "runner/optim/optim.h"

/* One a parameter, in the model's order; the caller frees the array, whose
 * pointers are the model's. NULL: out of memory. */
struct optim_tensor *train_tensors(struct model *model, int *ret_n,
                                   struct err *err);

#endif
