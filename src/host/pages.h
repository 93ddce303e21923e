/* pages.h - memory for large buffers: 64-byte aligned, zeroed, in huge pages where the system has them.
 *
 * The bytes are not touched before use. */
#ifndef LVN_PAGES_H
#define LVN_PAGES_H

#include <stdint.h>

/* NULL (with an error recorded) when the system refuses. */
void *lvn_pages_alloc(int64_t bytes);
void lvn_pages_free(void *p, int64_t bytes); /* as many as were asked for */

#endif
