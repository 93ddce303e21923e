/* watch.c - levin watch: shows a running job from another terminal or a login node.
 *
 * It only reads files: status.json, which the run replaces about once a second, the end of metrics.jsonl, and the
 * limits in settings.yaml. On a terminal it refreshes in place; in a pipe it prints a block after a new step, at most
 * once in --every seconds. It ends when the run does, or with the key q. Of a run in a store it reads what the run has
 * sent there: the status every ten seconds, the metrics at checkpoints. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/input.h"
#include "base/redact.h"
#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "formats/json.h"
#include "model_io/model_find.h"
#include "settings/settings.h"
#include "stores/store.h"
#include "train/run_dir.h"
#include "train/run_status.h"

enum { LINE = 1200 }; /* bytes of a text of status.json */
/* For a run in a store: seconds between two reads, and the delay of its status that is normal. */
static const double STORE_SECONDS = 10, STORE_LATE = 45;

/* The run that is watched: its files, and what was last read from them. */
struct watch {
    struct lvn_cli *c;
    char run[1024];
    bool stored; /* the run is in a store */
    char status_path[1100];
    char metrics_path[1100];
    json_t *status;         /* status.json as last read; NULL: not written yet */
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

/* --- reading --- */

enum { TAIL = 1 << 16, MAX_STATUS = 64 << 20, MAX_SETTINGS = 1 << 20 };

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
    LVN_CHECK(!n, ARG, "'%.300s' is not a run: it has no settings.yaml and no status.json; give the folder of a run",
              folder);
    return LVN_OK;
}

static enum lvn_status find_folder(struct watch *w, const char *name)
{
    LVN_LOCAL_ARENA(a);
    const char *folder = lvn_run_dir_find(&a, name);
    LVN_CHECK(folder, ARG, "%s", lvn_run_missing(&a, name));
    LVN_TRY(lvn_copy_bytes(w->run, sizeof w->run, "the path of the run", folder, strlen(folder)));
    return refuse_other(w->run);
}

/* The content of a file of the run; "" if there is none. The caller frees it. */
static enum lvn_status read_stored(const char *path, int64_t limit, char **text)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    *text = NULL;
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    if (kind == LVN_STORE_FILE) return lvn_store_read_tail(path, limit, text, &bytes);
    *text = lvn_strdup("");
    return *text ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_limits(struct watch *w, const char *path)
{
    struct levin_settings s;
    char *text;
    LVN_TRY(read_stored(path, MAX_SETTINGS, &text));
    enum lvn_status status = lvn_settings_init(&s);
    if (status == LVN_OK && *text && lvn_settings_read(&s, text, strlen(text), path) == LVN_OK) {
        w->max_steps = s.values.trainer.max_steps > 0 ? s.values.trainer.max_steps : 0;
        w->max_epochs = s.values.trainer.max_epochs > 0 ? s.values.trainer.max_epochs : 0;
        bool none = !w->max_steps && !w->max_epochs && s.values.trainer.max_time <= 0;
        if (none) w->max_epochs = 1; /* the default without any limit; it is not in the file */
    }
    free(text);
    if (status != LVN_OK) return status;
    lvn_error_clear(); /* settings of a newer version that cannot be read do not keep one from watching */
    lvn_settings_release(&s);
    return LVN_OK;
}

/* Find the run of this name or path, and read its limits. ARG if there is none on this machine; a run in a store may
 * still begin. */
static enum lvn_status find_run(struct watch *w, const char *name)
{
    w->stored = lvn_store_is_remote(name);
    if (w->stored)
        LVN_TRY(lvn_copy_bytes(w->run, sizeof w->run, "the path of the run", name, strlen(name)));
    else
        LVN_TRY(find_folder(w, name));
    char path[1100];
    snprintf(w->status_path, sizeof w->status_path, "%s/" LVN_RUN_DIR_STATUS, w->run);
    snprintf(w->metrics_path, sizeof w->metrics_path, "%s/metrics.jsonl", w->run);
    snprintf(path, sizeof path, "%s/settings.yaml", w->run);
    return read_limits(w, path);
}

/* A member of an object; "" and 0: it has none. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* The last TAIL bytes of a file on this machine, "" if there is none; NULL: no memory. */
static char *read_end(const char *path)
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
    return text;
}

