/* status.h - status codes and the error record of a thread. Every function that can fail uses it.
 *
 * Such a function returns an enum lvn_status. The function that fails records a message (what happened, where, what was
 * expected, what to do) in its thread's record; its callers add "while ..." lines. Nothing is printed here: main()
 * prints the record. The compiler warns about an ignored status. */
#ifndef LVN_STATUS_H
#define LVN_STATUS_H

/* The C library, for every file that includes this one. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LVN_STATUS_MAP(X)                                                                                              \
    X(OK, "no error")                                                                                                  \
    X(ARG, "wrong argument, option or recipe") /* the command line exits with 2 */                                     \
    X(SHAPE, "tensor shapes do not fit")                                                                               \
    X(FORMAT, "a file is invalid")                                                                                     \
    X(IO, "reading or writing failed")                                                                                 \
    X(MEMORY, "not enough memory")                                                                                     \
    X(UNSUPPORTED, "not supported here")                                                                               \
    X(NONFINITE, "a value is not finite")                                                                              \
    X(COMM, "ranks could not communicate") /* the command line exits with 76 */                                        \
    X(STOPPED, "stopped on request")       /* the command line exits with 75 */                                        \
    X(INTERNAL, "a defect in levin")

enum lvn_status {
#define LVN_X(name, text) LVN_##name,
    LVN_STATUS_MAP(LVN_X)
#undef LVN_X
};

#define LVN_CHECKED __attribute__((warn_unused_result))
#define LVN_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Start a new record with this message; returns `status`, so that `return lvn_fail(...)` works. */
#define lvn_fail(status, ...) lvn_fail_at(__FILE__, __LINE__, status, __VA_ARGS__)
enum lvn_status lvn_fail_at(const char *file, int line, enum lvn_status status, const char *format, ...)
    LVN_PRINTF(4, 5);
/* Add one "while ..." line to the record; returns `status`. */
enum lvn_status lvn_while_at(enum lvn_status status, const char *format, ...) LVN_PRINTF(2, 3);

/* The status is a constant here, so that compilers and analyzers see that the code after a failure is unreachable. */
#define LVN_FAIL(status, ...)                                                                                          \
    do {                                                                                                               \
        (void)lvn_fail(LVN_##status, __VA_ARGS__);                                                                     \
        return LVN_##status;                                                                                           \
    } while (0)
/* Record the message and return `status` if `condition` is false. */
#define LVN_CHECK(condition, status, ...)                                                                              \
    do {                                                                                                               \
        if (!(condition)) LVN_FAIL(status, __VA_ARGS__);                                                               \
    } while (0)
/* Return a failure unchanged. */
#define LVN_TRY(call)                                                                                                  \
    do {                                                                                                               \
        enum lvn_status try_status_ = (call);                                                                          \
        if (try_status_ != LVN_OK) return try_status_;                                                                 \
    } while (0)
/* Return a failure with a "while ..." line added. */
#define LVN_TRY_WHILE(call, ...)                                                                                       \
    do {                                                                                                               \
        enum lvn_status try_status_ = (call);                                                                          \
        if (try_status_ != LVN_OK) {                                                                                   \
            (void)lvn_while_at(try_status_, __VA_ARGS__);                                                              \
            return try_status_;                                                                                        \
        }                                                                                                              \
    } while (0)

/* The message of this thread's record; "" if there is none. Valid until the next failure in this thread. */
const char *levin_error_text(void);
/* The "while ..." lines, each ended by a newline; "" if there are none. */
const char *levin_error_trace(void);
/* The location at which the failure was recorded, as "file.c:12"; for debug output. */
const char *lvn_error_location(void);
/* Clear the record: for callers that handle a failure (a damaged checkpoint that is skipped). */
void lvn_error_clear(void);
/* Save and restore the record: around clean-up after a failure, whose own failures are not reported. */
void lvn_error_save(void);
void lvn_error_restore(void);
/* The short text of the status. */
const char *lvn_status_text(enum lvn_status status);

#endif
