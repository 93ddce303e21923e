/* names.c - see names.h. */
#include "graph/names.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { LONGEST = 100 }; /* of a pattern */

/* Does the pattern fit the start of the text, up to a dot or its end? */
static bool fits(const char *pattern, const char *text)
{
    for (; *pattern; pattern++, text++) {
        if (*pattern == '*') {
            while (pattern[1] == '*') pattern++;
            for (;; text++) {
                if (fits(pattern + 1, text)) return true;
                if (!*text) return false;
            }
        }
        if (!*text || (*pattern != '?' && *pattern != *text)) return false;
    }
    return !*text || *text == '.';
}

static bool fits_somewhere(const char *pattern, const char *name)
{
    for (; name; name = strchr(name, '.')) {
        if (*name == '.') name++;
        if (fits(pattern, name)) return true;
    }
    return false;
}

/* The next pattern of a list; false: there are no more. Patterns that are too long are cut, and fit nothing. */
static bool next(const char **list, char pattern[LONGEST])
{
    *list += strspn(*list, " ,\t");
    size_t n = strcspn(*list, " ,\t");
    snprintf(pattern, LONGEST, "%.*s", (int)n, *list);
    *list += n;
    return n > 0;
}

bool lvn_names_match(const char *list, const char *name)
{
    char pattern[LONGEST];
    while (next(&list, pattern))
        if (fits_somewhere(pattern, name)) return true;
    return false;
}

/* The part of a name that a pattern was perhaps meant to be; NULL. */
static const char *nearest(const struct lvn_params *p, const char *pattern, char part[LONGEST])
{
    int best = 3;
    part[0] = '\0';
    for (int i = 0; i < p->n; i++)
        for (const char *at = p->list[i]->name; at; at = strchr(at, '.')) {
            char one[LONGEST];
            if (*at == '.') at++;
            snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "."), at);
            int distance = lvn_edit_distance(one, pattern);
            if (distance >= best) continue;
            best = distance;
            memcpy(part, one, sizeof one);
        }
    return *part ? part : NULL;
}

enum lvn_status lvn_params_freeze(struct lvn_params *p, const char *key, const char *list)
{
    char pattern[LONGEST], part[LONGEST];
    const char *rest = list;
    while (next(&rest, pattern)) {
        int found = 0;
        for (int i = 0; i < p->n; i++) {
            if (!fits_somewhere(pattern, p->list[i]->name)) continue;
            p->list[i]->trainable = false;
            found++;
        }
        const char *near = found ? NULL : nearest(p, pattern, part);
        LVN_CHECK(found, ARG, "%s: '%s' is the name of no parameter; names are as %s%s%s%s", key, pattern,
                  p->n ? p->list[0]->name : "", near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    for (int i = 0; i < p->n; i++)
        if (p->list[i]->trainable) return LVN_OK;
    LVN_FAIL(ARG, "%s: '%s' freezes all parameters, and nothing is left to train", key, list);
}
