/* watch.c - levin watch: shows a running job from another terminal or a login node.
 *
 * It only reads files: status.json, which the run replaces about once a second, the end of metrics.jsonl, and the
 * limits in settings.yaml. On a terminal it refreshes in place; in a pipe it prints a block after a new step, at most
 * once in --every seconds. It ends when the run does. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/input.h"
#include "base/redact.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "formats/json.h"
#include "train/run_dir.h"
#include "train/run_status.h"

enum { TAIL = 1 << 16 };

struct watch {
    struct lvn_cli *c;
    char run[1024];
    char status_path[1100];
    char metrics_path[1100];
    json_t *status;         /* status.json as last read; NULL: not there yet */
    double changed;         /* lvn_seconds() when its time was last seen to change */
    double age;             /* seconds since it was written, by the wall clock */
    double written;         /* its time */
    int64_t step;           /* of the run */
    int64_t max_steps;      /* 0: no such limit */
    int64_t max_epochs;     /* 0: no such limit */
    double loss;            /* of the last row of metrics.jsonl that has one; NaN, here and below: not known */
    double val_loss;        /* the same */
    double best;            /* lowest val_loss of the rows read */
    double lr;              /* of the last row */
    double rate;            /* tokens/s of the whole run */
    double steps_per_s;     /* over the rows read */
    double steps_per_epoch; /* from the last row that has an epoch */
    double losses[5];       /* the last ones, newest last */
    int n_losses;
};

/* Refuse a folder without the files that a run writes first, unless it is empty: an empty one may become a run. */
static enum lvn_status refuse_other(const char *folder)
{
    static const char *const run_files[] = {".lock", "settings.yaml", "status.json", "logs"};
    LVN_LOCAL_ARENA(a);
    const char *const *names;
    int n;
    LVN_TRY(lvn_dir_list(&a, folder, &names, &n));
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof run_files / sizeof run_files[0]; k++)
            if (!strcmp(names[i], run_files[k])) return LVN_OK;
    LVN_CHECK(!n, ARG, "'%.300s' is no run: it has no settings.yaml and no status.json; give the folder of a run",
              folder);
    return LVN_OK;
}

static enum lvn_status find_run(struct watch *w, const char *name)
{
    LVN_LOCAL_ARENA(a);
    const char *folder = lvn_run_dir_find(&a, name);
    enum lvn_status status =
        folder ? lvn_copy_bytes(w->run, sizeof w->run, "the path of the run", folder, strlen(folder)) : LVN_OK;
    LVN_TRY(status);
    LVN_CHECK(folder, ARG, "there is no run '%.300s', nor runs/%.300s; give the folder of a run", name, name);
    LVN_TRY(refuse_other(w->run));
    snprintf(w->status_path, sizeof w->status_path, "%s/status.json", w->run);
    snprintf(w->metrics_path, sizeof w->metrics_path, "%s/metrics.jsonl", w->run);
    char path[1100];
    snprintf(path, sizeof path, "%s/settings.yaml", w->run);
    struct lvn_settings s;
    if (lvn_settings_init(&s)) return LVN_MEMORY;
    if (lvn_path_is_file(path) && lvn_settings_load(&s, path) == LVN_OK) {
        w->max_steps = s.trainer.max_steps > 0 ? s.trainer.max_steps : 0;
        w->max_epochs = s.trainer.max_epochs > 0 ? s.trainer.max_epochs : 0;
        bool none = !w->max_steps && !w->max_epochs && s.trainer.max_time <= 0;
        if (none) w->max_epochs = 1; /* the default without any limit; it is not in the file */
    }
    lvn_error_clear(); /* settings of a newer version that cannot be read do not keep one from watching */
    lvn_settings_release(&s);
    return LVN_OK;
}

/* --- reading --- */

/* The last TAIL bytes of a file, from the start of a line; "" if there is no file. The caller frees it; NULL: no
 * memory. */
static char *read_tail(const char *path)
{
    char *text = lvn_malloc(TAIL + 1);
    if (!text) return NULL;
    text[0] = '\0';
    int fd;
    if (lvn_input_open(path, LVN_INPUT_REGULAR, &fd) != LVN_OK) {
        lvn_error_clear();
        return text;
    }
    off_t size = lseek(fd, 0, SEEK_END), offset = size > TAIL ? size - TAIL : 0;
    ssize_t n = pread(fd, text, TAIL, offset);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    char *line = offset ? strchr(text, '\n') : NULL;
    if (line) memmove(text, line + 1, strlen(line + 1) + 1);
    return text;
}

