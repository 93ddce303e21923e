/* process.h - other programs: command lines, finding a program, running it to its end for its output; and this process
 * as process 1 of a container. launch and requeue.c call it. Programs that run beside this one are started by
 * launch_attempt.c and ranks_launcher.c. */
#ifndef LVN_PROCESS_H
#define LVN_PROCESS_H

#include "base/arena.h"
#include "base/text.h"

/* Words of a command line. With `arena` set and all else zero it is empty. */
struct lvn_words {
    struct lvn_arena *arena; /* of the words */
    char **word;             /* NULL-terminated; NULL: no words */
    int n;                   /* number of words */
    int64_t capacity;
    bool failed; /* a word is missing, for lack of memory */
};
/* Add a word. If memory is out, lvn_words_status() reports it after the last word. */
void lvn_words_add(struct lvn_words *w, const char *format, ...) LVN_PRINTF(2, 3);
/* MEMORY if a word is missing. */
enum lvn_status lvn_words_status(const struct lvn_words *w) LVN_CHECKED;
/* The line as a shell reads it: words with special characters are quoted. */
void lvn_words_text(const struct lvn_words *w, struct lvn_text *t);
/* One word as a shell reads it, in the arena; NULL: no memory. */
const char *lvn_word_quoted(struct lvn_arena *a, const char *word);

/* The path of the program `name`, searched in PATH unless it has a slash; in the arena; NULL: there is no such program.
 */
char *lvn_process_find(struct lvn_arena *a, const char *name);

/* Run words[0] and wait at most `seconds`, after which it is killed. Its stdout and stderr are appended to `output`
 * (NULL: dropped). Returns the exit code; 128 + the number of the signal that killed it; -1: it did not start; -2:
 * timeout. */
int lvn_process_run(char *const *words, double seconds, struct lvn_text *output);

/* Create n pipes, which are closed by exec; after an error none is open. */
enum lvn_status lvn_process_pipes(int pipes[][2], int n) LVN_CHECKED;

/* For main(), as its first call. Returns false in a process other than number 1 of its process namespace (a container
 * has its own). In process 1: start a child that continues as this program, in which the function returns false;
 * forward signals to it, reap orphans, and return true when it has ended, with its exit code in *code (128 + the number
 * of the signal that killed it; 1 if it cannot be started; both with a sentence on stderr). */
bool lvn_process_as_init(int *code);

#endif
