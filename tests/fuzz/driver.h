/* driver - one source, two programs: with libFuzzer (clang -fsanitize=fuzzer,
 * -DKB_LIBFUZZER) its target; without, a test that runs the target over seeds
 * and many changed copies of them, always the same ones. */
#ifndef KB_TESTS_FUZZ_DRIVER_H
#define KB_TESTS_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#ifndef KB_LIBFUZZER
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static uint64_t driver_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* Change a few bytes: flips, digits, cuts, repeats. */
static size_t driver_change(uint8_t *data, size_t n, size_t cap, uint64_t *s)
{
    static const char bits[] = "0123456789-+.,:{}[]\"e@ ";
    for (int k = (int)(driver_random(s) % 4) + 1; k && n; k--) {
        size_t at = driver_random(s) % n, len;
        switch (driver_random(s) % 5) {
        case 0:
            data[at] ^= (uint8_t)(1 << driver_random(s) % 8);
            break;
        case 1:
            data[at] = (uint8_t)bits[driver_random(s) % (sizeof bits - 1)];
            break;
        case 2:
            n = at;
            break;
        case 3: /* drop a stretch */
            len = driver_random(s) % (n - at);
            memmove(data + at, data + at + len, n - at - len);
            n -= len;
            break;
        default: /* repeat a stretch */
            len = driver_random(s) % (n - at) % 64;
            if (n + len <= cap) {
                memmove(data + at + len, data + at, n - at);
                n += len;
            }
        }
    }
    return n;
}

/* Run the seed and `copies` changed copies of it. */
static void driver_run(const char *name, const void *seed, size_t bytes,
                       int copies)
{
    uint64_t state = 88172645463325252u;
    size_t cap = bytes + 4096;
    uint8_t *copy = malloc(cap);
    LLVMFuzzerTestOneInput(seed, bytes);
    for (int i = 0; i < copies; i++) {
        memcpy(copy, seed, bytes);
        size_t n = driver_change(copy, bytes, cap, &state);
        uint8_t *exact = malloc(n + 1); /* so that a sanitizer sees its end */
        memcpy(exact, copy, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    free(copy);
    ok(1, "%s and %d changed copies of it", name, copies);
}

/* The same with each file of a folder, in the order of their names. */
__attribute__((unused)) static void driver_run_folder(const char *folder,
                                                      int copies)
{
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort), files_n = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        static char bytes[1 << 20];
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        FILE *f = list[i]->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (f) {
            driver_run(list[i]->d_name, bytes,
                       fread(bytes, 1, sizeof bytes, f), copies);
            fclose(f);
            files_n++;
        }
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    ok(files_n > 0, "%d seeds in %s", files_n, folder);
}
#endif
#endif
