/* regex.h - regular expressions, as tokenizer files write them.
 *
 * Characters, classes ([^\s\p{L}], also within each other), \s \S \w \W \d \D \p{..} \P{..}, ^ $ ., groups (?:..),
 * (?i:..), (?>..), lookahead (?=..) (?!..), alternatives, and * + ? {m,n} greedy, lazy or possessive. Matches are those
 * of Oniguruma, which Hugging Face's tokenizers uses: the leftmost, alternatives in their order. What is left out
 * (lookbehind, references, scripts, && in classes) is refused. */
#ifndef LVN_REGEX_H
#define LVN_REGEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct lvn_regex;
/* In the arena. LVN_UNSUPPORTED says what of the expression is not there; `name` is the file's. */
enum lvn_status lvn_regex_new(struct lvn_regex **out, struct lvn_arena *a, const char *name,
                              const char *text) LVN_CHECKED;

/* Places to come back to, of one thread. All zero is empty. */
struct lvn_regex_scratch {
    struct lvn_regex_place *place;
    int64_t n, capacity;
};
void lvn_regex_scratch_release(struct lvn_regex_scratch *s);
/* The first match at or after `from`, where the last one ended (-1: there was none, search all): it may be empty, but
 * not where the last one ended. Bytes that are not UTF-8 are characters that only negated classes and . match.
 * LVN_MEMORY, or LVN_FORMAT where the expression tries for too long. */
enum lvn_status lvn_regex_find(const struct lvn_regex *e, struct lvn_regex_scratch *s, const uint8_t *p, int64_t n,
                               int64_t from, bool *found, int64_t *begin, int64_t *end) LVN_CHECKED;

#endif
