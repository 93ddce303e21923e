/* input.h - opens what is read: regular files, and pipes where a stream is meant.
 *
 * Opening a named pipe waits for a writer, and a device such as /dev/zero never ends. So each reader says what it
 * takes, and all else is refused with a sentence before it is opened. Errors as in files.h. */
#ifndef LVN_INPUT_H
#define LVN_INPUT_H

#include <stdint.h>

#include "base/status.h"

enum lvn_input {
    LVN_INPUT_REGULAR, /* regular files alone: weights, token files, state */
    LVN_INPUT_OPENED, /* besides, pipes that this process has open already (/dev/stdin, <(...) of a shell), /dev/null */
    LVN_INPUT_STREAM, /* besides, named pipes */
};
LVN_CHECKED enum lvn_status lvn_input_open(const char *path, enum lvn_input accepts, int *fd);
/* As lvn_file_read(), of streams too. */
LVN_CHECKED enum lvn_status lvn_input_read(const char *path, int64_t limit, char **text, int64_t *bytes);

#endif
