/* control_pmix - PMIx tells who we are and where rank 0 listens; messages then
 * go over TCP like without it.
 *
 * PMIx calls have no deadline and its fences may stall for minutes (the launch
 * race of Slurm before 23.02), so no fence is used, one value is fetched, and
 * each call runs bounded. Rank 0 publishes its addresses with a secret of its
 * own; who can read it is a process of this job step. */
#include <config.h>

#include "runner/comm/tables.h"

#ifdef HAVE_PMIX

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "runner/base/clock.h"
#include "runner/comm/place.h"
#include "runner/comm/tcp.h"

#define CARD_KEY "koboshi.control"
#define CARD_ADDRS_MAX 16
#define LEAVE_LIMIT_S 5.0

/* What rank 0 publishes. */
struct card {
    uint32_t magic, addrs_n;
    unsigned char secret[CONTROL_SECRET_BYTES];
    struct tcp_addr addrs[CARD_ADDRS_MAX];
};
#define CARD_MAGIC 0x6b636172u

static pmix_proc_t self;
static bool joined;

bool pmix_present(void)
{
    return place_env("PMIX_NAMESPACE") && place_env("PMIX_RANK");
}

/* ---- Calls that may hang, for bounded_call: arg is on the heap --------- */

struct get {
    pmix_proc_t proc;
    char key[64];
    pmix_status_t status;
    uint64_t number;
    unsigned char bytes[sizeof(struct card)];
    size_t bytes_n;
};

static uint64_t number_of(const pmix_value_t *v)
{
    switch (v->type) {
    case PMIX_UINT32:
        return v->data.uint32;
    case PMIX_UINT16:
        return v->data.uint16;
    case PMIX_UINT64:
        return v->data.uint64;
    case PMIX_PROC_RANK:
        return v->data.rank;
    case PMIX_INT:
        return (uint64_t)v->data.integer;
    case PMIX_SIZE:
        return v->data.size;
    default:
        return UINT64_MAX;
    }
}

static int run_get(void *arg)
{
    struct get *get = arg;
    pmix_value_t *value = NULL;
    get->status = PMIx_Get(&get->proc, get->key, NULL, 0, &value);
    if (get->status != PMIX_SUCCESS || !value)
        return -1;
    if (value->type == PMIX_BYTE_OBJECT) {
        get->bytes_n = value->data.bo.size;
        if (get->bytes_n > sizeof get->bytes)
            get->bytes_n = 0;
        memcpy(get->bytes, value->data.bo.bytes, get->bytes_n);
    } else {
        get->number = number_of(value);
    }
    PMIX_VALUE_RELEASE(value);
    return 0;
}

/* NULL on error; else to be freed. */
static struct get *get_value(pmix_rank_t rank, const char *key, double limit_s,
                             struct err *err)
{
    int rc;
    struct get *get = calloc(1, sizeof *get);
    if (!get) {
        err_set(err, "comm: out of memory");
        return NULL;
    }
    PMIX_LOAD_PROCID(&get->proc, self.nspace, rank);
    snprintf(get->key, sizeof get->key, "%s", key);
    if (bounded_call(run_get, get, limit_s, &rc)) {
        err_set(err, "comm: PMIx did not give '%s' within %.1f s", key,
                limit_s);
        return NULL; /* get stays with the hanging thread */
    }
    if (rc) {
        err_set(err, "comm: PMIx has no '%s': %s", key,
                PMIx_Error_string(get->status));
        free(get);
        return NULL;
    }
    return get;
}

/* A fence that hands out what was put. A direct fetch from another node will
 * not do: under Slurm 22.05 nobody answers it when the step leaves out one of
 * the job's first nodes (seen with rank 0 on the job's second node). */
static int run_fence(void *arg)
{
    pmix_info_t collect;
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    int status = PMIx_Fence(NULL, 0, &collect, 1);
    PMIX_INFO_DESTRUCT(&collect);
    return status;
}

static int run_init(void *arg)
{
    return PMIx_Init(arg, NULL, 0);
}

