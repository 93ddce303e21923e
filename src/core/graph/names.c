/* names.c - patterns that match parameter names; see names.h. */
#include "graph/names.h"

#include "base/text.h"

/* Does the pattern match the start of the text, up to a dot or the end? On a mismatch the last `*` is extended by one
 * character. Earlier ones need no retry, since the last `*` can match whatever they could. */
static bool fits(const struct lvn_pattern *p, const char *text)
{
    int i = 0, star = -1;
    const char *after = text; /* end of the characters matched by the last star */
    for (;;) {
        if (i < p->n && p->text[i] == '*') {
            star = i++;
            after = text;
        } else if (i < p->n && *text && (p->text[i] == '?' || p->text[i] == *text)) {
            i++;
            text++;
        } else if (i == p->n && (!*text || *text == '.')) {
            return true;
        } else if (star >= 0 && *after) {
            text = ++after;
            i = star + 1;
        } else {
            return false;
        }
    }
}

bool lvn_pattern_fits(const struct lvn_pattern *p, const char *name)
{
    for (; name; name = strchr(name, '.')) {
        if (*name == '.') name++;
        if (fits(p, name)) return true;
    }
    return false;
}

bool lvn_pattern_next(const char **list, struct lvn_pattern *p)
{
    *list += strspn(*list, " ,\t");
    *p = (struct lvn_pattern){*list, (int)strcspn(*list, " ,\t")};
    *list += p->n;
    return p->n > 0;
}

bool lvn_names_match(const char *list, const char *name)
{
    struct lvn_pattern p;
    while (lvn_pattern_next(&list, &p))
        if (lvn_pattern_fits(&p, name)) return true;
    return false;
}

void lvn_pattern_nearest(const struct lvn_pattern *p, const struct lvn_params *params, char word[LVN_WORD_TEXT])
{
    int best = 3;
    char wrong[LVN_WORD_TEXT], one[LVN_WORD_TEXT];
    snprintf(wrong, sizeof wrong, "%.*s", p->n, p->text);
    word[0] = '\0';
    for (int i = 0; i < params->n; i++)
        for (const char *at = params->list[i]->name; at; at = strchr(at, '.')) {
            if (*at == '.') at++;
            snprintf(one, sizeof one, "%.*s", (int)strcspn(at, "."), at);
            int distance = lvn_edit_distance(one, wrong);
            if (distance >= best) continue;
            best = distance;
            memcpy(word, one, sizeof one);
        }
}

enum lvn_status lvn_pattern_refuse(const struct lvn_pattern *one, const struct lvn_params *p, const char *key)
{
    char near[LVN_WORD_TEXT];
    lvn_pattern_nearest(one, p, near);
    LVN_FAIL(ARG, "%s: '%.*s' matches no parameter; parameters have names such as %s%s%s%s", key, one->n, one->text,
             p->n ? p->list[0]->name : "", *near ? "; did you mean '" : "", near, *near ? "'?" : "");
}

enum lvn_status lvn_params_freeze(struct lvn_params *p, const char *key, const char *list)
{
    const char *rest = list;
    struct lvn_pattern one;
    while (lvn_pattern_next(&rest, &one)) {
        int found = 0;
        for (int i = 0; i < p->n; i++) {
            if (!lvn_pattern_fits(&one, p->list[i]->name)) continue;
            p->list[i]->trainable = false;
            found++;
        }
        if (!found) return lvn_pattern_refuse(&one, p, key);
    }
    for (int i = 0; i < p->n; i++)
        if (p->list[i]->trainable) return LVN_OK;
    LVN_FAIL(ARG, "%s: '%s' freezes all parameters, so none is left to train", key, list);
}
