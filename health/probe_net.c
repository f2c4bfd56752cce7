/* probe_net - network interfaces and InfiniBand ports. */
#include "health/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"

#define NET "/sys/class/net"
#define IB "/sys/class/infiniband"
#define FLAG_UP 1 /* IFF_UP of the interface's flags */
enum { NAMES_MAX = 256, PORTS_MAX = 16 };

/* Kinds that never say "up" by themselves count as up when they have carrier.
 */
static bool is_up(const struct source *source, const char *name)
{
    char state[32] = "", carrier[8] = "";
    source_read(source, state, sizeof state, NET "/%s/operstate", name);
    source_read(source, carrier, sizeof carrier, NET "/%s/carrier", name);
    return !strcmp(state, "up") ||
           (!strcmp(state, "unknown") && !strcmp(carrier, "1"));
}

/* A card that is switched on and has no link. Virtual ones have no device. */
static void check_card(const struct look *look, struct findings *findings,
                       const char *name)
{
    char flags[32];
    if (!source_exists(&look->source, NET "/%s/device", name) ||
        source_read(&look->source, flags, sizeof flags, NET "/%s/flags",
                    name) ||
        !(strtoul(flags, NULL, 16) & FLAG_UP))
        return;
    if (!is_up(&look->source, name))
        findings_add(findings, F_NET_DOWN, name, "no carrier");
}

static void check_expected(const struct look *look, struct findings *findings,
                           const char *name)
{
    int64_t speed, least = conf_int(look->site, "expect.interface_speed");
    if (!source_exists(&look->source, NET "/%s", name)) {
        findings_add(findings, F_NET_ABSENT, name, "not in " NET);
        return;
    }
    if (!is_up(&look->source, name)) {
        findings_add(findings, F_NET_EXPECTED_DOWN, name, "not up");
        return;
    }
    if (least && !source_number(&look->source, &speed, NET "/%s/speed",
                                name) &&
        speed < least)
        findings_add(findings, F_NET_SLOW, name, "%lld Mb/s, %lld expected",
                     (long long)speed, (long long)least);
}

static bool is_expected(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && *p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (!strncmp(p, name, n) && (!p[n] || p[n] == '\n'))
            return true;
    }
    return false;
}

void probe_net(const struct look *look, struct findings *findings)
{
    static char names[NAMES_MAX][SOURCE_NAME_BYTES];
    const char *expected = conf_text(look->site, "expect.interfaces");
    int n = source_list(&look->source, names, NAMES_MAX, NET);
    if (n < 0)
        findings_skip(findings, "no " NET);
    for (int i = 0; i < n; i++)
        if (!is_expected(expected, names[i]))
            check_card(look, findings, names[i]);
    while (*expected) {
        char name[SOURCE_NAME_BYTES];
        size_t len = strcspn(expected, "\n");
        snprintf(name, sizeof name, "%.*s", (int)len, expected);
        if (*name)
            check_expected(look, findings, name);
        expected += len + (expected[len] == '\n');
    }
}

/* ---- InfiniBand ----------------------------------------------------- */

struct port {
    const char *card, *number;
    char name[96]; /* mlx5_0/1 */
    double rate_gbs;
};

static int read_port(const struct look *look, const struct port *port,
                     const char *file, char *dst, size_t dst_bytes)
{
    return source_read(&look->source, dst, dst_bytes, IB "/%s/ports/%s/%s",
                       port->card, port->number, file);
}

/* How fast a counter may grow; NVIDIA's and others' limits for fabrics. */
static const struct {
    const char *file;
    double per_hour; /* 0: not at all */
    const char *key; /* the site's limit instead */
} port_limits[] = {
    {"counters/symbol_error", 120, "ib.symbol_errors_per_hour"},
    {"counters/link_error_recovery", 300, NULL},
    {"counters/excessive_buffer_overrun_errors", 0, NULL},
    {"counters/local_link_integrity_errors", 0, NULL},
    {"hw_counters/rnr_nak_retry_err", 0, NULL},
    {"hw_counters/roce_slow_restart", 36000, NULL},
};

static int read_count(const struct look *look, const struct port *port,
                      const char *file, int64_t *ret)
{
    char text[64];
    return read_port(look, port, file, text, sizeof text) ||
                   str_to_i64(text, ret)
               ? -1
               : 0;
}

/* Beyond the limit, counted over ten minutes at least, so that two looks that
 * follow each other do not make a rate of a single error. */
