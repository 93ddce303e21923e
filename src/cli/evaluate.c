/* evaluate.c - levin evaluate MODEL: loss on data; logits, token losses and gradients to hold against other programs.
 */
#include "train/evaluate.h"

#include "cli/cli.h"
#include "cli/model.h"

enum { SHOWN_LOGITS = 8 };

struct lists {
    json_t *logits, *losses; /* NULL: not asked for */
};

static json_t *numbers(const float *x, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, lvn_cli_number((double)x[i]));
    return list;
}

static void collect(void *context, const struct lvn_evaluated *e)
{
    struct lists *l = context;
    int64_t shown = e->V < SHOWN_LOGITS ? e->V : SHOWN_LOGITS;
    for (int64_t i = 0; i < e->windows; i++) {
        if (e->window[i] < 0) continue;
        if (l->losses) json_array_append_new(l->losses, numbers(e->losses + i * e->T, e->T));
        if (l->logits) json_array_append_new(l->logits, numbers(e->logits + ((i + 1) * e->T - 1) * e->V, shown));
    }
}

/* trainer.limit_val_batches counts where it is meant for this: in a recipe that is evaluated, or on the command line.
 * What a run took while it trained does not. */
static int64_t limit_of(const struct lvn_cli *c)
{
    const struct lvn_settings *s = &c->settings;
    bool meant = lvn_cli_model_is_recipe(c->operand[0]) ||
                 s->origin[LVN_OPT_trainer_limit_val_batches].source > LVN_SOURCE_RECIPE;
    return meant ? s->trainer.limit_val_batches.count : 0;
}

enum lvn_status lvn_command_evaluate(struct lvn_cli *c)
{
    unsigned parts = LVN_USES_MODEL | LVN_USES_DATA | LVN_USES_TRAINER;
    LVN_TRY(lvn_cli_meet(c, lvn_cli_model_settings(c, c->operand[0], parts)));
    if (lvn_cli_on(c, LVN_FLAG_any_show_settings)) {
        lvn_cli_show_settings(c);
        return LVN_OK;
    }
    bool logits = lvn_cli_on(c, LVN_FLAG_evaluate_logits), losses = lvn_cli_on(c, LVN_FLAG_evaluate_token_losses);
    const char *gradients = c->flag[LVN_FLAG_evaluate_gradients].t;
    LVN_CHECK(c->json || (!logits && !losses), ARG, "--logits and --token-losses are lists of numbers: add --json");
    struct lists lists = {.logits = logits ? json_array() : NULL, .losses = losses ? json_array() : NULL};
    struct lvn_evaluate_options o = {.ranks = c->ranks,
                                     .limit = limit_of(c),
                                     .logits = logits,
                                     .gradients = *gradients ? gradients : NULL,
                                     .batch = logits || losses ? collect : NULL,
                                     .context = &lists};
    struct lvn_evaluate_result r;
    enum lvn_status status = lvn_evaluate(&c->settings, &o, &r);
    if (status != LVN_OK) {
        json_decref(lists.logits);
        json_decref(lists.losses);
        return status;
    }
    char count[LVN_NUMBER_TEXT];
    lvn_cli_print(c, "loss %.6f over %s tokens\n", r.loss, lvn_count_text(r.tokens, count));
    if (r.right >= 0) {
        double share = (double)r.right / (double)r.windows;
        lvn_cli_print(c, "%lld of %lld answers right: %.2f %%\n", (long long)r.right, (long long)r.windows,
                      100.0 * share);
    }
    lvn_cli_add(c, "loss", lvn_cli_number(r.loss));
    lvn_cli_add(c, "tokens", json_integer(r.tokens));
    if (r.right >= 0) lvn_cli_add(c, "accuracy", lvn_cli_number((double)r.right / (double)r.windows));
    if (logits) lvn_cli_add(c, "logits", lists.logits);
    if (losses) lvn_cli_add(c, "token_losses", lists.losses);
    return LVN_OK;
}
