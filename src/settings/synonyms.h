/* synonyms.h - what levin calls the options of other programs: learning_rate is optimizer.lr (synonyms.def). */
#ifndef LVN_TRAIN_SYNONYMS_H
#define LVN_TRAIN_SYNONYMS_H

#include <stdbool.h>

struct lvn_synonym {
    const char *word;   /* the other programs' word, with _ for - */
    const char *target; /* levin's: "optimizer.lr", "trainer.precision=16-mixed", "--resume"; "": it has none */
    const char *note;   /* how levin's differs, or why there is none; "": nothing to add */
};
extern const struct lvn_synonym lvn_synonyms[]; /* ended by a NULL word */

/* Is this its word? - and _ are the same, and so are small and capital letters. */
bool lvn_synonym_is(const struct lvn_synonym *s, const char *word);

/* Does the command that runs have this flag ("--resume", "-n")? */
typedef bool (*lvn_has_flag)(const void *command, const char *flag);

/* What levin calls `key`, of which the last word counts (trainer.learning_rate). A flag that has_flag() finds comes
 * first, then a key, then the reason why there is none. has_flag NULL: in a recipe, where a flag of commands is the
 * last resort. NULL: no other program's word. */
const struct lvn_synonym *lvn_synonym_find(const char *key, lvn_has_flag has_flag, const void *command);

/* The rest of a sentence: "levin calls it --optimizer.lr", or the reason why there is none. `dashes`: as the command
 * line writes keys. Returns text. */
enum { LVN_SYNONYM_TEXT = 240 };
const char *lvn_synonym_text(const struct lvn_synonym *s, bool dashes, char text[LVN_SYNONYM_TEXT]);

#endif
