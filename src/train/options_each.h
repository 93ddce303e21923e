/* options_each.h - walk over options.def once with the macros that are defined, then forget them all.
 *
 * Has no include guard: it is included once for each thing that is made from the table. */
#include "train/options.def"

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
#undef LVN_TIME
#undef LVN_AMOUNT
