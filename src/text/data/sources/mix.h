/* mix.h - data.mix: rows from several sources in exact proportions.
 *
 * Which source a row of the run comes from, and how many of its rows came before, are functions of the row's number
 * alone, so a resumed run needs no further state and ranks need no messages. After any number of rows each source has
 * supplied its share of them, with an error below one row. Called by dataset.c, which opens the sources, and by
 * loader.c, which draws from each in its own order. */
#ifndef LVN_MIX_H
#define LVN_MIX_H

#include "base/arena.h"

enum { LVN_MIX_SOURCES = 255, LVN_MIX_PERIOD = 1 << 20 };

struct lvn_dataset;
struct lvn_mix {
    struct lvn_arena arena;
    int n;
    const char *path[LVN_MIX_SOURCES];
    int64_t weight[LVN_MIX_SOURCES];           /* whole numbers without a common divisor */
    int64_t period;                            /* their sum: after this many rows the sources repeat */
    uint8_t *source;                           /* [period] of each row */
    uint32_t *before;                          /* [period] rows of that source before it in the period */
    struct lvn_dataset *data[LVN_MIX_SOURCES]; /* the first one is the data set that has the mix */
};

/* Read the option's text, [{path: PATH, weight: NUMBER}, ...]. ARG, with the number of the entry: a key that is
 * unknown or missing, a weight that is no positive number or has more than six digits after the decimal point, more
 * than LVN_MIX_SOURCES entries or a period above LVN_MIX_PERIOD. */
enum lvn_status lvn_mix_new(struct lvn_mix **out, const char *text) LVN_CHECKED;
void lvn_mix_free(struct lvn_mix *m); /* does not close the data sets; NULL: nothing */
/* Of row 0, 1, ... of a run: its source, and the number of rows of that source before it. */
void lvn_mix_row(const struct lvn_mix *m, int64_t row, int *source, int64_t *before);
/* How many of the first `rows` rows come from a source. */
int64_t lvn_mix_rows(const struct lvn_mix *m, int source, int64_t rows);
/* Path of a source in the arena, in `folder` (data.folder) if it is only there. */
const char *lvn_mix_path(struct lvn_arena *a, const struct lvn_mix *m, int source, const char *folder);
/* Do all sources exist on this machine? False too if the text has an error. */
bool lvn_mix_is_here(const char *text, const char *folder);

#endif
