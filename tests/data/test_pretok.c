/* Tests of runner/data/pretok.c: texts and the pieces that the expressions
 * match, as regular expression engines give them, '|' between. */
#include "runner/data/pretok.h"

#include <stdint.h>

#include <stdlib.h>

#include "tests/tap.h"

static const struct {
    enum pretok pretok;
    const char *text, *pieces;
} cases[] = {
    {PRETOK_GPT2, "Hello world", "Hello| world"},
    {PRETOK_GPT2, "it's I'll we've 'S", "it|'s| I|'ll| we|'ve| '|S"},
    {PRETOK_GPT2, "a  b   c", "a| | b|  | c"},
    {PRETOK_GPT2, "a \n\n b  ", "a| \n\n| b|  "},
    {PRETOK_GPT2, "x\ty \tz", "x|\t|y| |\t|z"},
    {PRETOK_GPT2, "12ab3 45", "12|ab|3| 45"},
    {PRETOK_GPT2, "a!? '''s ''", "a|!?| '''|s| ''"},
    {PRETOK_GPT2, " ", " "},
    {PRETOK_GPT2, "'", "'"},
    {PRETOK_GPT2, "'r", "'|r"},
    {PRETOK_GPT2, "\xc2\xa0x", "\xc2\xa0|x"}, /* no-break space */
    {PRETOK_GPT2, "e\xcc\x81t", "e|\xcc\x81|t"}, /* a mark is no letter */
    {PRETOK_GPT2, "\xe3\x80\x80\xe3\x80\x80\xe3\x81\x82",
     "\xe3\x80\x80|\xe3\x80\x80|\xe3\x81\x82"},
    {PRETOK_GPT2, "\xff\xfe" "a", "\xff\xfe|a"}, /* not UTF-8 */
    {PRETOK_GPT2, "a\xe3\x81", "a|\xe3\x81"},
    {PRETOK_LLAMA3, "It'S I'LL'\xc5\xbf", "It|'S| I|'LL|'\xc5\xbf"},
    {PRETOK_LLAMA3, "12345 6", "123|45| |6"},
    {PRETOK_LLAMA3, "\tfoo !bar", "\tfoo| !|bar"},
    {PRETOK_LLAMA3, "a(b) c\n", "a|(b|)| c|\n"},
    {PRETOK_LLAMA3, "x {\n\n  y", "x| {\n\n| | y"},
    {PRETOK_LLAMA3, "a \n \n  b", "a| \n \n| | b"},
    {PRETOK_LLAMA3, "a\r\nb", "a|\r\n|b"},
    {PRETOK_LLAMA3, "a   1", "a|  | |1"},
    {PRETOK_LLAMA3, "a   ", "a|   "},
    {PRETOK_LLAMA3, "a \n  ", "a| \n|  "},
    {PRETOK_CL100K, "a \n  ", "a| \n  "},
    {PRETOK_CL100K, "a \n  b", "a| \n| | b"},
    {PRETOK_QWEN2, "12345 x", "1|2|3|4|5| x"},
    {PRETOK_O200K, "helloWorld HTTPServer", "hello|World| HTTPServer"},
    {PRETOK_O200K, "don't DON'T x's'y", "don't| DON'T| x's|'y"},
    {PRETOK_O200K, "a.b/c//d\n/\n/e", "a|.b|/c|//|d|\n|/\n/|e"},
    {PRETOK_O200K, "\xe3\x81\x82" "AB\xe3\x81\x82" "CD 12345",
     "\xe3\x81\x82" "AB\xe3\x81\x82|CD| |123|45"},
    {PRETOK_O200K, "\xcc\x81" "A e\xcc\x81X", "\xcc\x81|A| e\xcc\x81|X"},
    {PRETOK_O200K, "a   b \n c", "a|  | b| \n| c"},
};

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[256] = "";
        size_t len = strlen(cases[i].text);
        char *copy = malloc(len); /* the sanitizer sees what is behind */
        memcpy(copy, cases[i].text, len);
        for (size_t at = 0, n; at < len; at += n) {
            n = pretok_next(cases[i].pretok, copy + at, copy + len);
            if (!n)
                break;
            sprintf(got + strlen(got), "%s%.*s", at ? "|" : "", (int)n,
                    copy + at);
        }
        free(copy);
        is_str(got, cases[i].pieces, "pieces");
    }
}

/* Texts of what the expressions tell apart; most pieces end within the sixteen
 * bytes that are looked at together, some at their edge. */
static void test_near(void)
{
    static const char *const bits[] = {
        "a", "bc", "Z", "XY", "the", "Word", "internationalis", " ", " ", "  ",
        "\t", "\n", "\r\n", "\n\n", "1", "23", "4567", ".", ",", "!?", "/", "'",
        "'s", "'LL", "'ve", "(", "_", "\xc3\xa9", "\xe3\x81\x82", "\xcc\x81",
        "\xc5\xbf", "\xc2\xa0", "\xd9\xa3", "\xff", "\xf0\x9f\x98\x80", "\x0b",
        "\x1f", "----------------", "0000000000000000"};
    enum { BITS_N = sizeof bits / sizeof *bits };
    uint32_t seed = 11;
    for (enum pretok pretok = 0; pretok < PRETOK_N; pretok++) {
        int same = 1;
        for (int round = 0; round < 20000 && same; round++) {
            char text[1024];
            size_t n = 0;
            for (int i = 0; i < 24; i++) {
                seed = seed * 1664525u + 1013904223u;
                int most = round % 2 ? BITS_N : 27;
                const char *bit = bits[(seed >> 12) % (uint32_t)most];
                memcpy(text + n, bit, strlen(bit));
                n += strlen(bit);
            }
            char *copy = malloc(n);
            memcpy(copy, text, n);
            for (size_t at = 0, some; at < n && same; at += some) {
                some = pretok_next(pretok, copy + at, copy + n);
                same = some == pretok_scan(pretok, copy + at, copy + n);
            }
            free(copy);
        }
        ok(same, "sixteen bytes at once and one by one, pattern %d", pretok);
    }
}

int main(void)
{
    test_near();
    test_cases();
    ok(pretok_of_regex("\\w+|\\s") == PRETOK_N, "an unknown expression");
    ok(pretok_of_regex("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "
                       "?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+") ==
           PRETOK_GPT2, "GPT-2's");
    return tap_done();
}
