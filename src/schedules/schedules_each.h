/* schedules_each.h - includes schedules.def with the macros that the includer has defined, and undefines them all.
 *
 * schedule.h, schedule.c and settings include it once for each thing that they make from the table, so it has no
 * include guard. Rows whose macro is not defined are skipped. */
#ifndef LVN_SCHEDULE
#define LVN_SCHEDULE(...)
#endif
#define LVN_ROWS "schedules/schedules.def"
#include "base/options/rows_each.h"

#undef LVN_SCHEDULE
