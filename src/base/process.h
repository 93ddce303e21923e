/* process.h - this process: its clock and its memory. */
#ifndef LVN_PROCESS_H
#define LVN_PROCESS_H

#include <stdint.h>

/* Seconds of a clock that never jumps. */
double lvn_seconds(void);
/* Resident memory of this process in bytes: now, and the most it ever was. 0: the system does not say. */
int64_t lvn_resident_bytes(void);
int64_t lvn_resident_peak_bytes(void);
/* Memory that this process may still take: what the system has available, cut by the cgroup's limit. 0: not known. */
int64_t lvn_available_bytes(void);

#endif
