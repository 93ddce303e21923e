/* memory.h - the memory of a training by purpose, for everything that grows with the model or the batch.
 *
 * `levin plan` shows it; train_programs.c and memory_advice.c compare it with the free memory. It follows from the
 * plan, before anything is allocated; a test compares it with real runs. Not counted is memory that does not grow: the
 * program and its libraries (including an MPI's buffers), stacks, and mapped files, whose pages the system caches or
 * drops. */
#ifndef LVN_MEMORY_H
#define LVN_MEMORY_H

#include "engine/train_programs.h"

/* X(name in C, key, label) */
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
extern const char *const lvn_memory_keys[LVN_MEMORY_PART_COUNT];
extern const char *const lvn_memory_labels[LVN_MEMORY_PART_COUNT];

/* part[]: bytes of each part, on the rank for which t is planned. Returns their sum. After planning, PROGRAMS are
 * allocated and the other parts are not. */
int64_t lvn_train_programs_memory(const struct lvn_train_programs *programs, int64_t part[LVN_MEMORY_PART_COUNT]);

#endif
