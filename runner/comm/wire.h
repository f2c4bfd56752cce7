/* wire - frames over a stream socket, without blocking. Private to runner/comm.
 *
 * A frame is its head, then key, then data; both ends run the same build on
 * the same architecture, so numbers travel as they are. What does not start
 * with the magic or is larger than allowed breaks the wire, nothing else. */
#ifndef KB_COMM_WIRE_H
#define KB_COMM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC 0x3263626bu /* "kbc2" */

enum wire_type {
    WIRE_CHALLENGE = 1, /* server: data is a nonce to be proved */
    WIRE_HELLO,         /* client: rank, data is the proof, limit the size */
    WIRE_WELCOME,       /* server: status 0, or a text why not */
    WIRE_PUT,
    WIRE_GET,           /* rank's key within limit_ms */
    WIRE_GATHER,        /* rank is the number of this gather */
    WIRE_REPLY,         /* to id: data, or status and a text */
    WIRE_LOST,          /* server: rank is gone */
    WIRE_BYE,           /* client: an orderly end */
};
enum wire_status { WIRE_OK, WIRE_FAILED, WIRE_PEER_LOST };

struct frame {
    uint32_t magic;
    uint16_t type;
    uint16_t status;
    uint32_t id;
    int32_t rank;
    uint32_t limit_ms;
    uint32_t key_bytes;
    uint32_t data_bytes;
};

struct wire {
    int fd;           /* owned, non-blocking; -1 closed */
    size_t body_max;  /* most bytes of key and data that may come */
    unsigned char *in, *out;
    size_t in_n, in_cap, in_taken;
    size_t out_n, out_at, out_cap;
};

/* Takes fd and makes it non-blocking. */
void wire_init(struct wire *wire, int fd, size_t body_max);
void wire_release(struct wire *wire);
/* Read what has come. -1: closed or broken. */
int wire_receive(struct wire *wire);
/* The next whole frame: 1, key and data borrowed until the next call (key is
 * not NUL-ended); 0 none yet; -1 garbage. */
int wire_next(struct wire *wire, struct frame *ret, const char **ret_key,
              const void **ret_data);
/* Queue a frame; magic and sizes are filled in. -1: out of memory. */
int wire_send(struct wire *wire, struct frame frame, const char *key,
              const void *data, size_t data_bytes);
/* Write what goes now. -1: broken. */
int wire_flush(struct wire *wire);
bool wire_pending(const struct wire *wire);

#endif
