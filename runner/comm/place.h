/* place - what comm takes from the environment. Private to runner/comm. */
#ifndef KB_COMM_PLACE_H
#define KB_COMM_PLACE_H

#include <stdbool.h>

#include "runner/base/err.h"
#include "runner/comm/tables.h"

/* MASTER_ADDR and MASTER_PORT, checked; borrowed from the environment. */
int place_master(const char **ret_host, const char **ret_port,
                 struct err *err);
/* KB_ENV_SECRET's bytes; *ret_set false and zeros when it is not set. */
int place_secret(unsigned char secret[CONTROL_SECRET_BYTES], bool *ret_set,
                 struct err *err);
bool place_env(const char *name); /* is it set and not empty */

#endif
