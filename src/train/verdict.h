/* verdict.h - what to say of a run that ended worse than it began.
 *
 * Fine-tuning can do harm, and then the best checkpoint is still worse than the weights it started from. The numbers of
 * a run tell the usual causes apart: a learning rate for training from scratch, too many passes over little data, and
 * data of another kind. */
#ifndef LVN_VERDICT_H
#define LVN_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

/* NaN: not known. */
struct lvn_course {
    double start_val_loss;          /* before the first step */
    double val_loss, best_val_loss; /* the last one, and the lowest after a step */
    double first_loss, last_loss;   /* of training: of the first step, and a mean over the last ones */
    double lr, epochs;              /* the peak of the learning rate; passes over the data */
    bool loaded;                    /* the run began with trained weights */
};

enum { LVN_VERDICT_TEXT = 500 };
/* A sentence without a full stop when validation was worse at the end than before the first step; "" otherwise. */
void lvn_verdict(const struct lvn_course *c, char text[LVN_VERDICT_TEXT]);

#endif
