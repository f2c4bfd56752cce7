/* Tests of runner/base/conf*.c. The cases are folders: run.yaml is read and
 * its mistakes, or its dump when there is none, must be `expect`. */
#include "runner/base/conf.h"
#include "runner/base/file.h"
#include "tests/tap.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#define ROW(key, type, fallback, min, max, unit, choices, secret, also)       \
    {key, type, fallback, min, max, unit, choices, secret, "doc of " key, also}
static const struct conf_row rows[] = {
    ROW("run.name", CONF_TEXT, NULL, 0, 0, "", NULL, false, NULL),
    ROW("run.note", CONF_TEXT, "", 0, 0, "", NULL, false, NULL),
    ROW("model.layers", CONF_INT, "2", 1, 100, "layers", NULL, false,
        "num_layers|n_layer"),
    ROW("model.width", CONF_INT, "64", 1, 1e16, "", NULL, false, NULL),
    ROW("model.kind", CONF_CHOICE, "gpt2", 0, 0, "", "gpt2|llama", false,
        NULL),
    ROW("model.lr", CONF_REAL, "1e-3", 0, 1, "", NULL, false, NULL),
    ROW("data.files", CONF_LIST, "", 0, 0, "", NULL, false, NULL),
    ROW("data.wait", CONF_DURATION, "30s", 0, 86400, "s", NULL, false, NULL),
    ROW("data.size", CONF_SIZE, "4M", 0, 0x1p34, "bytes", NULL, false, NULL),
    ROW("data.flag", CONF_BOOL, "false", 0, 0, "", NULL, false, NULL),
    ROW("data.other", CONF_TEXT, "", 0, 0, "", NULL, false, NULL),
    ROW("data.secret", CONF_TEXT, "", 0, 0, "", NULL, true, NULL),
    ROW("log.every", CONF_INT, "10", 1, 1e9, "steps", NULL, false, NULL),
};
#define ROWS_N ((int)(sizeof rows / sizeof *rows))

static struct conf *open_conf(void)
{
    return conf_create(rows, ROWS_N, NULL);
}

static void say(void *ctx, const char *message)
{
    sbuf_printf(ctx, "%s\n", message);
}

/* One folder: what run.yaml gives against `expect`. */
static void check_case(const char *dir)
{
    char path[4096];
    struct sbuf got = SBUF_INIT;
    struct err err = ERR_INIT;
    snprintf(path, sizeof path, "%s/base/cases/conf/%s", TESTS_DIR, dir);
    if (chdir(path)) {
        ok(0, "%s: cannot enter", dir);
        return;
    }
    struct conf *conf = open_conf();
    conf_read_file(conf, "run.yaml", &err);
    if (!conf_mistakes(conf, say, &got))
        conf_dump(conf, &got);
    else
        ok(conf_check(conf, NULL) == -1, "%s: conf_check refuses it too", dir);
    if (getenv("TESTS_WRITE"))
        file_replace("expect", got.data, got.len, 0644, NULL);
    char *want = file_read("expect", 1 << 20, NULL, NULL);
    is_str(got.data, want ? want : "no file expect", dir);
    free(want);
    sbuf_release(&got);
    conf_destroy(conf);
}