static int run_finalize(void *arg)
{
    return PMIx_Finalize(NULL, 0);
}

/* ---- Place ------------------------------------------------------------- */

static int get_int(pmix_rank_t rank, const char *key, int fallback, int *ret,
                   struct err *err)
{
    struct err why = ERR_INIT;
    struct get *get = get_value(rank, key, 10, &why);
    if (!get || get->number > INT32_MAX) {
        free(get);
        if (fallback >= 0) {
            *ret = fallback;
            return 0;
        }
        return err_set(err, "%s", why.class ? why.msg
                                            : "comm: PMIx gave no number");
    }
    *ret = (int)get->number;
    free(get);
    return 0;
}

int pmix_find_place(struct comm_place *ret, double limit_s, struct err *err)
{
    int status;
    pmix_proc_t *me = calloc(1, sizeof *me);
    if (!me)
        return err_set(err, "comm: out of memory");
    if (bounded_call(run_init, me, limit_s, &status))
        return err_set(err, "comm: PMIx_Init did not return within %.1f s",
                       limit_s);
    if (status != PMIX_SUCCESS) {
        free(me);
        return err_set(err, "comm: PMIx_Init: %s; start with srun "
                            "--mpi=pmix", PMIx_Error_string(status));
    }
    self = *me;
    free(me);
    joined = true;
    ret->rank = (int)self.rank;
    if (get_int(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, -1, &ret->size, err) ||
        get_int(self.rank, PMIX_LOCAL_RANK, 0, &ret->local_rank, err) ||
        get_int(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, 1, &ret->local_size,
                err) ||
        get_int(self.rank, PMIX_NODEID, 0, &ret->node_rank, err))
        return -1;
    if (ret->rank < 0 || ret->rank >= ret->size)
        return err_set(err, "comm: PMIx says rank %d of %d", ret->rank,
                       ret->size);
    return 0;
}

void pmix_leave(void)
{
    int status;
    if (joined)
        bounded_call(run_finalize, NULL, LEAVE_LIMIT_S, &status);
    joined = false;
}

/* ---- Where rank 0 listens ---------------------------------------------- */

static void add_addr(struct card *card, const struct sockaddr *sa, int port)
{
    if (card->addrs_n == CARD_ADDRS_MAX)
        return;
    struct tcp_addr *at = &card->addrs[card->addrs_n];
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&at->addr;
        at->bytes = sizeof *in;
        memcpy(in, sa, sizeof *in);
        in->sin_port = htons((uint16_t)port);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&at->addr;
        at->bytes = sizeof *in6;
        memcpy(in6, sa, sizeof *in6);
        if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
            return;
        in6->sin6_port = htons((uint16_t)port);
    }
    card->addrs_n++;
}

/* Addresses of the interfaces that are up, IPv4 first. */
static void list_addrs(struct card *card, int port)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list))
        return;
    for (int pass = 0; pass < 2; pass++)
        for (struct ifaddrs *a = list; a; a = a->ifa_next)
            if (a->ifa_addr && (a->ifa_flags & IFF_UP) &&
                !(a->ifa_flags & IFF_LOOPBACK) &&
                a->ifa_addr->sa_family == (pass ? AF_INET6 : AF_INET))
                add_addr(card, a->ifa_addr, port);
    freeifaddrs(list);
}

/* A listening socket: on loopback alone when all ranks are on this node. */
static int listen_here(bool one_node, struct card *card, struct err *err)
{
    struct tcp_addr at = {.bytes = sizeof(struct sockaddr_in6)};
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&at.addr;
    struct sockaddr_in *in = (struct sockaddr_in *)&at.addr;
    struct err ignored = ERR_INIT;
    int fd = -1;
    if (!one_node) {
        in6->sin6_family = AF_INET6;
        fd = tcp_listen(&at, &ignored);
    }
    if (fd < 0) { /* no IPv6 here, or loopback */
        memset(&at, 0, sizeof at);
        at.bytes = sizeof *in;
        in->sin_family = AF_INET;
        in->sin_addr.s_addr = htonl(one_node ? INADDR_LOOPBACK : INADDR_ANY);
        fd = tcp_listen(&at, err);
    }
    if (fd < 0)
        return -1;
    at.bytes = sizeof at.addr;
    getsockname(fd, (struct sockaddr *)&at.addr, &at.bytes);
    int port = ntohs(at.addr.ss_family == AF_INET6 ? in6->sin6_port
                                                   : in->sin_port);
    if (one_node)
        add_addr(card, (struct sockaddr *)&at.addr, port);
    else
        list_addrs(card, port);
    return fd;
}

