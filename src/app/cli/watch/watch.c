/* watch.c - levin watch: shows a running job from another terminal or a login node.
 *
 * It only reads files: status.json, which the run replaces about once a second, the end of metrics.jsonl, and the
 * limits in settings.yaml. On a terminal it refreshes in place; in a pipe it prints a block after a new step, at most
 * once in --every seconds. It ends when the run does, or with the key q. Of a run in a store it reads what the run has
 * sent there: the status every ten seconds, the metrics at checkpoints. */
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/redact.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "cli/watch/watch.h"
#include "formats/json.h"
#include "train/run_status.h"

enum { LINE = 1200 }; /* bytes of a text of status.json */
/* For a run in a store: seconds between two reads, and the delay of its status that is normal. */
static const double STORE_SECONDS = 10, STORE_LATE = 45;

static bool running(const struct lvn_watch *w)
{
    return w->status && !strcmp(lvn_watch_text(w->status, "state"), "running");
}

/* Seconds until the last step; NaN: not known. */
static double eta(const struct lvn_watch *w)
{
    double by_epochs = w->max_epochs ? (double)w->max_epochs * w->steps_per_epoch : (double)NAN;
    double last =
        fmin(w->max_steps ? (double)w->max_steps : (double)NAN, by_epochs); /* of a number and NaN: the number */
    return last > (double)w->step ? (last - (double)w->step) / w->steps_per_s : (double)NAN;
}

/* Seconds since the status changed. Clocks of other hosts may be wrong, so repeated reads measure it on this host. */
static double seconds_since_change(const struct lvn_watch *w, bool once)
{
    return once ? w->age : lvn_seconds() - w->changed;
}

/* Why the status is out of date; "": it is not. */
static const char *stale(const struct lvn_watch *w, bool once, char text[160])
{
    text[0] = '\0';
    switch (lvn_run_staleness(w->status, seconds_since_change(w, once) - (w->stored ? STORE_LATE : 0))) {
    case LVN_STALE_NOT:
        break;
    case LVN_STALE_KILLED:
        snprintf(text, 160, "the process of rank 0 is gone: the run was killed");
        break;
    case LVN_STALE_SILENT:
        snprintf(text, 160, "no news for %.0f s: the run hangs, was killed, or its file system is slow",
                 seconds_since_change(w, once));
        break;
    }
    return text;
}

/* --- showing --- */

/* Of a run that was resumed: what its attempts have cost. */
static void attempts_line(const struct lvn_watch *w, struct lvn_text *t)
{
    const json_t *g = json_object_get(w->status, "goodput");
    const long long restarts = (long long)lvn_watch_number(g, "restarts");
    char seconds[LVN_NUMBER_TEXT];
    if (restarts < 1) return;
    lvn_text_printf(t, "goodput %.1f %% (%lld of %lld steps kept), %lld restart%s", 100 * lvn_watch_number(g, "ratio"),
                    (long long)lvn_watch_number(g, "steps_kept"), (long long)lvn_watch_number(g, "steps_computed"),
                    restarts, lvn_plural(restarts));
    if (lvn_watch_number(g, "restart_seconds") > 0)
        lvn_text_printf(t, ", the last took %s", lvn_seconds_text(lvn_watch_number(g, "restart_seconds"), seconds));
    lvn_text_add(t, "\n");
}

/* A text of status.json on one line: a newline would begin another row. */
static const char *line_of(const json_t *object, const char *key, char text[LINE])
{
    return lvn_redacted(text, LINE, lvn_watch_text(object, key));
}

/* "3,000 tokens/s, lr 0.001, 8.3 s left", of these what is known. */
static void speed_line(const struct lvn_watch *w, bool moves, struct lvn_text *t)
{
    char text[LVN_NUMBER_TEXT];
    const char *between = "";
    if (!isnan(w->rate)) {
        lvn_text_printf(t, "%s tokens/s", lvn_count_text((int64_t)w->rate, text));
        between = ", ";
    }
    if (!isnan(w->lr)) {
        lvn_text_printf(t, "%slr %.3g", between, w->lr);
        between = ", ";
    }
    if (moves && isfinite(eta(w))) {
        lvn_text_printf(t, "%s%s left", between, lvn_seconds_text(eta(w), text));
        between = ", ";
    }
    if (*between) lvn_text_add(t, "\n");
}