static void test_cases(void)
{
    struct dirent **names;
    char path[4096];
    snprintf(path, sizeof path, "%s/base/cases/conf", TESTS_DIR);
    int n = scandir(path, &names, NULL, alphasort);
    ok(n > 10, "there are cases");
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.')
            check_case(names[i]->d_name);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

static void test_values(void)
{
    struct err err = ERR_INIT;
    struct conf *conf = open_conf();
    ok(!conf_read_text(conf, "model: {layers: 1_2, width: 1e3}\n"
                             "data: {wait: 1h30m, size: 1.5G, flag: yes,"
                             " files: [a, b c]}\n", "t", &err) &&
       !conf_set(conf, "run.name=n", "command line", &err),
       "a good text is read");
    is_int(conf_check(conf, NULL), 0, "and checked");
    is_int(conf_int(conf, "model.layers"), 12, "underscores");
    is_int(conf_int(conf, "model.width"), 1000, "1e3 is an integer");
    is_near(conf_real(conf, "data.wait"), 5400, 0, "a duration in seconds");
    is_int(conf_int(conf, "data.size"), 3LL << 29, "a size in bytes");
    is_int(conf_bool(conf, "data.flag"), 1, "a bool");
    is_str(conf_text(conf, "data.files"), "a\nb c", "a list");
    is_near(conf_real(conf, "model.lr"), 1e-3, 0, "a default");
    is_str(conf_origin(conf, "model.lr"), "default", "with its origin");
    is_str(conf_origin(conf, "run.name"), "command line", "and another");
    is_str(conf_text(conf, "no.such"), "", "a key that is not there is empty");
    conf_destroy(conf);
}

static void test_order(void)
{
    struct err err = ERR_INIT;
    struct conf *conf = open_conf();
    conf_read_text(conf, "run: {name: file}\nmodel: {layers: 5}\n", "t", &err);
    conf_set(conf, "model.layers=7", "KOBOSHI_SET", &err);
    is_int(conf_int(conf, "model.layers"), 7, "a later source overrides");
    is_str(conf_origin(conf, "model.layers"), "KOBOSHI_SET", "and is named");
    conf_set(conf, "data.files=a,b", "command line", &err);
    is_str(conf_text(conf, "data.files"), "a\nb", "commas split a list");
    conf_set(conf, "model.layers=", "command line", &err);
    is_int(conf_int(conf, "model.layers"), 2, "an empty value is the default");
    ok(!conf_is_set(conf, "model.layers"), "and is unset");
    conf_set(conf, "model.layers=2", "command line", &err);
    ok(!conf_is_set(conf, "model.layers"), "so is the default, given");
    is_str(conf_origin(conf, "model.layers"), "command line",
           "though its origin is known");
    is_int(err.class, ERR_NONE, "no mistake so far");
    is_int(conf_set(conf, "model.layers", "command line", &err), -1,
           "no = is refused");
    is_str(err.msg, "conf: command line: 'model.layers' is not KEY=VALUE",
           "saying so");
    err = ERR_INIT;
    conf_set(conf, "num_layers=3", "command line", &err);
    is_str(err.msg, "conf: command line: unknown key 'num_layers'; did you "
                    "mean 'model.layers'", "another program's name is hinted");
    is_int(err.class, ERR_REQUEST, "the class is the user's request");
    conf_destroy(conf);
}

static void test_dump_reads_back(void)
{
    struct err err = ERR_INIT;
    struct conf *conf = open_conf(), *again = open_conf();
    struct sbuf dump = SBUF_INIT, dump2 = SBUF_INIT;
    conf_read_text(conf, "run: {name: \"null\", note: \"q\\\"b\\\\s\\tt: #\"}"
                         "\ndata: {files: ['- x', '0.5 p'], secret: s3}\n",
                   "t", &err);
    conf_dump(conf, &dump);
    ok(!strstr(dump.data, "s3"), "a secret is not in a dump");
    ok(!conf_read_text(again, dump.data, "d", &err), "a dump is YAML");
    is_str(conf_text(again, "run.name"), "null", "a word like null");
    is_str(conf_text(again, "run.note"), "q\"b\\s\tt: #", "odd characters");
    is_str(conf_text(again, "data.files"), "- x\n0.5 p", "a list");
    is_str(conf_text(again, "data.secret"), "", "a redacted secret is unset");
    is_str(conf_text(again, "run.name"), conf_text(conf, "run.name"), "same");
    sbuf_release(&dump);
    sbuf_release(&dump2);
    conf_destroy(conf);
    conf_destroy(again);
}

/* A small text whose anchors unfold into millions of keys must be refused. */
static void test_bomb(void)
{
    struct sbuf text = SBUF_INIT;
    struct err err = ERR_INIT;
    struct conf *conf = open_conf();
    sbuf_puts(&text, "run: &a0 {name: x}\n");
    for (int i = 1; i < 8; i++) {
        sbuf_printf(&text, "k%d: &a%d {", i, i);
        for (int j = 0; j < 40; j++)
            sbuf_printf(&text, "run.x%d: *a%d, ", j, i - 1);
        sbuf_puts(&text, "}\n");
    }
    is_int(conf_read_text(conf, text.data, "bomb", &err), -1,
           "a bomb of anchors is refused");
    sbuf_release(&text);
    conf_destroy(conf);
    conf = open_conf();
    err = ERR_INIT;
    is_int(conf_read_file(conf, "/nowhere/run.yaml", &err), -1, "no file");
    is_str(err.msg, "conf: cannot read the configuration: file: cannot open "
                    "'/nowhere/run.yaml': No such file or directory",
           "is told");
    conf_destroy(conf);
}

static void test_help(void)
{
    struct sbuf out = SBUF_INIT;
    conf_help(rows, ROWS_N, &out);
    for (int i = 0; i < ROWS_N; i++)
        ok(strstr(out.data, rows[i].key), "help has %s", rows[i].key);
    ok(strstr(out.data, "1 to 100"), "and the range");
    sbuf_release(&out);
}

int main(void)
{
    test_values();
    test_order();
    test_dump_reads_back();
    test_bomb();
    test_help();
    test_cases();
    return tap_done();
}
