/* progress.c - see progress.h.
 *
 * The live line is overwritten in one write() and the rest of the line erased, at most ten times a second, so that it
 * does not flicker. It does not wrap either: parts that do not fit are left out, the least important first. Permanent
 * lines (validation, checkpoints, samples) are printed above it. */
#include "cli/progress.h"

#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "settings/settings.h"

void lvn_progress_init(struct lvn_progress *p, FILE *out, bool quiet, int64_t log_every_n_steps)
{
    const char *term = getenv("TERM"), *remote = getenv("LEVIN_TERMINAL");
    long columns = remote ? strtol(remote, NULL, 10) : 0;
    *p = (struct lvn_progress){.out = out, .quiet = quiet, .every = log_every_n_steps, .drawn = -1, .rate = NAN};
    p->live = !quiet && isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
    p->piped = !quiet && !p->live && columns > 0 && columns < 10000;
    p->live |= p->piped;
    p->rewraps = getenv("TMUX") || getenv("VTE_VERSION");
    if (p->piped) p->columns = (int)columns;
}

static int terminal_columns(const struct lvn_progress *p)
{
    const int columns = p->columns > 0 ? p->columns : lvn_terminal_columns(fileno(p->out));
    return columns > 0 ? columns : 80;
}

/* Move to the start of the live line; true: the terminal has become narrower and wrapped it, and its lines are erased.
 */
static bool unwrap(struct lvn_progress *p)
{
    const int lines = p->displayed && p->rewraps ? (p->length - 1) / terminal_columns(p) : 0;
    if (lines > 0) fprintf(p->out, "\033[%dA\r\033[J", lines);
    return lines > 0;
}

void lvn_progress_clear(struct lvn_progress *p)
{
    flockfile(p->out);
    if (p->displayed && !unwrap(p)) fputs("\r\033[K", p->out);
    if (p->displayed) fflush(p->out);
    p->displayed = false;
    funlockfile(p->out);
}

/* Seconds as 12:34 or 1:02:03: short, and of nearly constant width. */
static void clock_text(double seconds, char text[LVN_NUMBER_TEXT])
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s < 3600) {
        snprintf(text, LVN_NUMBER_TEXT, "%" PRId64 ":%02" PRId64, s / 60, s % 60);
    } else if (s < (int64_t)100 * 3600) {
        snprintf(text, LVN_NUMBER_TEXT, "%" PRId64 ":%02" PRId64 ":%02" PRId64, s / 3600, s % 3600 / 60, s % 60);
    } else {
        snprintf(text, LVN_NUMBER_TEXT, "%" PRId64 " days", s / 86400);
    }
}

/* A part of the line. */
struct part {
    char text[48];
    int priority; /* the part with the lowest one is left out first where the line is too long */
};

static int add(struct part *parts, int n, int priority, const char *format, ...) LVN_PRINTF(4, 5);
static int add(struct part *parts, int n, int priority, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(parts[n].text, sizeof parts[n].text, format, args);
    va_end(args);
    parts[n].priority = priority;
    return n + 1;
}

/* A loss; "-": it is not defined, as without labels. */
static const char *loss_text(double loss, char text[LVN_NUMBER_TEXT])
{
    if (isnan(loss)) return "-";
    snprintf(text, LVN_NUMBER_TEXT, "%.4f", loss);
    return text;
}

static int make_parts(const struct lvn_progress *p, const struct lvn_event *e, struct part *parts)
{
    int n = 0;
    char text[LVN_NUMBER_TEXT];
    int digits = 1;
    for (int64_t x = p->total; x >= 10; x /= 10) digits++;
    if (p->total) {
        n = add(parts, n, 10, "step %*" PRId64 "/%" PRId64, digits, e->step, p->total);
    } else {
        n = add(parts, n, 10, "step %" PRId64, e->step);
    }
    double loss = lvn_event_value(e, "loss"), val_loss = lvn_event_value(e, "val_loss"), lr = lvn_event_value(e, "lr");
    if (e->kind == LVN_EVENT_VALIDATING)
        n = add(parts, n, 10, "validating %" PRId64 "/%" PRId64, e->val_batch, e->val_batches);
    n = add(parts, n, 9, "loss %s", loss_text(loss, text));
    if (!isnan(val_loss)) n = add(parts, n, 8, "val %.4f", val_loss);
    if (!isnan(lr)) n = add(parts, n, 3, "lr %.2e", lr);
    double scale = lvn_event_value(e, "loss_scale");
    if (!isnan(scale)) n = add(parts, n, 1, "scale %g", scale);
    double rate = isnan(p->rate) ? lvn_event_value(e, "tokens_per_s") : p->rate;
    if (!isnan(rate)) n = add(parts, n, 7, "%s %s/s", lvn_count_text((int64_t)(rate + 0.5), text), e->unit);
    if (!isnan(e->utilization)) n = add(parts, n, 2, "%.0f%% of peak", 100 * e->utilization);
    if (e->memory_bytes > 0)
        n = add(parts, n, 4, "%s%s", lvn_bytes_text(e->memory_bytes, text), e->ranks > 1 ? " a rank" : "");
    if (!isnan(e->eta_s)) {
        clock_text(e->eta_s, text);
        n = add(parts, n, 6, "ETA %s", text);
    }
    return n;
}

