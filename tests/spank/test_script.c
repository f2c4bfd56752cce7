/* script: which standard inputs are nobody's script, and supplying ours. */
#include "spank/script.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "runner/base/file.h"
#include "tests/tap.h"

static void check_empty(void)
{
    int fd, ends[2];
    fd = open("/dev/null", O_RDONLY);
    ok(script_stdin_is_empty(fd), "/dev/null");
    close(fd);
    ok(script_stdin_is_empty(fd), "closed");
    fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    ok(fd < 0 || script_stdin_is_empty(fd), "a terminal");
    close(fd);
    fd = open("/dev/zero", O_RDONLY);
    ok(!script_stdin_is_empty(fd), "another device");
    close(fd);
    ok(!pipe(ends), "a pipe");
    ok(!script_stdin_is_empty(ends[0]), "a pipe may bring a script");
    close(ends[0]);
    close(ends[1]);
    fd = open("/proc/self/cmdline", O_RDONLY);
    ok(!script_stdin_is_empty(fd), "a file");
    close(fd);
}

static void check_supply(const char *how, int first_close)
{
    char path[] = "/tmp/test_script.XXXXXX", text[64] = "";
    const char *script = "#!/bin/sh\necho hello\n";
    struct err err = ERR_INIT;
    int fd = mkstemp(path);
    ok(fd >= 0 && !file_write_all(fd, script, strlen(script)), "template");
    close(fd);
    int top = dup(2);
    close(top);
    if (first_close)
        close(0);
    ok(!script_supply(path, &err), "%s: %s", how, err.msg);
    ok(read(0, text, sizeof text - 1) == (ssize_t)strlen(script), "%s: whole",
       how);
    is_str(text, script, how);
    is_int(fcntl(0, F_GETFD), 0, "kept over exec");
    fd = dup(2);
    is_int(fd, top, "no descriptor left open");
    close(fd);
    unlink(path);
    ok(script_supply(path, &err) && strstr(err.msg, path), "absent: %s",
       err.msg);
}

int main(void)
{
    check_empty();
    check_supply("standard input open", 0);
    check_supply("standard input closed", 1);
    return tap_done();
}
