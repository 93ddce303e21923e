/* memory_advice.h - finds settings with which a training fits into memory, and the bytes that it then needs.
 *
 * `levin plan` and a run that is refused at its start give the same advice. Each figure comes from a plan of the run
 * with that setting, as training would plan it; nothing is allocated. */
#ifndef LVN_MEMORY_ADVICE_H
#define LVN_MEMORY_ADVICE_H

#include "engine/train_programs.h"

enum { LVN_ADVICE = 10, LVN_ADVICE_TEXT = 200 };

/* One setting to change, or a combination. */
struct lvn_advice {
    char settings[LVN_ADVICE_TEXT]; /* as a user writes them: "trainer.precision=bf16-true, optimizer.state=bf16" */
    int64_t bytes;                  /* of the changed run on each rank */
    bool fits;
};

struct lvn_memory_advice {
    struct lvn_advice list[LVN_ADVICE];
    int n;
};

/* Advice for planned programs of which a rank needs `needed` bytes and has `available`. Settings that save less than a
 * fiftieth are omitted. If no single change is enough, the last entry combines several. An entry whose plan fails is
 * omitted. */
void lvn_memory_advice_find(struct lvn_memory_advice *out, const struct lvn_train_programs *programs, int64_t needed,
                            int64_t available);
/* lvn_model_state_allocate() for a training: if memory is too small, the message ends with the advice. */
enum lvn_status lvn_train_programs_allocate(const struct lvn_train_programs *programs) LVN_CHECKED;

#endif