/* Rates from the first row read (first: its step and time) to this one. */
static void read_pace(struct watch *w, const json_t *row, double first[2])
{
    const json_t *step = json_object_get(row, "step"), *at = json_object_get(row, "time"),
                 *epoch = json_object_get(row, "epoch");
    if (!json_is_number(step) || !json_is_number(at)) return;
    double now[2] = {json_number_value(step), json_number_value(at)};
    if (isnan(first[0])) memcpy(first, now, sizeof now);
    if (now[0] > first[0] && now[1] > first[1]) w->steps_per_s = (now[0] - first[0]) / (now[1] - first[1]);
    if (json_number_value(epoch) > 0) w->steps_per_epoch = now[0] / json_number_value(epoch);
}

/* Seconds until the last step; NaN: not known. */
static double eta(const struct watch *w)
{
    double by_epochs = w->max_epochs ? (double)w->max_epochs * w->steps_per_epoch : (double)NAN;
    double last =
        fmin(w->max_steps ? (double)w->max_steps : (double)NAN, by_epochs); /* of a number and NaN: the number */
    return last > (double)w->step ? (last - (double)w->step) / w->steps_per_s : (double)NAN;
}

static enum lvn_status read_metrics(struct watch *w)
{
    char *text = read_tail(w->metrics_path), *rest = text, *line;
    enum lvn_status status = text ? LVN_OK : LVN_MEMORY;
    double first[2] = {NAN, NAN};
    w->loss = w->val_loss = w->best = w->lr = w->rate = w->steps_per_s = w->steps_per_epoch = NAN;
    w->n_losses = 0;
    while (text && (line = strsep(&rest, "\n")) && rest) { /* without the last line, which may be incomplete */
        json_error_t error;
        json_t *row, *one;
        status = lvn_json_load(line, (int64_t)strlen(line), 0, &row, &error);
        if (status != LVN_OK) break;
        if ((one = json_object_get(row, "val_loss")) && json_is_number(one)) {
            w->val_loss = json_number_value(one);
            if (!(w->best < w->val_loss)) w->best = w->val_loss;
        }
        if ((one = json_object_get(row, "loss")) && json_is_number(one)) {
            w->loss = json_number_value(one);
            if (w->n_losses == 5) memmove(w->losses, w->losses + 1, 4 * sizeof *w->losses);
            w->losses[w->n_losses < 5 ? w->n_losses++ : 4] = w->loss;
        }
        read_pace(w, row, first);
        if ((one = json_object_get(row, "lr"))) w->lr = json_number_value(one);
        if ((one = json_object_get(row, "tokens_per_s")) && json_is_number(one)) w->rate = json_number_value(one);
        json_decref(row);
    }
    free(text);
    return status;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* LVN_OK also if the file is not there yet. */
static enum lvn_status read_status(struct watch *w)
{
    json_t *fresh = NULL;
    if (lvn_path_is_file(w->status_path)) LVN_TRY(lvn_json_read(w->status_path, &fresh));
    if (!fresh) return LVN_OK;
    if (!json_is_object(fresh) || !json_is_array(json_object_get(fresh, "ranks")) || !*text_of(fresh, "state")) {
        json_decref(fresh);
        LVN_FAIL(FORMAT, "%s is no status of a run: it lacks 'state' or 'ranks'", w->status_path);
    }
    json_decref(w->status);
    w->status = fresh;
    if (number_of(fresh, "time") != w->written || !w->changed) w->changed = lvn_seconds();
    w->written = number_of(fresh, "time");
    w->step = (int64_t)number_of(fresh, "step");
    w->age = lvn_wall_seconds() - w->written;
    return LVN_OK;
}

static bool running(const struct watch *w)
{
    return w->status && !strcmp(text_of(w->status, "state"), "running");
}

/* Clocks of other hosts may be wrong: who looks more than once measures how long the status has not changed. */
static double silent(const struct watch *w, bool once)
{
    return once ? w->age : lvn_seconds() - w->changed;
}

/* Why the status is out of date; "": it is not. */
static const char *stale(const struct watch *w, bool once, char text[160])
{
    text[0] = '\0';
    switch (lvn_run_staleness(w->status, silent(w, once))) {
    case LVN_STALE_NOT:
        break;
    case LVN_STALE_KILLED:
        snprintf(text, 160, "the process of rank 0 is gone: the run was killed");
        break;
    case LVN_STALE_SILENT:
        snprintf(text, 160, "no news for %.0f s: the run hangs, was killed, or its file system is slow",
                 silent(w, once));
        break;
    }
    return text;
}

/* --- showing --- */

/* Of a run that was resumed: what its attempts have cost. */
static void attempts_line(const struct watch *w, struct lvn_text *t)
{
    const json_t *g = json_object_get(w->status, "goodput");
    const long long restarts = (long long)number_of(g, "restarts");
    char seconds[LVN_NUMBER_TEXT];
    if (restarts < 1) return;
    lvn_text_printf(t, "goodput %.1f %% (%lld of %lld steps kept), %lld restart%s", 100 * number_of(g, "ratio"),
                    (long long)number_of(g, "steps_kept"), (long long)number_of(g, "steps_computed"), restarts,
                    lvn_plural(restarts));
    if (number_of(g, "restart_seconds") > 0)
        lvn_text_printf(t, ", the last took %s", lvn_seconds_text(number_of(g, "restart_seconds"), seconds));
    lvn_text_add(t, "\n");
}

static void head(const struct watch *w, const char *old, struct lvn_text *t)
{
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    if (!w->status) {
        lvn_text_printf(t, "%s: waiting for the run to begin (%s does not exist)\n", w->run, w->status_path);
        return;
    }
    lvn_text_printf(t, "%s: %s, step %s", w->run, *old ? "stale" : text_of(w->status, "state"),
                    lvn_count_text(w->step, a));
    if (w->max_steps) {
        lvn_text_printf(t, " of %s (%.1f %%)", lvn_count_text(w->max_steps, a),
                        100.0 * (double)w->step / (double)w->max_steps);
    }
    lvn_text_add(t, "\n");
    if (*old) lvn_text_printf(t, "  ! %s\n", old);
    if (*text_of(w->status, "fault")) lvn_text_printf(t, "  ! %s\n", text_of(w->status, "fault"));
    if (w->n_losses) {
        lvn_text_add(t, "losses");
        for (int i = 0; i < w->n_losses; i++) lvn_text_printf(t, " %.4f", w->losses[i]);
    }
    if (w->val_loss == w->val_loss) lvn_text_printf(t, ", validation %.4f (best %.4f)", w->val_loss, w->best);
    if (w->rate == w->rate) {
        lvn_text_printf(t, ", %s tokens/s", lvn_count_text((int64_t)w->rate, b));
    }
    if (w->lr == w->lr) lvn_text_printf(t, ", lr %.3g", w->lr);
    if (running(w) && !*old && isfinite(eta(w))) lvn_text_printf(t, ", %s left", lvn_seconds_text(eta(w), a));
    if (w->n_losses) lvn_text_add(t, "\n");
    attempts_line(w, t);
}

static void rank_line(const json_t *r, double written, struct lvn_text *t)
{
    char rate[LVN_NUMBER_TEXT], memory[LVN_NUMBER_TEXT], compute[32] = "-", seen[32] = "-";
    const char *state = text_of(r, "state");
    if (number_of(r, "compute_s") > 0) snprintf(compute, sizeof compute, "%.3g s", number_of(r, "compute_s"));
    if (number_of(r, "last_seen") > 0) {
        double ago = written - number_of(r, "last_seen");
        snprintf(seen, sizeof seen, "%.1f s ago", ago > 0 ? ago : 0);
    }
    lvn_text_printf(t, "%5lld %-16.16s %8lld %9lld %12s %10s %10s %12s", (long long)number_of(r, "rank"),
                    text_of(r, "host"), (long long)number_of(r, "pid"), (long long)number_of(r, "step"),
                    lvn_count_text((int64_t)number_of(r, "tokens_per_s"), rate), compute,
                    lvn_bytes_text((int64_t)number_of(r, "memory_bytes"), memory), seen);
    if (json_is_true(json_object_get(r, "slow"))) lvn_text_add(t, "  slow");
    if (*state && strcmp(state, "running") != 0) lvn_text_printf(t, "  %s", state);
    if (number_of(r, "collectives") > 0) {
        lvn_text_printf(t, "  in reduction %d of %d", (int)number_of(r, "collective"),
                        (int)number_of(r, "collectives"));
    }
    lvn_text_add(t, "\n");
}

static bool is_slow_or_lost(const json_t *r)
{
    return json_is_true(json_object_get(r, "slow")) || !strcmp(text_of(r, "state"), "lost");
}

/* At most `max` lines of ranks; if there are more ranks, the slow and lost ones first. */
static void table(const struct watch *w, int max, struct lvn_text *t)
{
    json_t *ranks = w->status ? json_object_get(w->status, "ranks") : NULL;
    int n = (int)json_array_size(ranks), displayed = 0;
    if (!n) return;
    lvn_text_printf(t, "%5s %-16s %8s %9s %12s %10s %10s %12s\n", "rank", "host", "pid", "step", "tokens/s", "compute",
                    "memory", "heartbeat");
    bool few = n <= max;
    for (int pass = few ? 1 : 0; pass < 2; pass++) {
        for (int i = 0; i < n && displayed < max; i++) {
            const json_t *r = json_array_get(ranks, (size_t)i);
            if (!few && is_slow_or_lost(r) != (pass == 0)) continue;
            rank_line(r, w->written, t);
            displayed++;
        }
    }
    if (displayed < n) lvn_text_printf(t, "      and %d more\n", n - displayed);
}

static int terminal_rows(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row) return 24;
    return size.ws_row;
}

