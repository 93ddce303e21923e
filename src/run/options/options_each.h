/* options_each.h - includes options.def with the macros that the includer has defined, and undefines them all.
 *
 * values.h, options.c and others include it once for each thing that they generate from the table, so it has no
 * include guard. Rows whose macro is not defined are skipped. */
#ifndef LVN_CALLBACK
#define LVN_CALLBACK(...)
#endif
#ifndef LVN_LOGGER /* the switch of a logger is an option */
#define LVN_LOGGER(name, default_, help) LVN_BOOL(logger, name, default_, help)
#endif
#ifndef LVN_COMM_KIND
#define LVN_COMM_KIND(...)
#endif
#ifndef LVN_DATASET
#define LVN_DATASET(...)
#endif
#define LVN_ROWS "options/options.def"
#include "base/options/rows_each.h"

#undef LVN_CALLBACK
#undef LVN_LOGGER
#undef LVN_COMM_KIND
#undef LVN_DATASET
