/* assignments.h - NAME = VALUE lines of a Python file, read without Python: nothing in it is executed.
 *
 * Values are numbers, strings, True, False and None, names assigned before, and arithmetic (+ - * / // % **, brackets)
 * of these. What a file holds beyond that (imports, calls, conditions, loops) is handed back unread, with its line, so
 * that a caller can say so. */
#ifndef LVN_ASSIGNMENTS_H
#define LVN_ASSIGNMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum lvn_assigned_kind {
    LVN_ASSIGNED_NUMBER,
    LVN_ASSIGNED_TEXT,
    LVN_ASSIGNED_BOOL,
    LVN_ASSIGNED_NONE,
    LVN_ASSIGNED_UNREAD, /* a statement that is no such assignment */
};

struct lvn_assigned {
    const char *name; /* NULL: UNREAD, and not an assignment to one name */
    int line;         /* from 1 */
    enum lvn_assigned_kind kind;
    double number; /* NUMBER; BOOL: 0 or 1 */
    bool whole;    /* NUMBER: an int of Python's */
    const char
        *text; /* TEXT: the string; UNREAD: the statement's beginning; else the value as levin's recipes write it */
};

/* All statements, in their order, in the arena. LVN_FORMAT, with FILE:LINE, for text that is no Python (a string or
 * bracket that does not end, NUL, not UTF-8) and for more than 10,000 statements. */
LVN_CHECKED enum lvn_status lvn_assignments_parse(struct lvn_arena *a, const char *name, const char *text,
                                                  int64_t bytes, const struct lvn_assigned **list, int *n);
LVN_CHECKED enum lvn_status lvn_assignments_read(struct lvn_arena *a, const char *path,
                                                 const struct lvn_assigned **list, int *n);
/* The last assignment to a name that was read; NULL when there is none. */
const struct lvn_assigned *lvn_assignments_find(const struct lvn_assigned *list, int n, const char *name);

#endif
