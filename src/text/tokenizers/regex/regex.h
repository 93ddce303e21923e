/* regex.h - regular expressions of tokenizer files and of data.replace. Called by normalizer.c, pre_tokenizer.c and
 * data/replace.c.
 *
 * Characters (also as \x41, \u0041 and \x{1F600}), classes ([^\s\p{L}], also nested), \s \S \w \W \d \D \p{..} \P{..},
 * ^ $ ., groups (..), (?:..), (?i:..), (?>..), \1 to \9 for what a group before has matched, lookahead (?=..) (?!..),
 * alternatives, and * + ? {m,n} greedy, lazy or possessive. Matches are those of Oniguruma, which Hugging Face's
 * tokenizers uses: the leftmost one, alternatives in their order. Left out, and refused: lookbehind, named groups, \b,
 * scripts, && in classes. */
#ifndef LVN_REGEX_H
#define LVN_REGEX_H

#include "base/arena.h"

struct lvn_regex;
/* Compile an expression; allocated in the arena. LVN_UNSUPPORTED names the syntax that is left out; name: of the file.
 */
enum lvn_status lvn_regex_new(struct lvn_regex **out, struct lvn_arena *a, const char *name,
                              const char *text) LVN_CHECKED;

/* Number of its groups (..), at most LVN_REGEX_GROUPS of them. */
enum { LVN_REGEX_GROUPS = 9 };
int lvn_regex_groups(const struct lvn_regex *e);

/* The backtracking stack of one thread, and what groups matched. All zero is empty. */
struct lvn_regex_scratch {
    struct lvn_regex_state *stack;
    int64_t n;
    int64_t capacity;
    int64_t work;                        /* of all calls: characters compared and steps tried */
    int64_t place[2 * LVN_REGEX_GROUPS]; /* begin and end of group 1, of group 2 ...; -1: it is not in the match */
};
void lvn_regex_scratch_release(struct lvn_regex_scratch *s);
int64_t lvn_regex_max_work(int64_t n); /* of lvn_regex_find() in a text of n bytes */
/* Find the first match at or after `from`, the end of the previous match (-1: none, search from the beginning). A
 * match may be empty, but not at the end of the previous one. A byte that is not UTF-8 is a character that only negated
 * classes and . match. LVN_MEMORY, or LVN_FORMAT after 20,000,000 backtracking steps or lvn_regex_max_work(). */
enum lvn_status lvn_regex_find(const struct lvn_regex *e, struct lvn_regex_scratch *s, const uint8_t *p, int64_t n,
                               int64_t from, bool *found, int64_t *begin, int64_t *end) LVN_CHECKED;

#endif