/* Rank 0: listen and publish. */
static struct server *publish(const struct comm_place *place,
                              struct card *card, int *ret_own_fd,
                              struct err *err)
{
    card->magic = CARD_MAGIC;
    if (getrandom(card->secret, sizeof card->secret, 0) !=
        (ssize_t)sizeof card->secret) {
        err_set_errno(err, "comm: no random bytes");
        return NULL;
    }
    int fd = listen_here(place->local_size == place->size, card, err);
    if (fd < 0)
        return NULL;
    struct server *server =
        server_start(place->size, fd, card->secret, ret_own_fd, err);
    if (!server)
        return NULL;
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    value.data.bo.bytes = (char *)card;
    value.data.bo.size = sizeof *card;
    pmix_status_t status = PMIx_Put(PMIX_GLOBAL, CARD_KEY, &value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    if (status != PMIX_SUCCESS) {
        err_set(err, "comm: PMIx cannot publish rank 0's address: %s",
                PMIx_Error_string(status));
        server_stop(server, false);
        return NULL;
    }
    return server;
}

static int fetch(struct card *card, double deadline_s, struct err *err)
{
    struct get *get = get_value(0, CARD_KEY, deadline_s - clock_mono_s(), err);
    if (!get)
        return -1;
    bool good = get->bytes_n == sizeof *card;
    if (good)
        memcpy(card, get->bytes, sizeof *card);
    free(get);
    if (!good || card->magic != CARD_MAGIC || card->addrs_n < 1 ||
        card->addrs_n > CARD_ADDRS_MAX)
        return err_set(err, "comm: PMIx gave no address of rank 0; do all "
                            "ranks run the same koboshi?");
    return 0;
}

/* What rank 0 put is with all ranks when this returns. */
static int exchange(double deadline_s, struct err *err)
{
    int status;
    double limit_s = deadline_s - clock_mono_s();
    if (bounded_call(run_fence, NULL, limit_s, &status))
        return err_set(err, "comm: PMIx_Fence did not return within %.1f s",
                       limit_s);
    if (status != PMIX_SUCCESS)
        return err_set(err, "comm: PMIx_Fence: %s", PMIx_Error_string(status));
    return 0;
}

int control_pmix_open(struct control *ret, const struct comm_place *place,
                      double deadline_s, struct err *err)
{
    struct card card = {0};
    struct server *server = NULL;
    int own_fd = -1;
    if (place->rank == 0) {
        server = publish(place, &card, &own_fd, err);
        if (!server)
            return -1;
    }
    if (exchange(deadline_s, err)) {
        if (server)
            server_stop(server, false);
        return -1;
    }
    if (place->rank != 0 && fetch(&card, deadline_s, err))
        return -1;
    return tcp_join(ret, place, card.secret, server, own_fd, card.addrs,
                    (int)card.addrs_n, deadline_s, err);
}

#else /* !HAVE_PMIX */

bool pmix_present(void)
{
    return false;
}

int pmix_find_place(struct comm_place *ret, double limit_s, struct err *err)
{
    return err_set_class(err, ERR_REQUEST, "comm: built without PMIx");
}

void pmix_leave(void)
{
}

int control_pmix_open(struct control *ret, const struct comm_place *place,
                      double deadline_s, struct err *err)
{
    return err_set_class(err, ERR_REQUEST, "comm: built without PMIx");
}

#endif
