/* assignments.h - NAME = LITERAL lines of a Python file, read without Python: nothing in it is executed.
 *
 * Literals are numbers and products of numbers (5 * 8), strings in quotes of either kind, True, False and None.
 * Comments and texts that stand alone are passed over; every other line (imports, calls, conditions, other arithmetic,
 * what is indented) is handed back unread, so that a caller can say so. */
#ifndef LVN_ASSIGNMENTS_H
#define LVN_ASSIGNMENTS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum lvn_assigned_kind {
    LVN_ASSIGNED_NUMBER,
    LVN_ASSIGNED_TEXT,
    LVN_ASSIGNED_BOOL,
    LVN_ASSIGNED_NONE,
    LVN_ASSIGNED_UNREAD, /* a line that is no such assignment */
};

struct lvn_assigned {
    const char *name; /* NULL: UNREAD, and not an assignment to one name */
    int line;         /* from 1 */
    enum lvn_assigned_kind kind;
    double number;    /* NUMBER; BOOL: 0 or 1 */
    const char *text; /* TEXT: the string; UNREAD: the line; else the value as levin's recipes write it */
};

/* All lines that say something, in their order, in the arena. LVN_FORMAT for what is no text (NUL, not UTF-8), for a
 * string in triple quotes that does not end, and for more than 10,000 lines. */
LVN_CHECKED enum lvn_status lvn_assignments_parse(struct lvn_arena *a, const char *name, const char *text,
                                                  int64_t bytes, const struct lvn_assigned **list, int *n);
LVN_CHECKED enum lvn_status lvn_assignments_read(struct lvn_arena *a, const char *path,
                                                 const struct lvn_assigned **list, int *n);
/* The last assignment to a name that was read; NULL when there is none. */
const struct lvn_assigned *lvn_assignments_find(const struct lvn_assigned *list, int n, const char *name);

#endif
