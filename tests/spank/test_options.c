/* options: the table, what each value may be, and taking one twice. */
#include "spank/options.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/tap.h"

static const struct {
    int key;
    const char *value;
    int good;
} rows[] = {
    {OPTION_TRAIN, "/a/run.yaml", 1},
    {OPTION_TRAIN, "", 0},
    {OPTION_TRAIN, "a\nb", 0},
    {OPTION_SET, "a.b=c", 1},
    {OPTION_SET, "a.b=", 1},
    {OPTION_SET, "a.b", 0},
    {OPTION_SET, "=c", 0},
    {OPTION_SET, "a=b\nc=d", 0},
    {OPTION_SPARES, "0", 1},
    {OPTION_SPARES, "2", 1},
    {OPTION_SPARES, "-1", 0},
    {OPTION_SPARES, "two", 0},
    {OPTION_SPARES, "2x", 0},
    {OPTION_SPARES, "99999999999999999999", 0},
    {OPTION_HEALTH, "off", 1},
    {OPTION_HEALTH, "gate", 1},
    {OPTION_HEALTH, "full", 1},
    {OPTION_HEALTH, "FULL", 0},
    {OPTION_HEALTH, "", 0},
    {OPTION_RESUME, "auto", 1},
    {OPTION_RESUME, "fresh", 1},
    {OPTION_RESUME, "12000", 1},
    {OPTION_RESUME, "-1", 0},
    {OPTION_RESUME, "latest", 0},
    {OPTION_MAX_RESTARTS, "10", 1},
    {OPTION_MAX_RESTARTS, "1e3", 0},
};

static void check_values(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct options options = {0};
        struct err err = ERR_INIT;
        int rc = options_take(&options, rows[i].key, rows[i].value, &err);
        ok((rc == 0) == rows[i].good &&
               (rows[i].good || (strstr(err.msg, "--llm-") == err.msg &&
                                 err.class == ERR_REQUEST)),
           "row %d: --%s: %s", (int)i, option_rows[rows[i].key].name,
           rows[i].good ? "taken" : err.msg);
        ok(rows[i].good == (options.value[rows[i].key] != NULL),
           "kept only if good");
        options_release(&options);
    }
}

static void check_meaning(void)
{
    struct options options = {0};
    ok(!chdir("/tmp"), "in /tmp");
    options_take(&options, OPTION_TRAIN, "x/run.yaml", NULL);
    is_str(options.value[OPTION_TRAIN], "/tmp/x/run.yaml", "made absolute");
    options_take(&options, OPTION_TRAIN, "/y.yaml", NULL);
    is_str(options.value[OPTION_TRAIN], "/y.yaml", "the last one counts");
    ok(!chdir("/"), "in /");
    options_take(&options, OPTION_TRAIN, "run.yaml", NULL);
    is_str(options.value[OPTION_TRAIN], "/run.yaml", "in the root folder");
    options_take(&options, OPTION_SET, "a=1", NULL);
    options_take(&options, OPTION_SET, "aa=1", NULL);
    options_take(&options, OPTION_SET, "a=2", NULL);
    is_str(options.value[OPTION_SET], "a=1\naa=1\na=2", "pairs, a line each");
    options_take(&options, OPTION_SET, "a=1", NULL);
    is_str(options.value[OPTION_SET], "aa=1\na=2\na=1", "the last one counts");
    options_take(&options, OPTION_SET, "bad", NULL);
    is_str(options.value[OPTION_SET], "aa=1\na=2\na=1", "a bad one harms none");
    options_take(&options, OPTION_DRY_RUN, NULL, NULL);
    is_str(options.value[OPTION_DRY_RUN], "1", "a flag");
    ok(options_take(&options, OPTION_SPARES, NULL, NULL), "argument missing");
    options_release(&options);
    ok(!options.value[OPTION_SET], "released");
}

static void check_table(void)
{
    for (int i = 0; i < OPTION_N; i++)
        ok(option_rows[i].name && option_rows[i].usage &&
               !strncmp(option_rows[i].name, "llm-", 4) &&
               (!option_rows[i].arginfo || option_rows[i].check),
           "row %d is whole", i);
}

int main(void)
{
    check_table();
    check_values();
    check_meaning();
    return tap_done();
}
