/* run_status.h - whether a run whose status.json says "running" still runs. Called by levin watch, levin runs and
 * reports; status.json itself is written by cluster/rendezvous/membership.c. */
#ifndef LVN_RUN_STATUS_H
#define LVN_RUN_STATUS_H

#include <jansson.h>

enum lvn_staleness {
    LVN_STALE_NOT,    /* it runs, or it has ended and said so */
    LVN_STALE_KILLED, /* rank 0's process was on this host and is gone */
    LVN_STALE_SILENT, /* status.json has not changed for too long */
};

/* status: of status.json, NULL if there is none. silent: seconds since the file has changed, by one clock. */
enum lvn_staleness lvn_run_staleness(const json_t *status, double silent);

#endif
