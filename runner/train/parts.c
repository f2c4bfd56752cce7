/* parts - where the time from the program's start to the first step goes. */
#include "runner/base/clock.h"
#include "runner/base/log.h"
#include "runner/base/str.h"
#include "runner/train/train.h"

void parts_begin(struct parts *parts)
{
    parts->begin_s = parts->last_s = clock_mono_s();
}

void parts_end(struct parts *parts, const char *what)
{
    double now = clock_mono_s();
    if (parts->n < PARTS_MAX)
        parts->at[parts->n++] = (struct part){what, now - parts->last_s};
    parts->last_s = now;
}

void parts_tell(const struct parts *parts)
{
    struct sbuf text = SBUF_INIT;
    for (int i = 0; i < parts->n; i++)
        sbuf_printf(&text, "%s%s %.2f", i ? ", " : "", parts->at[i].what,
                    parts->at[i].s);
    log_info("first step %.2f s after the start: %s",
             parts->last_s - parts->begin_s, text.data);
    sbuf_release(&text);
}
