/* Tests of runner/data/jsonl.c and text.c. */
#include "runner/data/jsonl.h"

#include <stdlib.h>

#include "tests/tap.h"

/* Lines and the text that Python's json module gives for them; NULL: bad,
 * with words of the reason. */
static const struct {
    const char *line, *text, *says;
} cases[] = {
    {"{\"text\":\"a\"}", "a", NULL},
    {" { \"x\" : [1, {\"text\": \"no\"}, []] , \"text\" : \"yes\" }\r", "yes",
     NULL},
    {"{\"text\":\"\"}", "", NULL},
    {"{\"text\":\"a\",\"text\":\"b\"}", "b", NULL},
    {"{\"t\\u0065xt\":\"a\"}", "a", NULL},
    {"{\"text\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t", NULL},
    {"{\"text\":\"\\u00e9\\u3042\\ud83d\\ude00\"}",
     "\xc3\xa9\xe3\x81\x82\xf0\x9f\x98\x80", NULL},
    {"{\"text\":\"\xe3\x81\x82\"}", "\xe3\x81\x82", NULL},
    {"{\"n\":-0.5e+10,\"m\":NaN,\"i\":-Infinity,\"b\":[true,false,null],"
     "\"text\":\"a\"}", "a", NULL},
    {"{\"n\":-1,\"z\":0,\"e\":{},\"text\":\"a\"}", "a", NULL},
    {"[\"text\"]", NULL, "not a JSON object"},
    {"\xef\xbb\xbf{\"text\":\"a\"}", NULL, "not a JSON object"},
    {"{\"text\":\"a\"", NULL, "no , or }"},
    {"{\"text\":\"a\"} x", NULL, "something follows"},
    {"{\"text\":\"a\"}{\"text\":\"a\"}", NULL, "something follows"},
    {"{\"text\":\"a", NULL, "the string has no end"},
    {"{\"text\":\"a\\", NULL, "the string has no end"},
    {"{\"text\":\"\\x\"}", NULL, "unknown escape"},
    {"{\"text\":\"\\u12g4\"}", NULL, "hexadecimal"},
    {"{\"text\":\"\\u12", NULL, "hexadecimal"},
    {"{\"text\":\"a\tb\"}", NULL, "control character"},
    {"{\"text\":\"\\ud800\"}", NULL, "surrogate"},
    {"{\"text\":\"\\ud800\\u0041\"}", NULL, "surrogate"},
    {"{\"text\":\"\\ude00\\ud83d\"}", NULL, "surrogate"},
    {"{\"text\":1}", NULL, "not a string"},
    {"{\"text\":null}", NULL, "not a string"},
    {"{\"text\":", NULL, "not a string"},
    {"{\"other\":\"a\"}", NULL, "no key 'text'"},
    {"{}", NULL, "no key 'text'"},
    {"{\"text\":\"a\",}", NULL, "no name"},
    {"{text:\"a\"}", NULL, "no name"},
    {"{\"text\" \"a\"}", NULL, "no :"},
    {"{\"n\":01,\"text\":\"a\"}", NULL, "no , or }"},
    {"{\"n\":1.,\"text\":\"a\"}", NULL, "digit"},
    {"{\"n\":1e,\"text\":\"a\"}", NULL, "digit"},
    {"{\"n\":+1,\"text\":\"a\"}", NULL, "not a value"},
    {"{\"n\":tru,\"text\":\"a\"}", NULL, "not a value"},
    {"{\"n\":[1 2],\"text\":\"a\"}", NULL, "no , or ]"},
    {"{\"n\":[1,],\"text\":\"a\"}", NULL, "not a value"},
    {"", NULL, "not a JSON object"},
};

static void test_cases(void)
{
    struct text text = TEXT_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[JSONL_WHY_BYTES] = "";
        size_t n = strlen(cases[i].line);
        /* A copy of the exact size, so that the sanitizer sees overruns. */
        char *line = malloc(n + !n);
        memcpy(line, cases[i].line, n);
        int rc = jsonl_text(line, n, "text", false, &text, why);
        free(line);
        const char *want = cases[i].text;
        int good = want ? !rc && text.n == strlen(want) &&
                              !memcmp(text.data ? text.data : "", want, text.n)
                        : rc == -1 && strstr(why, cases[i].says);
        if (!ok(good, "%s", cases[i].line))
            printf("# rc %d, '%.*s', %s\n", rc, (int)text.n, text.data, why);
    }
    text_release(&text);
}

static void test_special(void)
{
    struct text text = TEXT_INIT;
    char why[JSONL_WHY_BYTES] = "";
    static const char nul[] = "{\"text\":\"a\\u0000b\"}";
    ok(!jsonl_text(nul, sizeof nul - 1, "text", false, &text, why) &&
           text.n == 3 && !memcmp(text.data, "a\0b", 3), "an escaped NUL");
    static const char half[] = "{\"text\":\"\\ud800x\"}";
    ok(!jsonl_text(half, sizeof half - 1, "text", true, &text, why) &&
           text.n == 4 && !memcmp(text.data, "\xef\xbf\xbdx", 4),
       "half a pair is replaced if asked");
    char deep[4000] = "{\"a\":";
    memset(deep + 5, '[', 3000);
    ok(jsonl_text(deep, 3005, "text", false, &text, why) == -1 &&
           strstr(why, "deeply"), "deep nesting is bad, not a crash");
    text_release(&text);
}

static void test_utf8(void)
{
    static const struct {
        const char *in, *out;
    } repairs[] = {
        {"plain ascii text", "plain ascii text"},
        {"\xff", "\xef\xbf\xbd"},
        {"a\x80z", "a\xef\xbf\xbdz"},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe3\x81", "\xef\xbf\xbd"},
        {"\xe3\x81x", "\xef\xbf\xbdx"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\x98", "\xef\xbf\xbd"},
        {"\xf4\x90\x80\x80",
         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"12345678\xe3\x81\x82", "12345678\xe3\x81\x82"},
    };
    for (size_t i = 0; i < sizeof repairs / sizeof *repairs; i++) {
        struct text t = TEXT_INIT;
        text_add(&t, repairs[i].in, strlen(repairs[i].in), NULL);
        utf8_repair(&t, NULL);
        ok(t.n == strlen(repairs[i].out) &&
               !memcmp(t.data, repairs[i].out, t.n), "repair %zu", i);
        text_release(&t);
    }
    int good = 1;
    for (uint32_t code = 0; code < 0x110000; code += 7) {
        char bytes[4];
        uint32_t back;
        if (code >= 0xd800 && code < 0xe000)
            continue;
        int n = utf8_put(code, bytes);
        good &= utf8_get(bytes, bytes + n, &back) == n && back == code;
    }
    ok(good, "code points there and back");
}

int main(void)
{
    test_cases();
    test_special();
    test_utf8();
    return tap_done();
}
