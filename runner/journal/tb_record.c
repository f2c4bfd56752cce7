/* tb_record - see tb_record.h. Fields of the message: 1 wall time (double),
 * 2 step, 3 file version, 5 summary { 1 value { 1 tag, 2 float } }, 7 session
 * log { 1 status, 1 = started }. */
#include "runner/journal/tb_record.h"

#include <endian.h>
#include <string.h>

#include "runner/journal/crc32c.h"

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_varint(struct sbuf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        char byte = (char)(v | 0x80);
        sbuf_add(out, &byte, 1);
    }
    char last = (char)v;
    sbuf_add(out, &last, 1);
}

static void put_key(struct sbuf *out, int field, enum wire wire)
{
    put_varint(out, (uint64_t)(field << 3 | (int)wire));
}

static void put_bytes(struct sbuf *out, int field, const char *bytes, size_t n)
{
    put_key(out, field, WIRE_BYTES);
    put_varint(out, n);
    sbuf_add(out, bytes, n);
}

static void put_u32(struct sbuf *out, uint32_t v)
{
    v = htole32(v);
    sbuf_add(out, (const char *)&v, sizeof v);
}

static void put_u64(struct sbuf *out, uint64_t v)
{
    v = htole64(v);
    sbuf_add(out, (const char *)&v, sizeof v);
}

static void put_head(struct sbuf *message, double wall_s, int64_t step)
{
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof bits);
    put_key(message, 1, WIRE_64);
    put_u64(message, bits);
    if (step) {
        put_key(message, 2, WIRE_VARINT);
        put_varint(message, (uint64_t)step);
    }
}

/* Frees message. */
static void put_record(struct sbuf *out, struct sbuf *message)
{
    uint64_t length = htole64(message->len);
    put_u64(out, message->len);
    put_u32(out, crc32c_masked(&length, sizeof length));
    sbuf_add(out, message->data, message->len);
    put_u32(out, crc32c_masked(message->data, message->len));
    out->failed = out->failed || message->failed;
    sbuf_release(message);
}

void tb_record_version(struct sbuf *out, double wall_s)
{
    static const char version[] = "brain.Event:2";
    struct sbuf message = SBUF_INIT;
    put_head(&message, wall_s, 0);
    put_bytes(&message, 3, version, sizeof version - 1);
    put_record(out, &message);
}

void tb_record_scalar(struct sbuf *out, double wall_s, int64_t step,
                      const char *tag, float value)
{
    struct sbuf message = SBUF_INIT, summary = SBUF_INIT, point = SBUF_INIT;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_bytes(&point, 1, tag, strlen(tag));
    put_key(&point, 2, WIRE_32);
    put_u32(&point, bits);
    put_bytes(&summary, 1, point.data, point.len);
    put_head(&message, wall_s, step);
    put_bytes(&message, 5, summary.data, summary.len);
    message.failed = message.failed || summary.failed || point.failed;
    put_record(out, &message);
    sbuf_release(&summary);
    sbuf_release(&point);
}

void tb_record_session(struct sbuf *out, double wall_s, int64_t step)
{
    static const char started[] = {1 << 3 | WIRE_VARINT, 1};
    struct sbuf message = SBUF_INIT;
    put_head(&message, wall_s, step);
    put_bytes(&message, 7, started, sizeof started);
    put_record(out, &message);
}
