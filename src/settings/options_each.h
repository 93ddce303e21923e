/* options_each.h - includes options.def with the macros that the includer has defined, and undefines them all.
 *
 * settings.h, options.c and others include it once for each thing that they generate from the table, so it has no
 * include guard. Rows whose macro is not defined are skipped. */
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
#ifndef LVN_TIME
#define LVN_TIME(...)
#endif
#ifndef LVN_AMOUNT
#define LVN_AMOUNT(...)
#endif
#ifndef LVN_CALLBACK
#define LVN_CALLBACK(...)
#endif
#ifndef LVN_LOGGER /* the switch of a logger is an option */
#define LVN_LOGGER(name, default_, help) LVN_BOOL(logger, name, default_, help)
#endif
#include "settings/options.def"

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
#undef LVN_TIME
#undef LVN_AMOUNT
#undef LVN_CALLBACK
#undef LVN_LOGGER
