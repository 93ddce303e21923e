/* options_each.h - walk over options.def once with the macros that are defined, then forget them all.
 *
 * Rows whose macro is not defined are passed over. Has no include guard: it is included once for each thing that is
 * made from the table. */
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
#define LVN_LIST LVN_TEXT /* a text to whoever does not ask what is in it */
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
#ifndef LVN_LOGGER /* to the options, the switch of a logger is one of them */
#define LVN_LOGGER(name, initial, help) LVN_BOOL(logger, name, initial, help)
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
