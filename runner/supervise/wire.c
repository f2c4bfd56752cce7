/* wire - framing and proof; see wire.h for the rules. */
#include "runner/supervise/wire.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/base/json.h"

#define OUT_MAX_BYTES (4u << 20)
#define READ_BYTES 4096

static void to_hex(const unsigned char *bytes, size_t n, char *dst)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        dst[2 * i] = digits[bytes[i] >> 4];
        dst[2 * i + 1] = digits[bytes[i] & 15];
    }
    dst[2 * n] = 0;
}

int wire_random_hex(char *dst, size_t chars, struct err *err)
{
    unsigned char bytes[64];
    size_t n = (chars - 1) / 2;
    if (n > sizeof bytes)
        return err_set(err, "wire: too many random digits asked for");
    if (getrandom(bytes, n, 0) != (ssize_t)n)
        return err_set_errno(err, "wire: cannot get random bytes");
    to_hex(bytes, n, dst);
    return 0;
}

int wire_proof(const char *secret, const char *role, const char *nonce_a,
               const char *nonce_b, const char *name,
               char dst[WIRE_PROOF_CHARS], struct err *err)
{
    char text[WIRE_NAME_BYTES + 256];
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_n = 0;
    /* Lengths in front: no two different tuples give the same text. */
    int n = snprintf(text, sizeof text, "%zu:%s %zu:%s %zu:%s %zu:%s",
                     strlen(role), role, strlen(nonce_a), nonce_a,
                     strlen(nonce_b), nonce_b, strlen(name), name);
    if (n < 0 || n >= (int)sizeof text)
        return err_set(err, "wire: proof: name or nonce too long");
    if (!HMAC(EVP_sha256(), secret, (int)strlen(secret),
              (const unsigned char *)text, (size_t)n, mac, &mac_n) ||
        mac_n != 32)
        return err_set(err, "wire: proof: libcrypto's HMAC failed");
    to_hex(mac, 32, dst);
    return 0;
}

bool wire_proof_equal(const char *a, const char *b)
{
    size_t n = strlen(a);
    return n && n == strlen(b) && CRYPTO_memcmp(a, b, n) == 0;
}

/* ---- In ----------------------------------------------------------------- */

void wire_in_init(struct wire_in *in, size_t limit)
{
    *in = (struct wire_in){.limit = limit};
}

void wire_in_release(struct wire_in *in)
{
    free(in->data);
    wire_in_init(in, in->limit);
}

static int in_reserve(struct wire_in *in)
{
    if (in->cap - in->len > READ_BYTES)
        return 0;
    size_t cap = in->cap ? in->cap * 2 : 2 * READ_BYTES;
    char *data = realloc(in->data, cap);
    if (!data)
        return -1;
    in->data = data;
    in->cap = cap;
    return 0;
}

int wire_in_read(struct wire_in *in, int fd, char *how, size_t how_bytes)
{
    if (in->len > in->limit) {
        snprintf(how, how_bytes, "line too long");
        return -1;
    }
    if (in_reserve(in)) {
        snprintf(how, how_bytes, "out of memory");
        return -1;
    }
    ssize_t n = recv(fd, in->data + in->len, READ_BYTES, MSG_DONTWAIT);
    if (n > 0) {
        in->len += (size_t)n;
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    snprintf(how, how_bytes, "%s", n ? strerror(errno) : "closed");
    return -1;
}

int wire_in_next(struct wire_in *in, json_t **ret)
{
    char *end = in->len ? memchr(in->data, '\n', in->len) : NULL;
    if (!end)
        return in->len > in->limit ? -1 : 0;
    size_t line = (size_t)(end - in->data);
    json_t *message = line > in->limit
                          ? NULL
                          : json_loadb(in->data, line, JSON_REJECT_DUPLICATES,
                                       NULL);
    in->len -= line + 1;
    memmove(in->data, end + 1, in->len);
    if (!json_is_object(message)) {
        json_decref(message);
        return -1;
    }
    *ret = message;
    return 1;
}

/* ---- Out ---------------------------------------------------------------- */

void wire_out_release(struct wire_out *out)
{
    free(out->data);
    *out = (struct wire_out){0};
}

int wire_out_put(struct wire_out *out, json_t *message)
{
    char *line = message ? json_line(message) : NULL;
    json_decref(message);
    if (!line)
        return -1;
    size_t n = strlen(line), need = out->len + n + 1;
    if (need > OUT_MAX_BYTES)
        goto fail;
    if (need > out->cap) {
        size_t cap = need * 2;
        char *data = realloc(out->data, cap);
        if (!data)
            goto fail;
        out->data = data;
        out->cap = cap;
    }
    memcpy(out->data + out->len, line, n);
    out->data[out->len + n] = '\n';
    out->len = need;
    free(line);
    return 0;
fail:
    free(line);
    return -1;
}

int wire_out_flush(struct wire_out *out, int fd)
{
    while (out->len) {
        ssize_t n = send(fd, out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        out->len -= (size_t)n;
        memmove(out->data, out->data + n, out->len);
    }
    return 0;
}
