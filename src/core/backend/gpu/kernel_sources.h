/* kernel_sources.h - the table of all operations' kernels for devices: their host halves, and their source code for the
 * device's compiler. gpu_program.c and the compilers of the backends look them up. It does not compile. */
#ifndef LVN_KERNEL_SOURCES_H
#define LVN_KERNEL_SOURCES_H

#include "backend/gpu/kernel_launch.h"
#include "base/arena.h"

/* The text of kernel_language.h. */
const char *lvn_gpu_language_source(void);
/* The source code of an operation's kernels; NULL: it has none. */
const char *lvn_gpu_kernel_source(const char *operation);
/* The definitions at the start of a module's source, with TYPE_x for every operand in it, in memory of the arena. */
const char *lvn_gpu_definitions(struct lvn_arena *a, const char *operation, const char *defines);
/* The host half of an operation; NULL: it has no .k file. */
const struct lvn_gpu_operation *lvn_gpu_operation_of(enum lvn_op_id id);

#endif
