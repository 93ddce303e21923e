/* names.h - select parameters by patterns that match their names, as in model.freeze.
 *
 * A list of patterns is separated by commas or blanks: "wte, h.0.*, ln_f". A pattern matches consecutive parts of a
 * dotted name: `wte` matches transformer.wte.weight; `h.1` matches the whole second block and nothing of the eleventh.
 * `*` matches any characters, dots included, and `?` matches one. */
#ifndef LVN_NAMES_H
#define LVN_NAMES_H

#include "graph/graph.h"

/* One pattern of a list. */
struct lvn_pattern {
    const char *text; /* part of the list, not NUL-terminated */
    int n;            /* bytes */
};
/* Read the next pattern of *list and advance *list past it; false: no more patterns. */
bool lvn_pattern_next(const char **list, struct lvn_pattern *p);
/* Does the pattern match the parameter's name? */
bool lvn_pattern_fits(const struct lvn_pattern *p, const char *name);
enum { LVN_WORD_TEXT = 64 };
/* For "did you mean": copy the component of a parameter's name with the smallest edit distance to the pattern, at most
 * 2, to `word`; "" if there is none. */
void lvn_pattern_nearest(const struct lvn_pattern *p, const struct lvn_params *params, char word[LVN_WORD_TEXT]);
/* Always returns ARG: the pattern matches no parameter. `key`: the recipe key that contains it. */
enum lvn_status lvn_pattern_refuse(const struct lvn_pattern *p, const struct lvn_params *params,
                                   const char *key) LVN_CHECKED;
/* Does any pattern of the list match the name? */
bool lvn_names_match(const char *list, const char *name);
/* Freeze the parameters that the list matches; call this before lvn_params_layout(). `key`: the recipe key, for
 * messages. ARG: a pattern matches no parameter, or all parameters are frozen. */
enum lvn_status lvn_params_freeze(struct lvn_params *p, const char *key, const char *list) LVN_CHECKED;

#endif
