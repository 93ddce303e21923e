/* transfer.c - see transfer.h. */
#include "cli/transfer.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/redact.h"
#include "cli/humanize.h"
#include "cli/stop.h"

void lvn_transfer_begin(struct lvn_transfer *t, const struct lvn_cli *c, const char *name)
{
    lvn_stop_catch();
    *t = (struct lvn_transfer){.name = name,
                               .quiet = lvn_cli_on(c, LVN_FLAG_any_quiet),
                               .live = isatty(STDERR_FILENO),
                               .began = lvn_seconds(),
                               .drawn = lvn_seconds(),
                               .first = -1};
}

static void clear(struct lvn_transfer *t)
{
    if (t->displayed) fputs("\r\033[K", stderr);
    t->displayed = false;
}

int lvn_transfer_progress(void *context, int64_t done, int64_t total)
{
    struct lvn_transfer *t = context;
    double now = lvn_seconds(), seconds = now - t->began;
    if (t->first < 0) t->first = done;
    if (t->quiet || now - t->drawn < (t->live ? 0.2 : 10)) return lvn_stop_requested;
    t->drawn = now;
    char have[LVN_NUMBER_TEXT], all[LVN_NUMBER_TEXT] = "?", rate[LVN_NUMBER_TEXT], left[LVN_NUMBER_TEXT] = "?";
    char name[256];
    double got = (double)(done - t->first);
    if (total) lvn_bytes_text(total, all);
    if (total && got > 0) lvn_seconds_text((double)(total - done) * seconds / got, left);
    clear(t);
    fprintf(stderr, "%s: %s of %s, %s/s, %s left%s", lvn_redacted(name, sizeof name, t->name),
            lvn_bytes_text(done, have), all, lvn_bytes_text((int64_t)(got / seconds), rate), left, t->live ? "" : "\n");
    fflush(stderr);
    t->displayed = t->live;
    return lvn_stop_requested;
}

void lvn_transfer_end(struct lvn_transfer *t)
{
    clear(t);
}
