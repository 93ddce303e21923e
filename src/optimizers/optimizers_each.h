/* optimizers_each.h - includes optimizers.def with the macros that the includer has defined, and undefines them all.
 *
 * optimizer.h, optimizer.c and settings include it once for each thing that they make from the table, so it has no
 * include guard. Rows whose macro is not defined are skipped. */
#ifndef LVN_OPTIMIZER
#define LVN_OPTIMIZER(...)
#endif
#define LVN_ROWS "optimizers/optimizers.def"
#include "base/options/rows_each.h"

#undef LVN_OPTIMIZER
