/* input.h - opens files for reading: regular files, and pipes if a stream is acceptable. Pointers of Git LFS are
 * refused.
 *
 * Opening a named pipe waits for a writer, and reading a device such as /dev/zero never ends. So each reader specifies
 * what it accepts; everything else is refused with a message before it is opened. Errors as in files.h. */
#ifndef LVN_INPUT_H
#define LVN_INPUT_H

#include "base/status.h"

enum lvn_input {
    LVN_INPUT_REGULAR, /* only regular files: weights, token files, state */
    LVN_INPUT_OPENED,  /* also /dev/null, and pipes that this process has open (/dev/stdin, <(...) of a shell) */
    LVN_INPUT_STREAM,  /* also named pipes */
};
enum lvn_status lvn_input_open(const char *path, enum lvn_input accepts, int *fd) LVN_CHECKED;
/* FORMAT if these n bytes, a whole file, are a Git LFS pointer. A clone without Git LFS has it in place of the file. */
enum lvn_status lvn_input_refuse_pointer(const char *name, const char *p, int64_t n) LVN_CHECKED;

#endif
