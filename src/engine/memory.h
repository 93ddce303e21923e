/* memory.h - what a training run takes that grows with the model or the batch, by what it is for.
 *
 * Known from the plan, before anything is allocated; a test holds it against real runs. Left out is what does not grow:
 * the program and its libraries (an MPI's own buffers among them), stacks, and files that are mapped, whose pages the
 * system keeps or drops as it likes. */
#ifndef LVN_TRAINING_MEMORY_H
#define LVN_TRAINING_MEMORY_H

#include "engine/train_programs.h"

/* Key and label. */
#define LVN_MEMORY_PARTS(X)                                                                                            \
    X(PARAMETERS, "parameters", "parameters")                                                                          \
    X(GRADIENTS, "gradients", "gradients")                                                                             \
    X(OPTIMIZER, "optimizer", "optimizer state")                                                                       \
    X(ARENA, "arena", "arena (activations, scratch)")                                                                  \
    X(BATCHES, "batches", "batches, those read ahead too")                                                             \
    X(CACHES, "caches", "keys and values of texts")                                                                    \
    X(RANKS, "ranks", "sums over ranks")                                                                               \
    X(CHECKPOINTS, "checkpoints", "a tensor on its way to a file")                                                     \
    X(PROGRAMS, "programs", "programs, calls of kernels")

enum lvn_memory_part {
#define LVN_X(name, key, label) LVN_MEMORY_##name,
    LVN_MEMORY_PARTS(LVN_X)
#undef LVN_X
        LVN_MEMORY_PART_COUNT
};
extern const char *const lvn_memory_keys[LVN_MEMORY_PART_COUNT], *const lvn_memory_labels[LVN_MEMORY_PART_COUNT];

/* Bytes of each part, of the rank that t is planned for, and their sum. Programs are there already once they are
 * planned; all else is still to be allocated. */
int64_t lvn_train_programs_memory(const struct lvn_train_programs *t, int64_t part[LVN_MEMORY_PART_COUNT]);

#endif
