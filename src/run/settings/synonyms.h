/* synonyms.h - levin's names for the options of other programs: learning_rate is optimizer.lr (synonyms.def).
 *
 * Messages about unknown keys and flags use it; nothing is renamed silently. */
#ifndef LVN_SYNONYMS_H
#define LVN_SYNONYMS_H

#include <stdbool.h>

struct lvn_synonym {
    const char *word;   /* the other programs' name, with _ for - */
    const char *target; /* levin's name: "optimizer.lr", "trainer.precision=16-mixed", "--resume"; "": none */
    const char *note;   /* how levin's option differs, or why there is none; "": nothing to add */
};
extern const struct lvn_synonym lvn_synonyms[]; /* ended by a NULL word */

/* Does `word` equal s->word? - equals _, and case is ignored. */
bool lvn_synonym_is(const struct lvn_synonym *s, const char *word);

/* Has the current command this flag ("--resume", "-n")? */
typedef bool (*lvn_has_flag)(const void *command, const char *flag);

/* The synonym for the last word of `key` (trainer.learning_rate): first a flag for which has_flag() is true, then a
 * key, then the reason why levin has none. has_flag NULL: for recipes, in which a command's flag is the last choice.
 * Returns NULL if no other program uses the word. */
const struct lvn_synonym *lvn_synonym_find(const char *key, lvn_has_flag has_flag, const void *command);

/* The rest of a sentence: "levin calls it --optimizer.lr", or the reason why levin has none. `dashes`: keys as on the
 * command line. Returns `text`. */
enum { LVN_SYNONYM_TEXT = 240 };
const char *lvn_synonym_text(const struct lvn_synonym *s, bool dashes, char text[LVN_SYNONYM_TEXT]);

#endif
