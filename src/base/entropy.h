/* entropy.h - random bytes from the operating system, for keys and names that nobody may guess. Random numbers of
 * trainings are reproducible and are in base/random.h. */
#ifndef LVN_ENTROPY_H
#define LVN_ENTROPY_H

#include <stddef.h>

#include "base/status.h"

/* Fill `bytes` with n random bytes, at most 256. IO: the system has none; `purpose` ("a token") is in the message. */
enum lvn_status lvn_entropy_read(void *bytes, size_t n, const char *purpose);

#endif
