/* samples.h - samples.txt of a run: text generated on the way, each piece under a line `--- step N ---`. */
#ifndef LVN_SAMPLES_H
#define LVN_SAMPLES_H

#include <stdint.h>

#include "base/status.h"

enum lvn_status lvn_samples_keep(const char *path, int64_t step, const char *text) LVN_CHECKED;
/* Cut what stands behind step `last_step`, which a resumed run will write again. -1 removes all; fine when the file is
 * not there. */
enum lvn_status lvn_samples_cut(const char *path, int64_t last_step) LVN_CHECKED;

#endif
