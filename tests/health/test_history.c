/* history: growth, days, jobs; files of other boots and damaged ones. */
#include "health/history.h"

#include <stdlib.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "tests/tap.h"

static char path[] = "/tmp/test_history.XXXXXX";

static void put(const char *text)
{
    struct err err = ERR_INIT;
    if (file_replace(path, text, strlen(text), 0600, &err))
        ok(false, "%s", err.msg);
}

static void check_growth(void)
{
    struct history *h = history_create("boot-1");
    struct growth g = {0};
    ok(!history_count(h, "gpu", "replays", 100, 1000, &g),
       "a first value is no growth");
    ok(history_count(h, "gpu", "replays", 130, 1120, &g) && g.more == 30 &&
           g.minutes > 1.99 && g.minutes < 2.01,
       "30 more in two minutes");
    ok(history_count(h, "gpu", "replays", 7, 1180, &g) && g.more == 7,
       "one that fell began anew");
    ok(!history_count(h, "gpu2", "replays", 9, 1180, &g) &&
           !history_count(h, "gpu", "others", 9, 1180, &g),
       "each subject and counter for itself");
    ok(!history_count(h, "gpu", "replays", 8, 1, &g),
       "a clock that went back: unknown");
    history_destroy(h);
}

static void check_days(void)
{
    struct history *h = history_create("");
    is_int(history_event(h, "p", "flap", 2, 1000), 2, "two today");
    is_int(history_event(h, "p", "flap", 1, 50000), 3, "three");
    is_int(history_event(h, "q", "flap", 1, 50000), 1, "another port");
    is_int(history_events(h, "p", "flap", 1000 + 86401), 1, "a day later");
    for (int i = 0; i < 1000; i++)
        history_event(h, "p", "flap", 1, 60000);
    is_int(history_events(h, "p", "flap", 60000), 256, "bounded");
    history_destroy(h);
}

static void check_lemon(void)
{
    static const struct {
        const char *name, *codes[5];
        bool lemon;
    } rows[] = {
        {"three reasons", {"a", "b", "c"}, true},
        {"two jobs", {"a", "b"}, false},
        {"one of three went well", {"a", "", "c"}, false},
        {"twice the same reason", {"a", "b", "a"}, false},
        {"well before", {"", "a", "b", "c"}, true},
        {"well after", {"a", "b", "c", ""}, false},
        {"several each, three differ", {"a,b", "a", "a,c"}, true},
        {"several each, no three differ", {"a,b", "b,a", "a"}, false},
    };
    char which[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct history *h = history_create("");
        for (int k = 0; k < 5 && rows[i].codes[k]; k++)
            history_job(h, 10 + k, rows[i].codes[k], 1000 + k);
        is_int(history_is_lemon(h, which, sizeof which), rows[i].lemon,
               rows[i].name);
        history_destroy(h);
    }
    struct history *h = history_create("");
    history_job(h, 7, "a", 1);
    history_job(h, 7, "b", 2);
    history_job(h, 7, "c", 3);
    ok(!history_is_lemon(h, which, sizeof which), "one job is one job");
    history_destroy(h);
}

static void check_file(void)
{
    struct err err = ERR_INIT;
    struct growth g;
    struct history *h = history_create("boot-1");
    history_count(h, "gpu", "replays", 5, 1000, &g);
    history_event(h, "p", "flap", 2, 1000);
    history_job(h, 3, "a,b", 1000);
    ok(!history_save(h, path, &err), "saved %s", err.msg);
    struct history *again = history_create("boot-1");
    ok(!history_load(again, path, &err), "loaded %s", err.msg);
    ok(history_count(again, "gpu", "replays", 6, 1060, &g) && g.more == 1,
       "its counter");
    is_int(history_events(again, "p", "flap", 1060), 2, "its events");
    ok(!history_merge(h, again) &&
           history_count(h, "gpu", "replays", 8, 1100, &g) && g.more == 2,
       "merged: the newer value");
    history_destroy(again);
    again = history_create("boot-2");
    ok(!history_load(again, path, &err) &&
           !history_count(again, "gpu", "replays", 6, 1060, &g),
       "another boot's counters are none");
    is_int(history_events(again, "p", "flap", 1060), 2, "its events are");
    history_destroy(again);
    history_destroy(h);
}

static void check_damage(void)
{
    static const char *const texts[] = {
        "", "{", "[]", "{}", "{\"schema\": 2}", "{\"schema\": \"1\"}",
        "{\"schema\": 1, \"counters\": {\"g\": {\"c\": [1]}}}",
        "{\"schema\": 1, \"counters\": {\"g\": {\"c\": [\"1\", 2]}}}",
        "{\"schema\": 1, \"events\": [{}]}",
        "{\"schema\": 1, \"events\": [1]}",
    };
    static const char *const harmless[] = {
        "{\"schema\": 1}", "{\"schema\": 1, \"counters\": []}",
        "{\"schema\": 1, \"jobs\": [1, {}, {\"codes\": [1, {}]}]}",
        "{\"schema\": 1, \"jobs\": {\"a\": 1}, \"events\": \"x\"}",
        "{\"schema\": 1, \"events\": [{\"time\": 1e300, \"subject\": \"p\","
        "\"what\": \"flap\", \"n\": -5}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct history *h = history_create("");
        struct err err = ERR_INIT;
        put(texts[i]);
        ok(history_load(h, path, &err) && *err.msg, "damaged: %s", texts[i]);
        history_destroy(h);
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        struct history *h = history_create("");
        char which[200];
        struct err err = ERR_INIT;
        put(harmless[i]);
        ok(!history_load(h, path, &err), "harmless: %s", harmless[i]);
        is_int(history_events(h, "p", "flap", 1e9), 0, "and empty");
        ok(!history_is_lemon(h, which, sizeof which), "no lemon");
        history_destroy(h);
    }
    struct history *h = history_create("");
    ok(!history_load(h, "/nonexistent/file", NULL), "no file is no damage");
    ok(history_save(h, "/nonexistent/file", NULL), "no folder to save into");
    history_destroy(h);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    check_growth();
    check_days();
    check_lemon();
    check_file();
    check_damage();
    unlink(path);
    return tap_done();
}