int lvn_progress_line(const struct lvn_progress *p, const struct lvn_event *e, int columns,
                      char text[LVN_PROGRESS_TEXT])
{
    struct part parts[11];
    int n = make_parts(p, e, parts), length = -2;
    for (int i = 0; i < n; i++) length += (int)strlen(parts[i].text) + 2;
    while (columns > 0 && length > columns && n > 1) {
        int min = 0;
        for (int i = 1; i < n; i++) {
            if (parts[i].priority < parts[min].priority) min = i;
        }
        length -= (int)strlen(parts[min].text) + 2;
        memmove(&parts[min], &parts[min + 1], (size_t)(n - 1 - min) * sizeof *parts);
        n--;
    }
    int used = 0;
    text[0] = '\0';
    for (int i = 0; i < n && used < LVN_PROGRESS_TEXT; i++) {
        used += snprintf(text + used, (size_t)(LVN_PROGRESS_TEXT - used), "%s%s", i ? "  " : "", parts[i].text);
    }
    if (columns > 0 && used > columns) text[used = columns] = '\0';
    return used;
}

/* Print a permanent line. */
static void print_line(struct lvn_progress *p, const char *format, ...) LVN_PRINTF(2, 3);
static void print_line(struct lvn_progress *p, const char *format, ...)
{
    if (p->quiet) return;
    lvn_progress_clear(p);
    va_list args;
    va_start(args, format);
    if (!lvn_cli_vput(p->out, format, args)) fputs("(not enough memory to show this)", p->out);
    va_end(args);
    fputc('\n', p->out);
    fflush(p->out);
}

static void draw(struct lvn_progress *p, const struct lvn_event *e, bool always)
{
    char text[LVN_PROGRESS_TEXT];
    if (!always && p->drawn >= 0 && e->elapsed_s - p->drawn < 0.1) return;
    p->drawn = e->elapsed_s;
    (void)unwrap(p);
    p->length = lvn_progress_line(p, e, terminal_columns(p) - 1, text);
    /* in one write: text that overwrites the old one directly does not flicker */
    fprintf(p->out, p->piped ? "\r%s\n" : "\r%s\033[K", text);
    fflush(p->out);
    p->displayed = !p->piped;
}

static void at_start(struct lvn_progress *p, const struct lvn_event *e)
{
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT], c[LVN_NUMBER_TEXT], batch[LVN_BATCH_TEXT];
    p->total = e->max_steps;
    char ranks[64] = "";
    if (e->ranks > 1)
        snprintf(ranks, sizeof ranks, "%d ranks on %d host%s, each with ", e->ranks, e->hosts, lvn_plural(e->hosts));
    char trained[48] = "";
    if (e->trained < e->parameters)
        snprintf(trained, sizeof trained, " (%s of them trained)", lvn_count_text(e->trained, b));
    print_line(p, "%s: %s parameters%s, %s%d thread%s%s%s%s, in %s", e->name, lvn_count_text(e->parameters, a), trained,
               ranks, e->threads, lvn_plural(e->threads), e->isa ? " (" : "", e->isa ? e->isa : "", e->isa ? ")" : "",
               e->run_dir);
    const int64_t n_train = e->train_tokens ? e->train_tokens : e->train_samples;
    const int64_t n_val = e->train_tokens ? e->val_tokens : e->val_samples;
    if (n_train)
        print_line(p, "data: %s training %s%s, %s for validation", lvn_count_text(n_train, a),
                   e->train_tokens ? "token" : "sample", lvn_plural(n_train),
                   n_val ? lvn_count_text(n_val, b) : "none");
    print_line(p, "batch: %s, as %" PRId64 " micro-batch%s of %" PRId64 "%s%s",
               lvn_batch_text(e->unit, e->batch_size, e->block_size, e->fill, batch), e->accumulation,
               e->accumulation == 1 ? "" : "es", e->micro_batch_size, e->steps_per_epoch ? "; steps an epoch: " : "",
               e->steps_per_epoch ? lvn_count_text(e->steps_per_epoch, c) : "");
    if (e->step > 0)
        print_line(p, "continuing after step %" PRId64 "%s%s", e->step, e->text ? " from " : "",
                   e->text ? e->text : "");
}

