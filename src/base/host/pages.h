/* pages.h - memory for large buffers: 64-byte aligned, zeroed, in huge pages if the system has them.
 *
 * Pages are not accessed before their first use. */
#ifndef LVN_PAGES_H
#define LVN_PAGES_H

#include <stdint.h>

/* NULL, with an error recorded, if the system cannot provide the memory. */
void *lvn_pages_alloc(int64_t bytes);
/* The bytes that lvn_pages_alloc(bytes) maps: whole pages, at least one; huge pages if `bytes` fill one. */
int64_t lvn_pages_bytes(int64_t bytes);
void lvn_pages_free(void *p, int64_t bytes); /* bytes: as passed to lvn_pages_alloc() */

#endif
