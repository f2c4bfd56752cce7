/* site - what a rank sees of its surroundings, for plan_make. */
#ifndef KB_TRAIN_SITE_H
#define KB_TRAIN_SITE_H

#include "runner/base/conf.h"
#include "runner/comm/comm.h"
#include "runner/plan/plan.h"

/* Reads no more than token files' headers, and the disk's free space. */
void site_look(const struct conf *conf, const struct comm_place *place,
               struct site *ret);

#endif
