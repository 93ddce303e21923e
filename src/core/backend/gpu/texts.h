/* texts.h - the table of all operations' kernels for devices: their host halves, and their source text for the
 * device's compiler. gpu_program.c and the compilers of the backends look them up. Left out: how a text is compiled. */
#ifndef LVN_TEXTS_H
#define LVN_TEXTS_H

#include "backend/gpu/kernel_launch.h"
#include "base/arena.h"

/* words.h as text. */
const char *lvn_gpu_words(void);
/* The kernels of an operation; NULL: it has none. */
const char *lvn_gpu_text(const char *source);
/* The definitions at the start of a module's text, with TYPE_x for every operand in it, in memory of the arena. */
const char *lvn_gpu_definitions(struct lvn_arena *a, const char *source, const char *defines);
/* The host half of an operation; NULL: it has no .k file. */
const struct lvn_gpu_operation *lvn_gpu_operation_of(enum lvn_op_id id);

#endif
