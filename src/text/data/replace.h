/* replace.h - data.replace: what is replaced in a text before it is cut into tokens. Called by labelled.c, and by
 * settings to refuse what cannot be meant before anything is opened. */
#ifndef LVN_REPLACE_H
#define LVN_REPLACE_H

#include "base/text.h"

/* Compiled expressions and the buffers of one thread. */
struct lvn_replace;

/* Read the option's text, [{pattern: EXPRESSION, with: TEXT}, ...]; *out is NULL if it is empty. ARG, with the number
 * of the entry: an unknown key, no pattern, an expression that is not supported (tokenizers/regex/regex.h), a \1 to \9
 * in `with` to which no group of the pattern belongs. */
enum lvn_status lvn_replace_new(struct lvn_replace **out, const char *text) LVN_CHECKED;
void lvn_replace_free(struct lvn_replace *r); /* NULL: nothing */

/* All replacements, one after the other, each of every match in what the one before has left. `out` is cleared first;
 * an empty text has memory, too. FORMAT, with the number of the entry, if an expression takes too long. */
enum lvn_status lvn_replace_run(struct lvn_replace *r, const char *text, int64_t bytes,
                                struct lvn_text *out) LVN_CHECKED;

#endif
