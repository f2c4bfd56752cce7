/* station - the supervisor's end of the connections to its watchers.
 *
 * A thread of its own accepts, checks proofs, answers heartbeats and keeps the
 * deadlines. It touches no file and never calls Slurm, so that a supervisor
 * stuck in either still answers. What it sees is queued for the main thread.
 * A thread that finds itself stopped for longer than it slept (suspend, a
 * stopped host) gives all peers a new deadline: nobody was silent but itself.
 */
#ifndef KB_SUPERVISE_STATION_H
#define KB_SUPERVISE_STATION_H

#include <jansson.h>

#include "runner/base/err.h"

enum station_what {
    STATION_UP,      /* a watcher proved itself; message: its hello */
    STATION_LOST,    /* its connection ended; how: closed | silent | why */
    STATION_MESSAGE, /* message */
    STATION_GAP,     /* this process did not run for `seconds` */
};

struct station_event {
    enum station_what what;
    int node;         /* index into the names given to station_open */
    double mono_s;    /* when it was seen */
    double quiet_s;   /* STATION_LOST: since the last sign of life */
    double seconds;   /* STATION_GAP */
    char how[64];
    json_t *message;  /* owned by the taker */
};

struct station;
/* names are copied. Listens on all addresses, on a free port. */
struct station *station_open(const char *secret, const char *const *names,
                             int names_n, double silent_s, struct err *err);
void station_close(struct station *station);
int station_port(const struct station *station);
/* Readable while events wait. */
int station_fd(const struct station *station);
/* 1: *ret set; 0: none. */
int station_take(struct station *station, struct station_event *ret);
/* Takes message. 0, or -1 when the node has no connection. */
int station_send(struct station *station, int node, json_t *message);

#endif
