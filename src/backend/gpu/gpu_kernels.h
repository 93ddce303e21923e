/* gpu_kernels.h - compiled kernels, kept between runs: `kernels` in this machine's cache (host/cache_dir.h).
 *
 * An entry is found by everything that it was made of (texts, options, compiler, device) and holds that, so that no two
 * are taken for one another, and a checksum: what is damaged is as if it were not there. Two processes may write one at
 * once, for a file is renamed into its place. A cache that cannot be written is no error: kernels are compiled again.
 */
#ifndef LVN_GPU_KERNELS_H
#define LVN_GPU_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* What was compiled of `key`, a text, into fresh memory (free() it). False: nothing. */
bool lvn_kernels_find(const char *key, void **binary, int64_t *bytes);
void lvn_kernels_keep(const char *key, const void *binary, int64_t bytes);

#endif
