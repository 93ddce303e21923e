/* process.h - other programs: found, run to their end, and what they said. */
#ifndef LVN_PROCESS_H
#define LVN_PROCESS_H

#include "base/arena.h"
#include "base/text.h"

/* Words of a command line, grown one by one; all zero is an empty one. Words live in the arena. Adding never fails: ask
 * lvn_words_status() in the end. `word` is NULL, or ends with a NULL. */
struct lvn_words {
    struct lvn_arena *arena;
    char **word;
    int n, capacity;
    bool failed;
};
void lvn_words_add(struct lvn_words *w, const char *format, ...) LVN_PRINTF(2, 3);
enum lvn_status lvn_words_status(const struct lvn_words *w) LVN_CHECKED;
/* The line as a shell would take it: words with odd letters are quoted. */
void lvn_words_text(const struct lvn_words *w, struct lvn_text *t);

/* The full path of a program in PATH, or of a path itself, in the arena; NULL: there is none. */
char *lvn_process_find(struct lvn_arena *a, const char *name);

/* Run words[0] and wait, at most `seconds` (it is killed then). What it writes to stdout and stderr is added to `said`
 * (NULL: lost). The exit code; 128 + a signal's number; -1: it did not start; -2: it took too long. */
int lvn_process_run(char *const *words, double seconds, struct lvn_text *said);

#endif