/* Draw over the last block: move `lines` up and clear each line to its end. *lines: of the new block. */
static void redraw(const char *text, int *lines)
{
    char one[LVN_REDACTED_ONE];
    if (*lines) printf("\033[%dA", *lines);
    *lines = 0;
    while (*text) {
        int n = (int)strcspn(text, "\n");
        for (const char *end = text + n; text < end;) fputs(lvn_redacted_next(&text, one), stdout);
        printf("\033[K\n");
        text += *text == '\n';
        (*lines)++;
    }
    printf("\033[J");
    fflush(stdout);
}

static enum lvn_status show_json(struct watch *w)
{
    char text[160];
    const char *old = stale(w, true, text);
    LVN_CHECK(w->status, IO, "%s does not exist: the run has not begun, or an older levin made it", w->status_path);
    const char *key;
    json_t *value;
    json_object_foreach(w->status, key, value) lvn_cli_add(w->c, key, json_incref(value));
    lvn_cli_add(w->c, "run_dir", json_string(w->run));
    lvn_cli_add(w->c, "stale", json_boolean(*old));
    lvn_cli_add(w->c, "max_steps", w->max_steps ? json_integer(w->max_steps) : json_null());
    lvn_cli_add(w->c, "loss", lvn_cli_number(w->loss));
    lvn_cli_add(w->c, "val_loss", lvn_cli_number(w->val_loss));
    lvn_cli_add(w->c, "tokens_per_s", lvn_cli_number(w->rate));
    lvn_cli_add(w->c, "eta_s", lvn_cli_number(running(w) ? eta(w) : (double)NAN));
    return LVN_OK;
}

