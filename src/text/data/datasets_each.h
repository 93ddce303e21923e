/* datasets_each.h - includes datasets.def with the macros that the includer has defined, and undefines them all.
 *
 * dataset.c and settings include it once for each thing that they make from the table, so it has no include guard. Rows
 * whose macro is not defined are skipped. */
#ifndef LVN_DATASET
#define LVN_DATASET(...)
#endif
#define LVN_ROWS "data/datasets.def"
#include "base/options/rows_each.h"

#undef LVN_DATASET
