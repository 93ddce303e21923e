/* assignments.h - parses NAME = LITERAL lines of a Python file without executing anything; used by the import of
 * nanoGPT's configurations.
 *
 * Literals are numbers and products of numbers (5 * 8), strings in quotes of either kind, True, False and None.
 * Comments and free-standing strings are skipped; every other line (imports, calls, conditions, other arithmetic,
 * indented lines) is returned unparsed, so that the caller can report it. */
#ifndef LVN_ASSIGNMENTS_H
#define LVN_ASSIGNMENTS_H

#include "base/arena.h"
#include "base/status.h"

enum lvn_assigned_kind {
    LVN_ASSIGNED_NUMBER,
    LVN_ASSIGNED_TEXT,
    LVN_ASSIGNED_BOOL,
    LVN_ASSIGNED_NONE,
    LVN_ASSIGNED_UNREAD, /* a line that is not such an assignment */
};

struct lvn_assigned {
    const char *name; /* NULL: UNREAD, and not an assignment to a single name */
    int line;         /* from 1 */
    enum lvn_assigned_kind kind;
    double number;    /* NUMBER; BOOL: 0 or 1 */
    const char *text; /* TEXT: the string; UNREAD: the line; otherwise the value as recipes write it */
};

/* All relevant lines in their order, in the arena. LVN_FORMAT for a file that is not text (NUL, not UTF-8), for an
 * unterminated string in triple quotes, and for more than 10,000 lines. */
enum lvn_status lvn_assignments_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                                      const struct lvn_assigned **list, int *n) LVN_CHECKED;
enum lvn_status lvn_assignments_read(struct lvn_arena *a, const char *path, const struct lvn_assigned **list,
                                     int *n) LVN_CHECKED;
/* The last parsed assignment to a name; NULL if there is none. */
const struct lvn_assigned *lvn_assignments_find(const struct lvn_assigned *list, int n, const char *name);

#endif
