/* rows_each.h - includes a table of options, LVN_ROWS, with the macros that the includer has defined, and undefines
 * them all.
 *
 * settings/options_each.h includes it, and rooms whose options are rows of a table of their own (as
 * schedules/schedules_each.h). settings/options.def says what each row is. Rows whose macro is not defined are
 * skipped. It is included once for each thing that is made from a table, so it has no include guard. */
#ifndef LVN_TOP
#define LVN_TOP(...)
#endif
#ifndef LVN_PART
#define LVN_PART(...)
#endif
#ifndef LVN_PART_END
#define LVN_PART_END(...)
#endif
#ifndef LVN_INT
#define LVN_INT(...)
#endif
#ifndef LVN_REAL
#define LVN_REAL(...)
#endif
#ifndef LVN_PAIR
#define LVN_PAIR(...)
#endif
#ifndef LVN_BOOL
#define LVN_BOOL(...)
#endif
#ifndef LVN_CHOICE
#define LVN_CHOICE(...)
#endif
#ifndef LVN_WORD
#define LVN_WORD(...)
#endif
#ifndef LVN_TEXT
#define LVN_TEXT(...)
#endif
#ifndef LVN_PATH
#define LVN_PATH LVN_TEXT
#endif
#ifndef LVN_LIST
#define LVN_LIST LVN_TEXT /* a text, for those who do not parse the list */
#endif
#ifndef LVN_MAPS
#define LVN_MAPS LVN_TEXT /* the same */
#endif
#ifndef LVN_TIME
#define LVN_TIME(...)
#endif
#ifndef LVN_AMOUNT
#define LVN_AMOUNT(...)
#endif
#include LVN_ROWS

#undef LVN_TOP
#undef LVN_PART
#undef LVN_PART_END
#undef LVN_INT
#undef LVN_REAL
#undef LVN_PAIR
#undef LVN_BOOL
#undef LVN_CHOICE
#undef LVN_WORD
#undef LVN_TEXT
#undef LVN_PATH
#undef LVN_LIST
#undef LVN_MAPS
#undef LVN_TIME
#undef LVN_AMOUNT
#undef LVN_ROWS
