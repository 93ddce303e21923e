/* lease_place.h - where a lease's file is: in a store (lease_object.c) or in a folder (lease_file.c).
 * lease.c calls it. Private to src/stores. */
#ifndef LVN_LEASE_PLACE_H
#define LVN_LEASE_PLACE_H

#include "stores/lease/lease.h"
#include "stores/store_condition.h"

enum { LVN_LEASE_MAX_BYTES = 16 << 10 };
enum lvn_conditions { LVN_CONDITIONS_UNKNOWN, LVN_CONDITIONS_HOLD, LVN_CONDITIONS_IGNORED };

struct lvn_lease_place {
    const struct lvn_lease_place_ops *ops;
    struct lvn_arena arena;
    const char *path;                /* of the run */
    char version[LVN_STORE_VERSION]; /* of the file as it was last read or written; "": there is none */
    char *last;                      /* its content then; NULL: there is none */
    double race_seconds;             /* in which two jobs that begin together see each other's lease */
    /* --- lease_object.c --- */
    struct lvn_location location;
    struct lvn_http *http;
    enum lvn_conditions conditions; /* does the server obey them? */
};

struct lvn_lease_place_ops {
    /* Whatever was opened is released by close(), also after a failure. */
    enum lvn_status (*open)(struct lvn_lease_place *p) LVN_CHECKED;
    void (*close)(struct lvn_lease_place *p);
    /* Reads the file into `last` and `version`. */
    enum lvn_status (*read)(struct lvn_lease_place *p) LVN_CHECKED;
    /* Writes the file if it is still `version`. `own`: that version is this process's own. */
    enum lvn_status (*write)(struct lvn_lease_place *p, const char *text, bool own,
                             enum lvn_store_written *written) LVN_CHECKED;
    /* Removes the file if it is still `version`. */
    enum lvn_status (*remove)(struct lvn_lease_place *p) LVN_CHECKED;
};
extern const struct lvn_lease_place_ops lvn_lease_object, lvn_lease_file;
/* Sets p->last to a copy. */
LVN_CHECKED enum lvn_status lvn_lease_place_set(struct lvn_lease_place *p, const char *text);

#endif