static void head(const struct lvn_watch *w, const char *old, struct lvn_text *t)
{
    char run[LINE], text[LINE], a[LVN_NUMBER_TEXT];
    lvn_redacted(run, sizeof run, w->run);
    if (!w->status) {
        lvn_text_printf(t, "%s: waiting for the run to begin (%s does not exist)\n", run,
                        lvn_redacted(text, sizeof text, w->status_path));
        return;
    }
    lvn_text_printf(t, "%s: %s, step %s", run, *old ? "stale" : line_of(w->status, "state", text),
                    lvn_count_text(w->step, a));
    if (w->max_steps) {
        lvn_text_printf(t, " of %s (%.1f %%)", lvn_count_text(w->max_steps, a),
                        100.0 * (double)w->step / (double)w->max_steps);
    }
    lvn_text_add(t, "\n");
    if (*old) lvn_text_printf(t, "  ! %s\n", old);
    if (*lvn_watch_text(w->status, "fault")) lvn_text_printf(t, "  ! %s\n", line_of(w->status, "fault", text));
    if (w->n_losses) {
        lvn_text_add(t, "losses");
        for (int i = 0; i < w->n_losses; i++) lvn_text_printf(t, " %.4f", w->losses[i]);
    }
    if (!isnan(w->val_loss))
        lvn_text_printf(t, "%svalidation %.4f (best %.4f)", w->n_losses ? ", " : "", w->val_loss, w->best);
    if (w->n_losses || !isnan(w->val_loss)) lvn_text_add(t, "\n");
    speed_line(w, running(w) && !*old, t);
    attempts_line(w, t);
}

static void rank_line(const json_t *r, double written, int host_width, struct lvn_text *t)
{
    char rate[LVN_NUMBER_TEXT], memory[LVN_NUMBER_TEXT], compute[32] = "-", seen[32] = "-";
    char line[LINE], host[LINE];
    const char *state = line_of(r, "state", line);
    if (lvn_watch_number(r, "compute_s") > 0)
        snprintf(compute, sizeof compute, "%.3g s", lvn_watch_number(r, "compute_s"));
    if (lvn_watch_number(r, "last_seen") > 0) {
        double ago = written - lvn_watch_number(r, "last_seen");
        snprintf(seen, sizeof seen, "%.1f s ago", ago > 0 ? ago : 0);
    }
    lvn_text_printf(t, "%5lld %-*.*s %7lld %7lld %10s %9s %9s %11s", (long long)lvn_watch_number(r, "rank"), host_width,
                    host_width, line_of(r, "host", host), (long long)lvn_watch_number(r, "pid"),
                    (long long)lvn_watch_number(r, "step"),
                    lvn_count_text((int64_t)lvn_watch_number(r, "tokens_per_s"), rate), compute,
                    lvn_bytes_text((int64_t)lvn_watch_number(r, "memory_bytes"), memory), seen);
    if (json_is_true(json_object_get(r, "slow"))) lvn_text_add(t, "  slow");
    if (*state && strcmp(state, "running") != 0) lvn_text_printf(t, "  %s", state);
    if (*line_of(r, "activity", line)) lvn_text_printf(t, "  in %s", line);
    if (lvn_watch_number(r, "collectives") > 0) {
        lvn_text_printf(t, "  in reduction %d of %d", (int)lvn_watch_number(r, "collective"),
                        (int)lvn_watch_number(r, "collectives"));
    }
    lvn_text_add(t, "\n");
}

static bool is_slow_or_lost(const json_t *r)
{
    return json_is_true(json_object_get(r, "slow")) || !strcmp(lvn_watch_text(r, "state"), "lost");
}

/* At most `max` lines of ranks; if there are more ranks, the slow and lost ones first. */
static void table(const struct lvn_watch *w, int max, struct lvn_text *t)
{
    json_t *ranks = w->status ? json_object_get(w->status, "ranks") : NULL;
    int n = (int)json_array_size(ranks), displayed = 0, width = 4;
    char host[LINE];
    if (!n) return;
    for (int i = 0; i < n; i++) {
        const int bytes = (int)strlen(line_of(json_array_get(ranks, (size_t)i), "host", host));
        if (bytes > width) width = bytes < 16 ? bytes : 16;
    }
    lvn_text_printf(t, "%5s %-*s %7s %7s %10s %9s %9s %11s\n", "rank", width, "host", "pid", "step", "tokens/s",
                    "compute", "memory", "heartbeat");
    bool few = n <= max;
    for (int pass = few ? 1 : 0; pass < 2; pass++) {
        for (int i = 0; i < n && displayed < max; i++) {
            const json_t *r = json_array_get(ranks, (size_t)i);
            if (!few && is_slow_or_lost(r) != (pass == 0)) continue;
            rank_line(r, w->written, width, t);
            displayed++;
        }
    }
    if (displayed < n) lvn_text_printf(t, "      and %d more\n", n - displayed);
}

static struct winsize terminal_size(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    return size;
}

/* Lines of ranks that fit below the head; each takes several rows of a narrow terminal. */
static int ranks_that_fit(struct winsize size)
{
    const int line = 120, rows = 1 + (line - 1) / size.ws_col;
    return rows == 1 ? size.ws_row - 7 : (size.ws_row - 10) / rows;
}

/* Draw over the last block: move `rows` up and clear each line to its end. *rows: of the new block, in which a line
 * that is longer than the terminal is wide takes several. */
static void redraw(const char *text, int *rows)
{
    char one[LVN_REDACTED_ONE];
    const int columns = terminal_size().ws_col;
    if (*rows) printf("\033[%dA", *rows);
    *rows = 0;
    while (*text) {
        int n = (int)strcspn(text, "\n"), width = 0;
        for (const char *end = text + n; text < end;) {
            fputs(lvn_redacted_next(&text, one), stdout);
            width += one[0] & 0x80 ? 1 : (int)strlen(one);
        }
        printf(width && width % columns == 0 ? "\n" : "\033[K\n"); /* at the edge \033[K clears a character */
        text += *text == '\n';
        *rows += 1 + (width > 0 ? (width - 1) / columns : 0);
    }
    printf("\033[J");
    fflush(stdout);
}

