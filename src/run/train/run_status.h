/* run_status.h - determines whether a run whose status.json has state "running" still runs. Called by levin watch,
 * levin runs and reports; cluster/rendezvous/membership.c writes status.json. */
#ifndef LVN_RUN_STATUS_H
#define LVN_RUN_STATUS_H

#include <jansson.h>

enum lvn_staleness {
    LVN_STALE_NOT,    /* it runs, or it has recorded its end */
    LVN_STALE_KILLED, /* rank 0's process was on this host and has ended */
    LVN_STALE_SILENT, /* status.json has not changed for too long */
};

/* status: contents of status.json, or NULL. silent: seconds since the file has changed, by one clock. */
enum lvn_staleness lvn_run_staleness(const json_t *status, double silent);

#endif
