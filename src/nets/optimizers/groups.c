/* groups.c - see groups.h. */
#include "optimizers/groups.h"

#include "formats/yaml.h"
#include "graph/names.h"
#include "optimizers/optimizer.h"

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

static enum lvn_status read_betas(const struct lvn_yaml *y, int n, double betas[2])
{
    char *end = NULL;
    bool good = true;
    const char *text = y->text;
    for (int k = 0; good && k < 2; k++) {
        betas[k] = strtod(text, &end);
        end += strspn(end, " ");
        good = end != text && *end == (k ? '\0' : ',') && betas[k] >= 0 && betas[k] < 1;
        text = end + 1;
    }
    LVN_CHECK(good, ARG, "%s, entry %d: betas must be two numbers from 0 to below 1, as [0.8, 0.95], got '%.60s'", key,
              n, y->text);
    return LVN_OK;
}

static enum lvn_status read_kind(const struct lvn_yaml *y, int n, const char *kind, const char *elements,
                                 const char **out)
{
    const bool known = strcmp(y->text, kind) == 0 || (elements && strcmp(y->text, elements) == 0);
    LVN_CHECK(known, ARG, "%s, entry %d: kind is '%.60s', and with optimizer.kind %s it may be %s%s%s", key, n, y->text,
              kind, kind, elements ? " or " : " alone", elements ? elements : "");
    *out = y->text;
    return LVN_OK;
}

static enum lvn_status read_group(const struct lvn_yaml *map, int n, const char *kind, const char *elements,
                                  struct lvn_optimizer_group *g)
{
    *g = (struct lvn_optimizer_group){.lr = -1, .weight_decay = -1, .betas = {-1, -1}};
    for (const struct lvn_yaml *y = map->child; y; y = y->next) {
        if (!strcmp(y->key, "match"))
            g->match = y->text;
        else if (!strcmp(y->key, "lr"))
            LVN_TRY(read_number(y, n, &g->lr));
        else if (!strcmp(y->key, "weight_decay"))
            LVN_TRY(read_number(y, n, &g->weight_decay));
        else if (!strcmp(y->key, "betas"))
            LVN_TRY(read_betas(y, n, g->betas));
        else if (!strcmp(y->key, "kind"))
            LVN_TRY(read_kind(y, n, kind, elements, &g->kind));
        else
            LVN_FAIL(ARG, "%s, entry %d: unknown key '%s'; there are match, lr, weight_decay, betas and kind", key, n,
                     y->key);
    }
    LVN_CHECK(g->match && g->match[strspn(g->match, " ,")], ARG,
              "%s, entry %d: match is missing; give patterns of names, as {match: 'wte, h.0', lr: 1e-4}", key, n);
    LVN_CHECK(g->lr >= 0 || g->weight_decay >= 0 || g->betas[0] >= 0 || g->kind, ARG,
              "%s, entry %d (%s): give lr, weight_decay, betas or kind", key, n, g->match);
    return LVN_OK;
}

enum lvn_status lvn_optimizer_groups_read(struct lvn_optimizer_groups *out, struct lvn_arena *a, const char *text,
                                          const char *kind, const char *elements)
{
    const struct lvn_yaml *list;
    *out = (struct lvn_optimizer_groups){0};
    if (!*text) return LVN_OK;
    LVN_TRY(lvn_yaml_value(a, key, text, &list));
    out->list = lvn_arena_alloc(a, sizeof *out->list * (size_t)(list->n + 1));
    if (!out->list) return LVN_MEMORY;
    for (const struct lvn_yaml *y = list->child; y; y = y->next) {
        out->n++;
        LVN_TRY(read_group(y, out->n, kind, elements, &out->list[out->n - 1]));
    }
    return LVN_OK;
}

/* Set the parameter's rule. matrices: optimizer.kind, if it updates matrices of blocks as a whole, else NULL. */
static enum lvn_status set_rule(struct lvn_param *q, const struct lvn_optimizer_group *g, int n, double lr,
                                const char *matrices)
{
    struct lvn_update_rule *rule = &q->rule;
    if (g->lr >= 0) rule->lr_scale = g->lr / lr;
    if (g->weight_decay >= 0) rule->weight_decay = g->weight_decay;
    if (g->betas[0] >= 0) memcpy(rule->betas, g->betas, sizeof rule->betas);
    if (!matrices) return LVN_OK;
    const bool is_matrix = lvn_param_is_block_matrix(q), whole = g->kind && strcmp(g->kind, matrices) == 0;
    LVN_CHECK(!whole || is_matrix, ARG,
              "%s, entry %d: kind is %s, which updates weight matrices of a model's blocks, and '%s' is none: leave it "
              "out",
              key, n, matrices, q->name);
    rule->elementwise = g->kind && !whole && is_matrix;
    LVN_CHECK(
        g->betas[0] < 0 || !lvn_param_is_block_matrix(q), ARG,
        "%s, entry %d: '%s' is a matrix that %s updates, whose decay rate is optimizer.momentum: leave betas out, "
        "or give kind",
        key, n, q->name, matrices);
    return LVN_OK;
}

/* Give the parameters that one pattern matches to group n, counted from 1. owner: [p->n] groups; 0: none yet. */
static enum lvn_status give(struct lvn_params *p, const struct lvn_pattern *pattern,
                            const struct lvn_optimizer_group *g, int n, double lr, const char *matrices, int *owner)
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
        LVN_TRY(set_rule(q, g, n, lr, matrices));
    }
    if (!found) return lvn_pattern_refuse(pattern, p, key);
    LVN_CHECK(trained, ARG, "%s, entry %d: '%.*s' matches only parameters that are not trained: leave it out", key, n,
              pattern->n, pattern->text);
    return LVN_OK;
}

enum lvn_status lvn_optimizer_groups_apply(const char *text, const char *kind, double lr, struct lvn_params *p)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_optimizer_groups groups;
    const struct lvn_optimizer_kind *k = lvn_optimizer_find(kind);
    LVN_TRY(lvn_optimizer_groups_read(&groups, &a, text, kind, k->elements));
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
        for (struct lvn_pattern one; lvn_pattern_next(&rest, &one);)
            LVN_TRY(give(p, &one, g, n + 1, lr, k->matrices ? kind : NULL, owner));
    }
    return LVN_OK;
}
