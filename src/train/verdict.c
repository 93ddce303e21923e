/* verdict.c - see verdict.h. */
#include "train/verdict.h"

#include <stdio.h>

/* Rates that people fine-tune with lie at 5e-5 and below; from scratch ten times that is usual. */
static const double high_lr = 5e-5;
/* By so much of itself training loss must fall to count as learning. */
static const double learning = 0.02;

static void likely_cause(const struct lvn_course *c, char *text, size_t room)
{
    bool improved = c->best_val_loss < c->start_val_loss;
    bool learnt = c->last_loss < c->first_loss * (1.0 - learning), known = c->first_loss == c->first_loss;
    if (improved) {
        snprintf(
            text, room,
            "it was %.4f in between, and `best` is that: it fits the training data more than the language in them; "
            "take fewer steps, more data, or freeze a part of the model",
            c->best_val_loss);
    } else if (c->loaded && c->lr > high_lr && !(learnt && c->epochs >= 2.0)) {
        snprintf(
            text, room,
            "likely because optimizer.lr, %g, is too high for weights that are trained already, and unlearns them; "
            "3e-5 with a warm-up is usual",
            c->lr);
    } else if (learnt) {
        snprintf(text, room,
                 "training loss fell to %.4f%s: likely because the training data are too few, or of another kind than "
                 "the validation data",
                 c->last_loss, c->epochs >= 2.0 ? " over several passes" : "");
    } else {
        snprintf(text, room, "%slikely because optimizer.lr, %g, is too high; try a tenth of it",
                 known ? "training loss did not fall either: " : "", c->lr);
    }
}

void lvn_verdict(const struct lvn_course *c, char text[LVN_VERDICT_TEXT])
{
    text[0] = '\0';
    if (!(c->val_loss > c->start_val_loss)) return;
    int n = snprintf(text, LVN_VERDICT_TEXT,
                     "the run ended worse than it began: validation %.4f, and %.4f before the first step; ",
                     c->val_loss, c->start_val_loss);
    if (n < LVN_VERDICT_TEXT) likely_cause(c, text + n, (size_t)(LVN_VERDICT_TEXT - n));
}
