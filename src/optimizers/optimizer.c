/* optimizer.c - see optimizer.h: the table of optimizers, and what all of them have in common. */
#include "optimizers/optimizer.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "optimizers/groups.h"

#define LVN_OPTIMIZER(name) extern const struct lvn_optimizer_kind lvn_optimizer_##name;
#include "optimizers/optimizers_each.h"

static const struct lvn_optimizer_kind *const optimizers[] = {
#define LVN_OPTIMIZER(name) &lvn_optimizer_##name,
#include "optimizers/optimizers_each.h"
    NULL};

#define LVN_X(name, word) name,
enum state { LVN_CHOICES_optimizer_state(LVN_X) };
#undef LVN_X

const struct lvn_optimizer_kind *const *lvn_optimizers(void)
{
    return optimizers;
}

const struct lvn_optimizer_kind *lvn_optimizer_find(const char *name)
{
    for (int i = 0; optimizers[i]; i++)
        if (!strcmp(optimizers[i]->name, name)) return optimizers[i];
    return NULL;
}

bool lvn_optimizer_in_bf16(const struct lvn_optimizer_kind *k)
{
    return lvn_op(k->op, LVN_F32)->low_precision_ok & LVN_READS_OUT(1);
}

/* "adamw, adam and lion": those whose moments may be bf16. */
static void list_in_bf16(char *text, size_t capacity)
{
    int n = 0, at = 0;
    text[0] = '\0';
    for (int i = 0; optimizers[i]; i++) n += lvn_optimizer_in_bf16(optimizers[i]);
    for (int i = 0; optimizers[i]; i++) {
        if (!lvn_optimizer_in_bf16(optimizers[i])) continue;
        const char *before = at == 0 ? "" : at + 1 == n ? " and " : ", ";
        lvn_print_append(text, capacity, "%s%s", before, optimizers[i]->name);
        at++;
    }
}

enum lvn_status lvn_optimizer_check(const struct lvn_optimizer_options *o)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_optimizer_groups groups;
    const struct lvn_optimizer_kind *k = lvn_optimizer_find(o->kind);
    char kinds[160];
    list_in_bf16(kinds, sizeof kinds);
    LVN_CHECK((enum state)o->state == OPTIMIZER_STATE_FP32 || lvn_optimizer_in_bf16(k), ARG,
              "optimizer.state: bf16 is for %s, and optimizer.kind is %s; leave it out", kinds, k->name);
    return lvn_optimizer_groups_read(&groups, &a, o->groups);
}

void lvn_optimizer_init(struct lvn_optimizer *out, const struct lvn_optimizer_options *o)
{
    const struct lvn_optimizer_kind *k = lvn_optimizer_find(o->kind);
    memset(out, 0, sizeof *out);
    out->name = k->name;
    out->op = k->op;
    out->clip_norm = o->clip_norm;
    out->bf16_state = (enum state)o->state == OPTIMIZER_STATE_BF16;
    if (k->constants) k->constants(o, &out->attr);
    out->attr.update.weight_decay = o->weight_decay;
    out->attr.update.clip_value = o->clip_value;
    if (!k->matrices) return;
    out->matrices.used = true;
    k->matrices(o, &out->matrices);
    out->matrices.direction_attr.update.clip_value = o->clip_value;
}