/* The last rows of the metrics, whole ones; "" if there are none. The caller frees them. */
static enum lvn_status read_rows(const struct watch *w, char **text)
{
    if (w->stored)
        LVN_TRY(read_stored(w->metrics_path, TAIL, text));
    else if (!(*text = read_end(w->metrics_path)))
        return LVN_MEMORY;
    char *line = strlen(*text) == TAIL ? strchr(*text, '\n') : NULL;
    if (line) memmove(*text, line + 1, strlen(line + 1) + 1);
    return LVN_OK;
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

static enum lvn_status read_metrics(struct watch *w)
{
    char *text = NULL, *line;
    enum lvn_status status = read_rows(w, &text);
    char *rest = text;
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

/* Read again if the run replaced the file meanwhile. */
static enum lvn_status read_stored_status(const struct watch *w, json_t **out)
{
    enum lvn_status status = LVN_IO;
    for (int i = 0; i < 3 && status != LVN_OK; i++) {
        char *text;
        lvn_error_clear();
        status = read_stored(w->status_path, MAX_STATUS, &text);
        if (status != LVN_OK) continue;
        if (*text) status = lvn_json_parse(w->status_path, text, (int64_t)strlen(text), out);
        free(text);
    }
    return status;
}

/* LVN_OK also if the file does not exist yet. */
static enum lvn_status read_status(struct watch *w)
{
    json_t *fresh = NULL;
    if (w->stored)
        LVN_TRY(read_stored_status(w, &fresh));
    else if (lvn_path_is_file(w->status_path))
        LVN_TRY(lvn_json_read(w->status_path, &fresh));
    if (!fresh) return LVN_OK;
    if (!json_is_object(fresh) || !json_is_array(json_object_get(fresh, "ranks")) || !*text_of(fresh, "state")) {
        json_decref(fresh);
        LVN_FAIL(FORMAT, "%s is not the status of a run: it lacks 'state' or 'ranks'", w->status_path);
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

/* Seconds until the last step; NaN: not known. */
static double eta(const struct watch *w)
{
    double by_epochs = w->max_epochs ? (double)w->max_epochs * w->steps_per_epoch : (double)NAN;
    double last =
        fmin(w->max_steps ? (double)w->max_steps : (double)NAN, by_epochs); /* of a number and NaN: the number */
    return last > (double)w->step ? (last - (double)w->step) / w->steps_per_s : (double)NAN;
}

/* Seconds since the status changed. Clocks of other hosts may be wrong, so repeated reads measure it on this host. */
static double seconds_since_change(const struct watch *w, bool once)
{
    return once ? w->age : lvn_seconds() - w->changed;
}

/* Why the status is out of date; "": it is not. */
static const char *stale(const struct watch *w, bool once, char text[160])
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

/* A text of status.json on one line: a newline would begin another row. */
static const char *line_of(const json_t *object, const char *key, char text[LINE])
{
    return lvn_redacted(text, LINE, text_of(object, key));
}

/* "3,000 tokens/s, lr 0.001, 8.3 s left", of these what is known. */
static void speed_line(const struct watch *w, bool moves, struct lvn_text *t)
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

static void head(const struct watch *w, const char *old, struct lvn_text *t)
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
    if (*text_of(w->status, "fault")) lvn_text_printf(t, "  ! %s\n", line_of(w->status, "fault", text));
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
    if (number_of(r, "compute_s") > 0) snprintf(compute, sizeof compute, "%.3g s", number_of(r, "compute_s"));
    if (number_of(r, "last_seen") > 0) {
        double ago = written - number_of(r, "last_seen");
        snprintf(seen, sizeof seen, "%.1f s ago", ago > 0 ? ago : 0);
    }
    lvn_text_printf(t, "%5lld %-*.*s %7lld %7lld %10s %9s %9s %11s", (long long)number_of(r, "rank"), host_width,
                    host_width, line_of(r, "host", host), (long long)number_of(r, "pid"),
                    (long long)number_of(r, "step"), lvn_count_text((int64_t)number_of(r, "tokens_per_s"), rate),
                    compute, lvn_bytes_text((int64_t)number_of(r, "memory_bytes"), memory), seen);
    if (json_is_true(json_object_get(r, "slow"))) lvn_text_add(t, "  slow");
    if (*state && strcmp(state, "running") != 0) lvn_text_printf(t, "  %s", state);
    if (*line_of(r, "activity", line)) lvn_text_printf(t, "  in %s", line);
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

static enum lvn_status show_json(struct watch *w)
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

static enum lvn_status follow(struct watch *w, bool once, bool live)
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
        LVN_TRY(read_status(w));
        LVN_TRY(read_metrics(w));
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
    static const enum lvn_flag_id repeats[] = {LVN_FLAG_watch_every};
    struct watch w = {.c = c};
    if (c->json || lvn_cli_on(c, LVN_FLAG_watch_once))
        LVN_TRY(lvn_cli_refuse(c, repeats, 1,
                               "has no effect with --once and --json, which show the run once: leave it out"));
    LVN_TRY(find_run(&w, c->operand[0]));
    enum lvn_status status;
    if (c->json) {
        status = read_status(&w);
        if (!status) status = read_metrics(&w);
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
