/* A rank's beat and datagrams, as its watcher reads them; and nobody there. */
#include "runner/train/report.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char dir[] = "/tmp/test_report.XXXXXX";

static int listen_here(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    snprintf(at.sun_path, sizeof at.sun_path, "%s/watch.sock", dir);
    return bind(fd, (struct sockaddr *)&at, sizeof at) == 0 ? fd : -1;
}

static json_t *hear(int fd)
{
    char text[KB_RANK_MESSAGE_BYTES + 1];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    if (n < 0)
        return NULL;
    text[n] = 0;
    return json_loads(text, 0, NULL);
}

static struct kb_beat look(void)
{
    char path[256];
    struct kb_beat beat = {0};
    snprintf(path, sizeof path, "%s/beat.1", dir);
    int fd = open(path, O_RDONLY);
    if (read(fd, &beat, sizeof beat) != (ssize_t)sizeof beat)
        beat.magic = 0;
    close(fd);
    return beat;
}

static void check_beat(struct report *r)
{
    struct kb_beat a = look();
    ok(a.magic == KB_BEAT_MAGIC, "the beat is there");
    ok(a.pid == getpid() && a.rank == 5 && a.attempt == 3 &&
           a.phase == KB_PHASE_START && a.ckpt_writing == -1,
       "who, in which attempt and phase");
    report_phase(r, KB_PHASE_STEP);
    report_step(r, 42);
    report_writing(r, 40);
    struct kb_beat b = look();
    ok(b.phase == KB_PHASE_STEP && b.step == 42 && b.ckpt_writing == 40,
       "it moves");
    ok(b.changes == a.changes + 3, "each change is counted");
    report_writing(r, 40);
    is_int(look().changes, b.changes, "no change, no count");
}

static void check_messages(struct report *r, int fd)
{
    struct err err = ERR_INIT;
    char long_text[KB_RANK_MESSAGE_BYTES + 100];
    report_event(r, KB_EV_CKPT_SAVED, json_pack("{s:i}", "step", 7));
    json_t *m = hear(fd);
    is_str(json_string_value(json_object_get(m, "event")), "checkpoint_saved",
           "an event by its name");
    ok(json_integer_value(json_object_get(m, "step")) == 7 &&
           json_integer_value(json_object_get(m, "rank")) == 5 &&
           json_integer_value(json_object_get(m, "attempt")) == 3,
       "with its fields, rank and attempt");
    json_decref(m);
    err_set_class(&err, ERR_STEP, "what \"went\" wrong");
    report_error(r, &err);
    m = hear(fd);
    is_str(json_string_value(json_object_get(m, "message")),
           "what \"went\" wrong", "the last word");
    is_str(json_string_value(json_object_get(m, "class")), "step",
           "and its class");
    json_decref(m);
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    report_event(r, KB_EV_GUARD, json_pack("{s:s}", "what", long_text));
    ok(!hear(fd), "what is too long is not sent");
    for (int i = 0; i < 5000; i++) /* nobody reads: it never waits */
        report_event(r, KB_EV_FIRST_STEP, NULL);
    ok(1, "a full socket does not stop the rank");
}

int main(void)
{
    struct err err = ERR_INIT;
    struct report r;
    if (!mkdtemp(dir))
        return tap_skip_all("no temporary folder");
    int fd = listen_here();
    ok(fd >= 0 && report_open(&r, dir, 5, 1, 3, &err) == 0, "opens");
    check_beat(&r);
    check_messages(&r, fd);
    report_close(&r);
    ok(report_open(&r, NULL, 0, 0, 1, &err) == 0, "without a watcher");
    report_phase(&r, KB_PHASE_LOAD);
    report_event(&r, KB_EV_DONE, NULL);
    report_close(&r);
    ok(report_open(&r, "/nowhere/at/all", 0, 0, 1, &err) == -1,
       "a folder that is not there is an error");
    char command[300];
    snprintf(command, sizeof command, "%s/beat.1", dir);
    unlink(command);
    snprintf(command, sizeof command, "%s/watch.sock", dir);
    unlink(command);
    rmdir(dir);
    return tap_done();
}
