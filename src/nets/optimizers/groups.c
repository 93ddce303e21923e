/* groups.c - see groups.h. */
#include "optimizers/groups.h"

#include <stdlib.h>
#include <string.h>

#include "formats/yaml.h"
#include "graph/names.h"

static const char key[] = "optimizer.groups";
static const double max = 1e6; /* as of optimizer.lr and optimizer.weight_decay */

static enum lvn_status read_number(const struct lvn_yaml *y, int n, double *out)
{
    char *end;
    *out = strtod(y->text, &end);
    LVN_CHECK(end != y->text && !*end && *out >= 0 && *out <= max, ARG,
              "%s, entry %d: %s must be a number between 0 and %.0f, got '%.60s'", key, n, y->key, max, y->text);
    return LVN_OK;
}

static enum lvn_status read_group(const struct lvn_yaml *map, int n, struct lvn_optimizer_group *g)
{
    *g = (struct lvn_optimizer_group){NULL, -1, -1};
    for (const struct lvn_yaml *y = map->child; y; y = y->next) {
        if (!strcmp(y->key, "match"))
            g->match = y->text;
        else if (!strcmp(y->key, "lr"))
            LVN_TRY(read_number(y, n, &g->lr));
        else if (!strcmp(y->key, "weight_decay"))
            LVN_TRY(read_number(y, n, &g->weight_decay));
        else
            LVN_FAIL(ARG, "%s, entry %d: unknown key '%s'; there are match, lr and weight_decay", key, n, y->key);
    }
    LVN_CHECK(g->match && g->match[strspn(g->match, " ,")], ARG,
              "%s, entry %d: match is missing; give patterns of names, as {match: 'wte, h.0', lr: 1e-4}", key, n);
    LVN_CHECK(g->lr >= 0 || g->weight_decay >= 0, ARG, "%s, entry %d (%s): give lr, weight_decay or both", key, n,
              g->match);
    return LVN_OK;
}

enum lvn_status lvn_optimizer_groups_read(struct lvn_optimizer_groups *out, struct lvn_arena *a, const char *text)
{
    const struct lvn_yaml *list;
    *out = (struct lvn_optimizer_groups){0};
    if (!*text) return LVN_OK;
    LVN_TRY(lvn_yaml_value(a, key, text, &list));
    out->list = lvn_arena_alloc(a, sizeof *out->list * (size_t)(list->n + 1));
    if (!out->list) return LVN_MEMORY;
    for (const struct lvn_yaml *y = list->child; y; y = y->next) {
        out->n++;
        LVN_TRY(read_group(y, out->n, &out->list[out->n - 1]));
    }
    return LVN_OK;
}

/* Give the parameters that one pattern matches to group n, counted from 1. owner: [p->n] groups; 0: none yet. */
static enum lvn_status give(struct lvn_params *p, const struct lvn_pattern *pattern,
                            const struct lvn_optimizer_group *g, int n, double lr, int *owner)
{
    int found = 0, trained = 0;
    for (int i = 0; i < p->n; i++) {
        struct lvn_param *q = p->list[i];
        if (!lvn_pattern_fits(pattern, q->name)) continue;
        found++;
        if (!q->trainable) continue;
        trained++;
        LVN_CHECK(!owner[i] || owner[i] == n, ARG,
                  "%s: entries %d and %d both match '%s': which of them is meant? Make their patterns exclude one "
                  "another",
                  key, owner[i], n, q->name);
        owner[i] = n;
        if (g->lr >= 0) q->lr_scale = g->lr / lr;
        if (g->weight_decay >= 0) q->weight_decay = g->weight_decay;
    }
    if (!found) return lvn_pattern_refuse(pattern, p, key);
    LVN_CHECK(trained, ARG, "%s, entry %d: '%.*s' matches only parameters that are not trained: leave it out", key, n,
              pattern->n, pattern->text);
    return LVN_OK;
}

enum lvn_status lvn_optimizer_groups_apply(const char *text, double lr, struct lvn_params *p)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_optimizer_groups groups;
    LVN_TRY(lvn_optimizer_groups_read(&groups, &a, text));
    if (!groups.n) return LVN_OK;
    int *owner = lvn_arena_alloc(&a, sizeof *owner * (size_t)(p->n + 1));
    if (!owner) return LVN_MEMORY;
    for (int i = 0; i < p->n; i++) owner[i] = 0;
    for (int n = 0; n < groups.n; n++) {
        const struct lvn_optimizer_group *g = &groups.list[n];
        const char *rest = g->match;
        LVN_CHECK(g->lr < 0 || lr > 0, ARG,
                  "%s sets its own learning rate (%g), which follows the schedule in proportion to optimizer.lr, but "
                  "optimizer.lr is 0; set optimizer.lr",
                  key, g->lr);
        for (struct lvn_pattern one; lvn_pattern_next(&rest, &one);) LVN_TRY(give(p, &one, g, n + 1, lr, owner));
    }
    return LVN_OK;
}
