/* Tests of runner/base/str.c and err.c. */
#include "runner/base/err.h"
#include "runner/base/str.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>

static void test_err(void)
{
    struct err err = ERR_INIT;
    errno = 7;
    is_int(err_set(&err, "a: '%s'", "x"), -1, "err_set returns -1");
    is_int(errno, 7, "err_set keeps errno");
    err_set(&err, "second");
    is_str(err.msg, "a: 'x'", "the first error wins");
    err_prefix(&err, "ctx");
    is_str(err.msg, "ctx: a: 'x'", "err_prefix puts context in front");
    is_int(err_set(NULL, "no one listens"), -1, "NULL is allowed");

    struct err full = ERR_INIT, other = ERR_INIT;
    errno = ENOSPC;
    err_set_errno(&full, "a: cannot write");
    is_int(full.class, ERR_REQUEST, "no room is for a person to mend");
    errno = EIO;
    err_set_errno(&other, "a: cannot write");
    is_int(other.class, ERR_RANK, "what else a disk says is not");

    char big[3000];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = 0;
    struct err cut = ERR_INIT;
    err_set(&cut, "%s", big);
    ok(cut.msg[strlen(cut.msg) - 1] == '+', "a cut message ends in +");
}

static void test_sbuf(void)
{
    struct sbuf s = SBUF_INIT;
    is_str(s.data, "", "an empty sbuf is an empty string");
    for (int i = 0; i < 1000; i++)
        sbuf_printf(&s, "%d,", i);
    is_int(s.len, 3890, "a thousand numbers");
    char *text = sbuf_take(&s);
    ok(text && !strncmp(text, "0,1,2,", 6), "take gives the text");
    free(text);
    is_int(s.len, 0, "and leaves an empty one");
    sbuf_release(&s);
}

static void test_numbers(void)
{
    int64_t i;
    uint64_t u;
    double d;
    bool b;
    ok(!str_to_i64("-12", &i) && i == -12, "integer");
    is_int(str_to_i64("12x", &i), -1, "trailing text is refused");
    is_int(str_to_i64("", &i), -1, "empty is refused");
    is_int(str_to_i64("99999999999999999999", &i), -1, "overflow is refused");
    is_int(str_to_u64("-1", &u), -1, "no negative unsigned");
    ok(!str_to_double("1e-3", &d) && d == 1e-3, "real");
    ok(!str_to_bool("Yes", &b) && b, "yes is true");
    is_int(str_distance("kitten", "sitting"), 3, "edit distance");
}

int main(void)
{
    test_err();
    test_sbuf();
    test_numbers();
    return tap_done();
}
