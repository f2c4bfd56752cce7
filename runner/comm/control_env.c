/* control_env - control without PMIx: rank 0 listens at MASTER_ADDR and
 * MASTER_PORT. With KB_ENV_SECRET set a peer must prove that it knows it. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "runner/base/clock.h"
#include "runner/comm/place.h"
#include "runner/comm/tcp.h"

#define ADDRS_MAX 16

/* The addresses of host:port; a name may become known a little later. */
static int resolve(const char *host, const char *port, double deadline_s,
                   struct tcp_addr *addrs, int *ret_n, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int rc;
    while ((rc = getaddrinfo(host, port, &hints, &list)) == EAI_AGAIN &&
           clock_mono_s() < deadline_s)
        clock_sleep_s(0.5);
    if (rc)
        return err_set(err, "comm: %s: '%s': %s", KB_ENV_MASTER_ADDR, host,
                       gai_strerror(rc));
    *ret_n = 0;
    for (struct addrinfo *a = list; a && *ret_n < ADDRS_MAX; a = a->ai_next) {
        struct tcp_addr *at = &addrs[(*ret_n)++];
        memset(at, 0, sizeof *at);
        memcpy(&at->addr, a->ai_addr, a->ai_addrlen);
        at->bytes = a->ai_addrlen;
    }
    freeaddrinfo(list);
    return 0;
}

/* Listen at the first of the addresses that is this host's; behind an address
 * translation none is: then on all. */
static int listen_at(const struct tcp_addr *addrs, int addrs_n,
                     struct err *err)
{
    struct err first = ERR_INIT;
    for (int i = 0; i < addrs_n; i++) {
        int fd = tcp_listen(&addrs[i], &first);
        if (fd >= 0)
            return fd;
    }
    if (first.sys_errno != EADDRNOTAVAIL) {
        *err = first;
        return -1;
    }
    struct tcp_addr any = addrs[0];
    if (any.addr.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&any.addr)->sin6_addr = in6addr_any;
    else
        ((struct sockaddr_in *)&any.addr)->sin_addr.s_addr = INADDR_ANY;
    return tcp_listen(&any, err);
}

int control_env_open(struct control *ret, const struct comm_place *place,
                     double deadline_s, struct err *err)
{
    const char *host, *port;
    unsigned char secret[CONTROL_SECRET_BYTES];
    struct tcp_addr addrs[ADDRS_MAX];
    struct err ignored = ERR_INIT;
    struct server *server = NULL;
    int addrs_n, own_fd = -1;
    bool secret_set;
    if (!err)
        err = &ignored;
    if (place_master(&host, &port, err) ||
        place_secret(secret, &secret_set, err) ||
        resolve(host, port, deadline_s, addrs, &addrs_n, err))
        return -1;
    if (place->rank == 0) {
        int fd = listen_at(addrs, addrs_n, err);
        if (fd < 0)
            return -1;
        server = server_start(place->size, fd, secret, &own_fd, err);
        if (!server)
            return -1;
    }
    return tcp_join(ret, place, secret, server, own_fd, addrs, addrs_n,
                    deadline_s, err);
}
