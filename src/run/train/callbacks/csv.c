/* csv.c - the logger of metrics.csv: a row for each step and each validation, a column for each scalar.
 *
 * The file of a resumed run keeps its columns, even those of scalars that are no longer computed; new scalars get
 * columns after them, which are empty in earlier rows. An undefined value (NaN) is empty too. */

#include "train/callbacks/rows.h"

static const char name[] = "metrics.csv";

enum { COLUMNS = 4 * LVN_SCALARS };

struct state {
    struct lvn_rows rows;
    int column[COLUMNS]; /* [n] scalars of the columns after the step; -1: no longer computed */
    int n;
    bool is_full;           /* the file has more than n columns, so none can be added after these */
    int n_scalars;          /* number that have columns */
    struct lvn_text header; /* without its newline */
};

/* Read the columns of an existing file; false: no such file. */
static bool read_columns(struct state *o, const struct lvn_callback_context *context, struct lvn_text *header)
{
    char path[LVN_CALLBACK_PATH_TEXT], *line = NULL, *rest, *word;
    size_t capacity = 0;
    FILE *f = context->resumed_step >= 0 ? fopen(lvn_callback_path(context, name, path), "r") : NULL;
    ssize_t n = f ? getline(&line, &capacity, f) : -1;
    if (f) fclose(f);
    bool there = n > 5 && !strncmp(line, "step,", 5) && line[n - 1] == '\n';
    if (there) {
        line[n - 1] = '\0';
        lvn_text_add(header, line);
        rest = line + 5;
        while (o->n < COLUMNS - LVN_SCALARS && (word = strsep(&rest, ",")))
            o->column[o->n++] = lvn_event_find(&context->event, word);
        o->is_full = rest != NULL;
    }
    free(line);
    return there;
}

static bool has_column(const struct state *o, int scalar)
{
    for (int k = 0; k < o->n; k++) {
        if (o->column[k] == scalar) return true;
    }
    return false;
}

/* Columns for the scalars that have none. Returns the header as a line; NULL: out of memory. */
static const char *add_columns(struct state *o, const struct lvn_callback_context *context, struct lvn_text *line)
{
    for (int i = 0; i < context->event.n_scalars; i++) {
        if (has_column(o, i) || (context->event.scalar[i].implied && context->event.scalar[i].kind != LVN_EVENT_LOG))
            continue;
        if (o->n == COLUMNS || o->is_full) break;
        o->column[o->n++] = i;
        lvn_text_printf(&o->header, ",%s", context->event.scalar[i].name);
    }
    o->n_scalars = context->event.n_scalars;
    if (!lvn_text_string(&o->header)) return NULL;
    lvn_text_add(line, o->header.p);
    lvn_text_add(line, "\n");
    return lvn_text_string(line);
}

static enum lvn_status start(struct state *o, const struct lvn_callback_context *context)
{
    LVN_LOCAL_TEXT(header);
    if (!read_columns(o, context, &o->header)) lvn_text_add(&o->header, "step");
    const char *line = add_columns(o, context, &header);
    return line ? lvn_rows_open(&o->rows, context, name, line) : LVN_MEMORY;
}

/* The program logs a scalar for the first time. It uses an existing column of that name from before a resume. */
static void extend(struct state *o, struct lvn_callback_context *context)
{
    LVN_LOCAL_TEXT(header);
    char *names = lvn_text_string(&o->header) ? strdup(o->header.p) : NULL, *rest = names, *word;
    for (int k = -1; names && (word = strsep(&rest, ",")) && k < o->n; k++)
        if (k >= 0 && o->column[k] < 0) o->column[k] = lvn_event_find(&context->event, word);
    free(names);
    const char *line = add_columns(o, context, &header);
    if (line) lvn_rows_set_header(&o->rows, context, line);
}

static void put(struct state *o, struct lvn_callback_context *context)
{
    const struct lvn_event *e = &context->event;
    if (e->n_scalars > o->n_scalars) extend(o, context);
    struct lvn_text *row = lvn_rows_begin(&o->rows);
    lvn_text_printf(row, "%" PRId64, e->step);
    for (int k = 0; k < o->n; k++) {
        int i = o->column[k];
        lvn_text_add(row, ",");
        if (i >= 0 && lvn_event_updates(e, i) && !isnan(e->scalar[i].value)) lvn_rows_number(row, e->scalar[i].value);
    }
    lvn_rows_end(&o->rows, context);
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    if (context->event.kind == LVN_EVENT_START)
        return lvn_ranks_agree(context->ranks, context->dir ? start(o, context) : LVN_OK);
    if (context->dir && lvn_event_updates_any(&context->event)) put(o, context);
    return LVN_OK;
}

static void close_it(void *state)
{
    lvn_text_release(&((struct state *)state)->header);
    lvn_rows_close(state);
}

const struct lvn_callback lvn_callback_csv = {.name = "csv",
                                              .bytes = sizeof(struct state),
                                              .output = name,
                                              .call = call,
                                              .flush = lvn_rows_flush,
                                              .close = close_it};
