/* csv.c - the logger of metrics.csv: a row for each step and each validation, a column for each scalar.
 *
 * The file of a resumed run keeps its columns, even those of scalars that are no longer computed; new scalars get
 * columns after them, which are empty in earlier rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/callbacks/rows.h"

static const char name[] = "metrics.csv";

enum { COLUMNS = 4 * LVN_SCALARS };

struct state {
    struct lvn_rows rows;
    int column[COLUMNS], n; /* scalars of the columns after the step; -1: no longer computed */
};

/* Read the columns of an existing file; false: there is none. */
static bool read_columns(struct state *o, const struct lvn_callback_context *m, struct lvn_text *header)
{
    char path[LVN_CALLBACK_PATH_TEXT], *line = NULL, *rest, *word;
    size_t capacity = 0;
    FILE *f = m->resumed_step >= 0 ? fopen(lvn_callback_path(m, name, path), "r") : NULL;
    ssize_t n = f ? getline(&line, &capacity, f) : -1;
    if (f) fclose(f);
    bool there = n > 5 && !strncmp(line, "step,", 5) && line[n - 1] == '\n';
    if (there) {
        line[n - 1] = '\0';
        lvn_text_add(header, line);
        rest = line + 5;
        while ((word = strsep(&rest, ",")) && o->n < COLUMNS - LVN_SCALARS)
            o->column[o->n++] = lvn_event_find(&m->event, word);
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

static enum lvn_status start(struct state *o, const struct lvn_callback_context *m)
{
    LVN_LOCAL_TEXT(header);
    if (!read_columns(o, m, &header)) lvn_text_add(&header, "step");
    for (int i = 0; i < m->event.n_scalars; i++) {
        if (has_column(o, i) || m->event.scalar[i].implied) continue;
        o->column[o->n++] = i;
        lvn_text_printf(&header, ",%s", m->event.scalar[i].name);
    }
    lvn_text_add(&header, "\n");
    const char *line = lvn_text_string(&header);
    return line ? lvn_rows_open(&o->rows, m, name, line) : LVN_MEMORY;
}

static void put(struct state *o, struct lvn_callback_context *m)
{
    const struct lvn_event *e = &m->event;
    struct lvn_text *row = lvn_rows_begin(&o->rows);
    lvn_text_printf(row, "%" PRId64, e->step);
    for (int k = 0; k < o->n; k++) {
        int i = o->column[k];
        lvn_text_add(row, ",");
        if (i >= 0 && lvn_event_updates(e, i)) lvn_rows_number(row, e->scalar[i].value);
    }
    lvn_rows_end(&o->rows, m);
}

static enum lvn_status call(void *state, struct lvn_callback_context *m)
{
    struct state *o = state;
    if (m->event.kind == LVN_EVENT_START) return lvn_ranks_agree(m->ranks, m->dir ? start(o, m) : LVN_OK);
    if (m->dir && lvn_event_updates_any(&m->event)) put(o, m);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_csv = {.name = "csv",
                                              .bytes = sizeof(struct state),
                                              .output = name,
                                              .call = call,
                                              .flush = lvn_rows_flush,
                                              .close = lvn_rows_close};
