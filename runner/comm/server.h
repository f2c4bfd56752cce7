/* server - rank 0's half of control: a thread that keeps what ranks put, holds
 * those who wait, and says who is gone. Private to runner/comm.
 *
 * A connection is nobody until it proved the secret; until then it may send 64
 * bytes and live for a few seconds, so what a stranger sends costs nothing. */
#ifndef KB_COMM_SERVER_H
#define KB_COMM_SERVER_H

#include "runner/base/err.h"
#include "runner/comm/tables.h"

struct server;

/* Takes listen_fd (also on failure). *ret_own_fd: rank 0's own connection,
 * which proves itself like any other. */
struct server *server_start(int size, int listen_fd,
                            const unsigned char secret[CONTROL_SECRET_BYTES],
                            int *ret_own_fd, struct err *err);
/* orderly: lets what is queued go out first, for at most 5 s. */
void server_stop(struct server *server, bool orderly);

#endif
