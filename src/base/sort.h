/* sort.h - comparison functions for qsort() and bsearch(). */
#ifndef LVN_SORT_H
#define LVN_SORT_H

/* By bytes. Elements are texts (const char *), or structs that begin with one. */
int lvn_by_text(const void *a, const void *b);
/* Ascending. Elements are doubles, none of them NaN. */
int lvn_by_number(const void *a, const void *b);

#endif
