/* rows_each.h - includes a table of options, LVN_ROWS, with the macros that the includer has defined, then undefines
 * them.
 *
 * options/options_each.h includes it, and folders with their own table of options, such as schedules/schedule.h.
 * options/options.def explains the rows. Rows whose macro is not defined are skipped. It is included once for each
 * thing that is generated from a table, so it has no include guard.
 *
 * With LVN_ROWS_AS_MEMBERS, each row is a member of a struct of options, so that its folder does not depend on
 * settings. With LVN_ROWS_AS_VALUES, the name of a struct lvn_values *, each row is the initializer of that member.
 */
#ifdef LVN_ROWS_AS_MEMBERS
#define LVN_INT(part, field, ...) int64_t field;
#define LVN_REAL(part, field, ...) double field;
#define LVN_PAIR(part, field, ...) double field[2];
#define LVN_BOOL(part, field, ...) bool field;
#define LVN_WORD(part, field, ...) const char *field;
#define LVN_TEXT(part, field, ...) const char *field;
#define LVN_CHOICE(part, field, ...) unsigned field; /* index into LVN_CHOICES_PART_FIELD */
#endif
#ifdef LVN_ROWS_AS_VALUES
#define LVN_INT(part, field, ...) .field = LVN_ROWS_AS_VALUES->part.field,
#define LVN_REAL LVN_INT
#define LVN_PAIR(part, field, ...) .field = {LVN_ROWS_AS_VALUES->part.field[0], LVN_ROWS_AS_VALUES->part.field[1]},
#define LVN_BOOL LVN_INT
#define LVN_WORD LVN_INT
#define LVN_TEXT LVN_INT
#define LVN_CHOICE(part, field, ...) .field = (unsigned)LVN_ROWS_AS_VALUES->part.field,
#endif
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
#define LVN_LIST LVN_TEXT /* a text, for code that does not parse the list */
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
#undef LVN_ROWS_AS_MEMBERS
#undef LVN_ROWS_AS_VALUES
