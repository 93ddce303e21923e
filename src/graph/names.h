/* names.h - parameters chosen by patterns over their names.
 *
 * A list is written "wte, h.0.*, ln_f". A pattern is some neighbouring parts of a name: it begins at a dot or at the
 * start, and ends at a dot or at the end, so that `wte` is transformer.wte.weight, and `h.1` is all of the second block
 * and nothing of the eleventh. `*` stands for any characters, dots too, and `?` for one. */
#ifndef LVN_NAMES_H
#define LVN_NAMES_H

#include "graph/graph.h"

/* One pattern of a list, within its text. */
struct lvn_pattern {
    const char *text;
    int n;
};
/* The next one of *list, which moves on; false: there are no more. */
bool lvn_pattern_next(const char **list, struct lvn_pattern *p);
bool lvn_pattern_fits(const struct lvn_pattern *p, const char *name);
/* The word in the names of all parameters that the pattern was perhaps meant to be, in `word`; "" when none is near.
 */
enum { LVN_WORD_TEXT = 64 };
void lvn_pattern_nearest(const struct lvn_pattern *p, const struct lvn_params *params, char word[LVN_WORD_TEXT]);
/* Does any pattern of the list fit the name? */
bool lvn_names_match(const char *list, const char *name);
/* Freeze the parameters that the list names: call it before lvn_params_layout(). ARG, naming `key`, for a pattern that
 * fits none, or when nothing is left to train. */
enum lvn_status lvn_params_freeze(struct lvn_params *p, const char *key, const char *list) LVN_CHECKED;

#endif
