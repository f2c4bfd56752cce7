/* comm_nccl - collectives of GPU ranks. */
#include <config.h>

#include "runner/comm/tables.h"

int coll_nccl_open(struct coll *ret, const struct coll_spec *spec,
                   struct err *err)
{
    return err_set_class(err, ERR_REQUEST,
                         "comm: built without CUDA: GPU ranks cannot talk");
}
