/* comm_kinds_each.h - includes comm_kinds.def with the macros that the includer has defined, then undefines them.
 *
 * comm_kind.c includes it once for each array that it generates from the table, so it has no include guard. Rows whose
 * macro is not defined are skipped. */
#ifndef LVN_COMM_KIND
#define LVN_COMM_KIND(...)
#endif
#define LVN_ROWS "comm/comm_kinds.def"
#include "base/options/rows_each.h"

#undef LVN_COMM_KIND