/* The seconds from one plain line to the next with LVN_LOG_BY_TIME, where the last one was printed after `elapsed_s`:
 * 10 in the first ten minutes, then a sixtieth of the time so far, at most 600. A day's run has some 400 lines. */
static double seconds_between_lines(double elapsed_s)
{
    return fmin(fmax(10, elapsed_s / 60), 600);
}

static bool line_is_due(const struct lvn_progress *p, const struct lvn_event *e, bool last)
{
    if (p->quiet || !p->every) return false;
    if (e->step == 1 || last) return true;
    if (p->every == LVN_LOG_BY_TIME) return e->elapsed_s - p->printed >= seconds_between_lines(p->printed);
    return e->step % p->every == 0;
}

static void at_step(struct lvn_progress *p, const struct lvn_event *e)
{
    char text[LVN_PROGRESS_TEXT];
    double rate = lvn_event_value(e, "tokens_per_s");
    p->rate = isnan(p->rate) ? rate : p->rate + 0.1 * (rate - p->rate);
    bool last = p->total && e->step == p->total;
    if (p->live) {
        draw(p, e, last);
    } else if (line_is_due(p, e, last)) {
        lvn_progress_line(p, e, 0, text);
        print_line(p, "%s", text);
        p->printed = e->elapsed_s;
    }
}

static void at_validation(struct lvn_progress *p, const struct lvn_event *e)
{
    char worse[64] = "", metrics[256] = "", text[LVN_NUMBER_TEXT];
    double loss = lvn_event_value(e, "val_loss");
    if (e->step == 0) {
        print_line(p, "before the first step: validation loss %s", loss_text(loss, text));
        return;
    }
    if (loss > e->start_val_loss)
        snprintf(worse, sizeof worse, ", worse than %.4f before the first step", e->start_val_loss);
    for (int i = 0; i < e->n_scalars; i++) {
        const struct lvn_scalar *s = &e->scalar[i];
        if (!lvn_event_updates(e, i) || !strcmp(s->name, "val_loss")) continue;
        const char *name = s->name + 4 * !strncmp(s->name, "val_", 4);
        if (isnan(s->value))
            lvn_print_append(metrics, sizeof metrics, ", %s -", name);
        else
            lvn_print_append(metrics, sizeof metrics, ", %s %.4g", name, s->value);
    }
    print_line(p, "step %" PRId64 ": validation loss %s%s%s%s", e->step, loss_text(loss, text), metrics,
               e->best ? ", the best so far" : "", worse);
}

static void at_epoch(struct lvn_progress *p, const struct lvn_event *e)
{
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    print_line(p, "epoch %" PRId64 ": %s, peak memory %s%s", e->epoch, lvn_seconds_text(e->epoch_s, a),
               lvn_bytes_text(e->peak_bytes, b), e->ranks > 1 ? " a rank (mean)" : "");
}

static void handle(struct lvn_progress *p, const struct lvn_event *e)
{
    char text[LVN_NUMBER_TEXT];
    switch (e->kind) {
    case LVN_EVENT_START:
        at_start(p, e);
        return;
    case LVN_EVENT_STEP:
        at_step(p, e);
        return;
    case LVN_EVENT_VALIDATION:
        at_validation(p, e);
        break;
    case LVN_EVENT_CHECKPOINT:
        /* Saving may take longer than a step: the line names its step in the path alone, as later steps may be printed
         * before it, and nothing is drawn again. */
        if (!p->live) print_line(p, "saved %s", e->text);
        return;
    case LVN_EVENT_SAMPLE:
        print_line(p, "--- sample after step %" PRId64 "\n%s\n---", e->step, e->text);
        break;
    case LVN_EVENT_NOTE:
        lvn_progress_clear(p);
        fprintf(p->out, "warning: %s\n", e->text);
        fflush(p->out);
        break;
    case LVN_EVENT_EPOCH:
        at_epoch(p, e);
        break;
    case LVN_EVENT_VALIDATING:
        if (p->live && e->val_batches > 1) draw(p, e, false);
        return;
    case LVN_EVENT_LOG:
        return;
    case LVN_EVENT_END:
        lvn_progress_clear(p);
        print_line(p, "%s; ended at step %" PRId64 " after %s", e->text, e->step, lvn_seconds_text(e->elapsed_s, text));
        return;
    }
    if (p->live && e->step > 0) draw(p, e, true);
}

void lvn_progress_handle(void *context, const struct lvn_event *e)
{
    struct lvn_progress *p = context;
    flockfile(p->out);
    handle(p, e);
    funlockfile(p->out);
}
