/* memory_advice.h - which settings make a training run smaller that memory does not hold, and how small.
 *
 * Each figure comes from a plan of the run with that setting, as training would plan it; nothing is allocated. `levin
 * plan` and a run that is refused at its start use the same advice. */
#ifndef LVN_MEMORY_ADVICE_H
#define LVN_MEMORY_ADVICE_H

#include "engine/train_programs.h"

enum { LVN_ADVICE = 10, LVN_ADVICE_TEXT = 200 };

/* A change of settings, or several together. */
struct lvn_advice {
    char settings[LVN_ADVICE_TEXT]; /* as a user sets them: "trainer.precision=bf16-true, optimizer.state=bf16" */
    int64_t bytes;                  /* that the run takes then on each rank */
    bool fits;
};

struct lvn_memory_advice {
    struct lvn_advice list[LVN_ADVICE];
    int n;
};

/* For the planned training t, of which a rank takes `takes` bytes and may take `available`. Settings that save less
 * than a fiftieth are left out. Where no change alone is enough, the last entry is of several together. An entry whose
 * plan fails is left out. */
void lvn_memory_advice_find(struct lvn_memory_advice *out, const struct lvn_train_programs *t, int64_t takes,
                            int64_t available);
/* As lvn_model_state_allocate(). Where memory does not hold the training, the sentence ends with the advice. */
enum lvn_status lvn_train_programs_allocate(const struct lvn_train_programs *t) LVN_CHECKED;

#endif
