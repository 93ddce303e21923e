/* synonyms.c - see synonyms.h: the table of synonyms.def, and finding a word in it. */
#include "settings/synonyms.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const struct lvn_synonym lvn_synonyms[] = {
#define LVN_SYNONYM(word_, target_, note_) {.word = word_, .target = target_, .note = note_},
#include "settings/synonyms.def"
    {.word = NULL},
};

bool lvn_synonym_is(const struct lvn_synonym *s, const char *word)
{
    const char *a = s->word, *b = word;
    for (; *a && *b; a++, b++) {
        int x = *a == '-' ? '_' : tolower((unsigned char)*a), y = *b == '-' ? '_' : tolower((unsigned char)*b);
        if (x != y) return false;
    }
    return *a == *b;
}

const struct lvn_synonym *lvn_synonym_find(const char *key, lvn_has_flag has_flag, const void *command)
{
    const struct lvn_synonym *found = NULL, *flag = NULL;
    const char *dot = strrchr(key, '.'), *word = dot ? dot + 1 : key;
    for (const struct lvn_synonym *s = lvn_synonyms; s->word; s++) {
        if (!lvn_synonym_is(s, word)) continue;
        if (*s->target != '-') {
            found = found ? found : s;
        } else if (!has_flag) {
            flag = flag ? flag : s;
        } else if (has_flag(command, s->target)) {
            return s;
        }
    }
    return found ? found : flag;
}

const char *lvn_synonym_text(const struct lvn_synonym *s, bool dashes, char text[LVN_SYNONYM_TEXT])
{
    const char *before = *s->target == '-' || !dashes ? "" : "--", *equals = strchr(s->target, '=');
    int n = equals && !dashes ? (int)(equals - s->target) : (int)strlen(s->target);
    if (!*s->target) {
        snprintf(text, LVN_SYNONYM_TEXT, "%s", s->note);
        return text;
    }
    snprintf(text, LVN_SYNONYM_TEXT, "levin calls it %s%.*s%s%s%s%s", before, n, s->target,
             equals && !dashes ? ": " : "", equals && !dashes ? equals + 1 : "", *s->note ? "; " : "", s->note);
    return text;
}