static void check_counts(const struct look *look, struct findings *findings,
                         const struct port *port)
{
    for (size_t i = 0; i < sizeof port_limits / sizeof *port_limits; i++) {
        const char *file = port_limits[i].file, *slash = strchr(file, '/');
        struct growth grown;
        int64_t value;
        if (read_count(look, port, file, &value) ||
            !look_grown(look, findings, port->name, slash + 1, value, &grown))
            continue;
        double limit = port_limits[i].key
                           ? conf_real(look->site, port_limits[i].key)
                           : port_limits[i].per_hour;
        double minutes = grown.minutes > 10 ? grown.minutes : 10;
        if ((double)grown.more > limit / 60 * minutes)
            findings_add(findings, F_IB_ERRORS, port->name,
                         "%s %lld more in %.1f minutes", slash + 1,
                         (long long)grown.more, grown.minutes);
    }
}

static void check_flaps(const struct look *look, struct findings *findings,
                        const struct port *port)
{
    struct growth grown;
    int64_t downed;
    if (read_count(look, port, "counters/link_downed", &downed))
        return;
    if (!look_grown(look, findings, port->name, "link_downed", downed,
                    &grown)) {
        if (downed > 0)
            findings_add(findings, F_IB_FLAPS, port->name, "link_downed %lld",
                         (long long)downed);
        return;
    }
    if (grown.more <= 0)
        return;
    int64_t today = look_happened(look, findings, port->name, "flap",
                                  grown.more);
    findings_add(findings, F_IB_FLAPS, port->name,
                 "%lld more in %.1f minutes", (long long)grown.more,
                 grown.minutes);
    if (today > conf_int(look->site, "ib.flaps_per_day"))
        findings_add(findings, F_IB_FLAPPING, port->name,
                     "%lld times within a day", (long long)today);
}

/* Ethernet ports of the same cards are the network's. */
static int check_port(const struct look *look, struct findings *findings,
                      struct port *port, int *ports_n)
{
    char text[128];
    if (!read_port(look, port, "link_layer", text, sizeof text) &&
        strcmp(text, "InfiniBand"))
        return -1;
    if (read_port(look, port, "state", text, sizeof text))
        return -1;
    ++*ports_n;
    check_flaps(look, findings, port);
    check_counts(look, findings, port);
    if (!strstr(text, "ACTIVE")) {
        findings_add(findings, F_IB_DOWN, port->name, "state %s", text);
        return -1;
    }
    return read_port(look, port, "rate", text, sizeof text) ||
                   sscanf(text, "%lf", &port->rate_gbs) != 1
               ? -1
               : 0;
}

void probe_infiniband(const struct look *look, struct findings *findings)
{
    static char cards[NAMES_MAX][SOURCE_NAME_BYTES];
    static char ports[PORTS_MAX][SOURCE_NAME_BYTES];
    static struct port up[NAMES_MAX];
    int up_n = 0, ports_n = 0;
    double best = 0, least = conf_real(look->site, "expect.ib_rate");
    int expected = (int)conf_int(look->site, "expect.ib_ports");
    int cards_n = source_list(&look->source, cards, NAMES_MAX, IB);
    if (cards_n <= 0 && !expected) {
        findings_skip(findings, "no InfiniBand");
        return;
    }
    for (int i = 0; i < cards_n; i++) {
        int n = source_list(&look->source, ports, PORTS_MAX, IB "/%s/ports",
                            cards[i]);
        for (int j = 0; j < n && up_n < NAMES_MAX; j++) {
            struct port *port = &up[up_n];
            *port = (struct port){.card = cards[i], .number = ports[j]};
            snprintf(port->name, sizeof port->name, "%.60s/%.30s", cards[i],
                     ports[j]);
            if (check_port(look, findings, port, &ports_n))
                continue;
            best = port->rate_gbs > best ? port->rate_gbs : best;
            up_n++;
        }
    }
    for (int i = 0; i < up_n; i++)
        if (up[i].rate_gbs < (least > 0 ? least : best))
            findings_add(findings, F_IB_SLOW, up[i].name, "%g Gb/s, %s %g",
                         up[i].rate_gbs, least > 0 ? "expected" : "others",
                         least > 0 ? least : best);
    if (ports_n < expected)
        findings_add(findings, F_IB_COUNT_LOW, "node", "%d shown, %d expected",
                     ports_n, expected);
}
