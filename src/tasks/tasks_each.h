/* tasks_each.h - includes tasks.def with the macros that the includer has defined, and undefines them all.
 *
 * task.c and settings include it once for each thing that they make from the table, so it has no include guard. Rows
 * whose macro is not defined are skipped. */
#ifndef LVN_TASK
#define LVN_TASK(...)
#endif
#define LVN_ROWS "tasks/tasks.def"
#include "base/options/rows_each.h"

#undef LVN_TASK
