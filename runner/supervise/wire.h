/* wire - messages between the supervisor and its watchers.
 *
 * One TCP connection a node carries JSON objects, one a line. Nothing that
 * comes in is trusted: a line is bounded (short until the peer has proved the
 * secret), a bad line ends the connection and nothing else.
 *
 * Proof: the one that accepts sends a challenge with its nonce; the peer
 * answers with its own nonce and HMAC-SHA256(secret, role, both nonces, name);
 * the first answers with its own proof over the same. A proof is good for one
 * connection only, and the secret never travels.
 */
#ifndef KB_SUPERVISE_WIRE_H
#define KB_SUPERVISE_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runner/base/err.h"
#include "runner/base/str.h"

#define WIRE_LINE_BYTES (256u << 10) /* once the peer has proved itself */
#define WIRE_STRANGER_BYTES 1024u    /* before */
#define WIRE_NAME_BYTES 256          /* a node's name */
#define WIRE_NONCE_CHARS 33          /* 32 hex digits and NUL */
#define WIRE_SECRET_CHARS 65
#define WIRE_PROOF_CHARS 65

/* Lower-case hex of chars-1 digits from getrandom. */
int wire_random_hex(char *dst, size_t chars, struct err *err);

/* role: who proves ("watcher", "supervisor", "peer", ...), so that a proof
 * cannot be sent back. nonce_a is the accepting side's. */
int wire_proof(const char *secret, const char *role, const char *nonce_a,
               const char *nonce_b, const char *name,
               char dst[WIRE_PROOF_CHARS], struct err *err);
/* In constant time. */
bool wire_proof_equal(const char *a, const char *b);

/* What came in and is not a whole line yet. */
struct wire_in {
    char *data;
    size_t len, cap, limit;
};
void wire_in_init(struct wire_in *in, size_t limit);
void wire_in_release(struct wire_in *in);
/* Reads what fd has now. 1: some bytes; 0: nothing now; -1: closed or failed
 * (how: "closed", an errno's text, or "line too long"). */
int wire_in_read(struct wire_in *in, int fd, char *how, size_t how_bytes);
/* The next whole message, owned by the caller. 1: *ret set; 0: none yet; -1: a
 * line that is no JSON object. */
int wire_in_next(struct wire_in *in, json_t **ret);

/* What waits to go out. */
struct wire_out {
    char *data;
    size_t len, cap;
};
void wire_out_release(struct wire_out *out);
/* Takes message. -1 when memory ran out or more than 4 MiB wait. */
int wire_out_put(struct wire_out *out, json_t *message);
/* Writes what fd takes now. 0, or -1 when the connection failed. */
int wire_out_flush(struct wire_out *out, int fd);

#endif
