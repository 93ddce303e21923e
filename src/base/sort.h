/* sort.h - the orders that qsort() and bsearch() are asked for again and again. */
#ifndef LVN_SORT_H
#define LVN_SORT_H

/* By bytes: elements that are a text (const char *), or structs that begin with one. */
int lvn_by_text(const void *a, const void *b);
/* Elements that are doubles, none of them NaN; the least first. */
int lvn_by_number(const void *a, const void *b);

#endif
