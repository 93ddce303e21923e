/* lease_place.h - where a lease's file is stored: in a store (lease_object.c) or in a folder (lease_file.c); used by
 * lease.c. Private to src/files/stores. */
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
    char *last;                      /* its content at that time; NULL: there is none */
    double race_seconds;             /* within which two jobs that start together see each other's lease */
    /* --- lease_object.c --- */
    struct lvn_location location;
    struct lvn_http *http;
    enum lvn_conditions conditions; /* whether the server respects them */
};

struct lvn_lease_place_ops {
    /* close() releases everything, also after a failure. */
    enum lvn_status (*open)(struct lvn_lease_place *place) LVN_CHECKED;
    void (*close)(struct lvn_lease_place *place);
    /* Read the file into `last` and `version`. */
    enum lvn_status (*read)(struct lvn_lease_place *place) LVN_CHECKED;
    /* Write the file if it is still `version`. `own`: that version was written by this process. */
    enum lvn_status (*write)(struct lvn_lease_place *place, const char *text, bool own,
                             enum lvn_store_written *written) LVN_CHECKED;
    /* Remove the file if it is still `version`. */
    enum lvn_status (*remove)(struct lvn_lease_place *place) LVN_CHECKED;
};
extern const struct lvn_lease_place_ops lvn_lease_object, lvn_lease_file;
/* Set place->last to a copy. */
enum lvn_status lvn_lease_place_set(struct lvn_lease_place *place, const char *text) LVN_CHECKED;

#endif