static enum lvn_status follow(struct watch *w, bool once)
{
    bool live = !once && isatty(STDOUT_FILENO), printed = false;
    double every = w->c->flag[LVN_FLAG_watch_every].r, printed_at = 0;
    int lines = 0;
    int64_t step = -1;
    char text[160], before[160] = "";
    signal(SIGPIPE, SIG_DFL); /* `levin watch RUN | head` ends with head */
    if (every <= 0) every = live ? 1 : 10;
    for (;;) {
        struct lvn_text t = {0};
        LVN_TRY(read_status(w));
        LVN_TRY(read_metrics(w));
        const char *old = stale(w, once, text);
        LVN_CHECK(w->status || !once, IO, "%s does not exist: the run has not begun, or an older levin made it",
                  w->status_path);
        head(w, old, &t);
        table(w, live ? terminal_rows() - 6 : 1 << 20, &t);
        const char *block = lvn_text_string(&t);
        if (!block) return LVN_MEMORY;
        bool killed = lvn_run_staleness(w->status, 0) == LVN_STALE_KILLED;
        bool end = once || (w->status && !running(w)) || killed, news = w->step != step || strcmp(old, before) != 0;
        if (live) {
            redraw(block, &lines);
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
        usleep((useconds_t)(1e6 * (live ? every : every < 1 ? every : 1)));
    }
}

enum lvn_status lvn_command_watch(struct lvn_cli *c)
{
    struct watch w = {.c = c};
    LVN_TRY(find_run(&w, c->operand[0]));
    enum lvn_status status;
    if (c->json) {
        status = read_status(&w);
        if (!status) status = read_metrics(&w);
        if (!status) status = show_json(&w);
    } else {
        status = follow(&w, lvn_cli_on(c, LVN_FLAG_watch_once));
    }
    json_decref(w.status);
    return status;
}
