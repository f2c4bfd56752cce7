/* tcp - the client half of control, and the addresses that lead to rank 0.
 * Private to runner/comm. */
#ifndef KB_COMM_TCP_H
#define KB_COMM_TCP_H

#include <sys/socket.h>

#include "runner/base/err.h"
#include "runner/comm/server.h"
#include "runner/comm/tables.h"

struct tcp_addr {
    struct sockaddr_storage addr;
    socklen_t bytes;
};

/* A listening socket at addr. -1 with err. */
int tcp_listen(const struct tcp_addr *addr, struct err *err);
/* Join: over own_fd where it is not -1 (rank 0; taken), else by trying the
 * addresses in turn until one proves to be rank 0 or the deadline passes.
 * server is taken, NULL elsewhere than on rank 0. */
int tcp_join(struct control *ret, const struct comm_place *place,
             const unsigned char secret[CONTROL_SECRET_BYTES],
             struct server *server, int own_fd, const struct tcp_addr *addrs,
             int addrs_n, double deadline_s, struct err *err);
/* "10.0.0.1:2345" for messages. */
void tcp_addr_text(const struct tcp_addr *addr, char *dst, size_t dst_bytes);

#endif