static enum lvn_status show_json(struct lvn_watch *w)
{
    char text[160];
    const char *old = stale(w, true, text);
    LVN_CHECK(w->status, IO, "%s does not exist: the run has not begun", w->status_path);
    const char *key;
    json_t *value;
    json_object_foreach(w->status, key, value) lvn_cli_add(w->c, key, json_incref(value));
    lvn_cli_add(w->c, "run_dir", lvn_json_text(w->run, INT64_MAX));
    lvn_cli_add(w->c, "stale", json_boolean(*old));
    lvn_cli_add(w->c, "max_steps", w->max_steps ? json_integer(w->max_steps) : json_null());
    lvn_cli_add(w->c, "loss", lvn_json_number(w->loss));
    lvn_cli_add(w->c, "val_loss", lvn_json_number(w->val_loss));
    lvn_cli_add(w->c, "tokens_per_s", lvn_json_number(w->rate));
    lvn_cli_add(w->c, "eta_s", lvn_json_number(running(w) ? eta(w) : (double)NAN));
    return LVN_OK;
}

/* --- the key q --- */

static struct termios terminal; /* as it was before keys_begin() */
static volatile sig_atomic_t reads_keys;

static void keys_end(void)
{
    if (reads_keys) tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    reads_keys = 0;
}

static void end_by_signal(int number)
{
    keys_end();
    signal(number, SIG_DFL);
    raise(number);
}

/* On a terminal, let it send each key immediately and show none. Not in the background, where that would stop the
 * process. */
static void keys_begin(void)
{
    if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() || tcgetattr(STDIN_FILENO, &terminal)) return;
    struct termios keys = terminal;
    const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    reads_keys = 1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) signal(ends[i], end_by_signal);
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
}

/* Wait; true: q was pressed. */
static bool wait_for_q(double seconds)
{
    const double end = lvn_seconds() + seconds;
    for (double left = seconds; left > 0; left = end - lvn_seconds()) {
        struct pollfd input = {.fd = reads_keys ? STDIN_FILENO : -1, .events = POLLIN};
        char key;
        if (poll(&input, 1, (int)(1000 * left) + 1) < 1) continue;
        if (read(STDIN_FILENO, &key, 1) != 1)
            reads_keys = 0; /* the terminal is gone */
        else if (key == 'q' || key == 'Q')
            return true;
    }
    return false;
}

static enum lvn_status follow(struct lvn_watch *w, bool once, bool live)
{
    bool printed = false;
    double every = w->c->flag[LVN_FLAG_watch_every].r, printed_at = 0;
    int rows = 0;
    int64_t step = -1;
    char text[160], before[160] = "";
    signal(SIGPIPE, SIG_DFL); /* `levin watch RUN | head` ends with head */
    if (every <= 0) every = live && !w->stored ? 1 : 10;
    for (;;) {
        struct lvn_text t = {0};
        LVN_TRY(lvn_watch_read_status(w));
        LVN_TRY(lvn_watch_read_metrics(w));
        const char *old = stale(w, once, text);
        LVN_CHECK(w->status || !once, IO, "%s does not exist: the run has not begun", w->status_path);
        head(w, old, &t);
        table(w, live ? ranks_that_fit(terminal_size()) : 1 << 20, &t);
        const char *block = lvn_text_string(&t);
        if (!block) return LVN_MEMORY;
        bool killed = lvn_run_staleness(w->status, 0) == LVN_STALE_KILLED;
        bool end = once || (w->status && !running(w)) || killed, news = w->step != step || strcmp(old, before) != 0;
        if (live) {
            redraw(block, &rows);
        } else if (end || !printed || (news && lvn_seconds() - printed_at >= every)) {
            if (printed) printf("\n");
            lvn_cli_put(stdout, block);
            fflush(stdout);
            printed = true;
            printed_at = lvn_seconds();
            step = w->step;
            snprintf(before, sizeof before, "%s", old);
        }
        lvn_text_release(&t);
        if (end) return LVN_OK;
        if (wait_for_q(w->stored ? STORE_SECONDS : live || every < 1 ? every : 1)) return LVN_OK;
    }
}

enum lvn_status lvn_command_watch(struct lvn_cli *c)
{
    struct lvn_watch w = {.c = c};
    LVN_TRY(lvn_watch_find(&w, c->operand[0]));
    enum lvn_status status;
    if (c->json) {
        status = lvn_watch_read_status(&w);
        if (!status) status = lvn_watch_read_metrics(&w);
        if (!status) status = show_json(&w);
    } else {
        const bool once = lvn_cli_on(c, LVN_FLAG_watch_once), live = !once && isatty(STDOUT_FILENO);
        if (live) keys_begin();
        status = follow(&w, once, live);
        keys_end();
    }
    json_decref(w.status);
    return status;
}
