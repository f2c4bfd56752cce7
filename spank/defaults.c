/* defaults - sbatch's variables, for a moment; see defaults.h. */
#include "spank/defaults.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/str.h"

static struct row {
    const char *variable, *value;
    const char *options[2]; /* that decide the same; short ones with -X */
    char letter;            /* of the option, 0: none */
    bool is_ours;
} rows[] = {
    {"SBATCH_NO_KILL", "set", {"--no-kill", NULL}, 'k', false},
    {"SBATCH_REQUEUE", "1", {"--requeue", "--no-requeue"}, 0, false},
    {"SBATCH_OPEN_MODE", "append", {"--open-mode", NULL}, 0, false},
};

/* Does the word choose this row's option? getopt takes beginnings too. */
static bool is_choice(const struct row *row, const char *word)
{
    size_t n = strcspn(word, "= \t\r\n");
    if (n >= 2 && word[0] == '-' && word[1] != '-')
        return row->letter && memchr(word + 1, row->letter, n - 1);
    for (int i = 0; i < 2; i++)
        if (row->options[i] && n > 4 && n <= strlen(row->options[i]) &&
            !strncmp(row->options[i], word, n))
            return true;
    return false;
}

static bool in_words(const struct row *row, const char *words, size_t bytes)
{
    for (const char *w = words; w < words + bytes; w += strlen(w) + 1)
        if (is_choice(row, w))
            return true;
    return false;
}

/* In any #SBATCH line. */
static bool in_script(const struct row *row, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (str_starts(text, "#SBATCH"))
            for (size_t i = 7; i + 1 < n; i++)
                if (strchr(" \t", text[i]) && is_choice(row, text + i + 1))
                    return true;
        text += n + (text[n] == '\n');
    }
    return false;
}

void defaults_set(const char *words, size_t bytes, const char *script)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct row *row = &rows[i];
        row->is_ours = !getenv(row->variable) &&
                       !in_words(row, words, bytes) &&
                       !(script && in_script(row, script)) &&
                       !setenv(row->variable, row->value, 0);
    }
}

void defaults_unset(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is_ours)
            unsetenv(rows[i].variable);
        rows[i].is_ours = false;
    }
}
