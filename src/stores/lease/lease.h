/* lease.h - a run's folder, here or in a store, belongs to one job at a time: the lease names it. run_dir.h takes one
 * for each run that other machines can reach; uploads (upload_staging.h) hold on to it.
 *
 * The lease is a small file RUN/.lease (in a folder RUN/.lease-N, lease_file.c) that is written on condition: created
 * only if there is none, replaced only if it has not changed. It names its owner, and a thread of the owner renews it
 * three times within the time after which it expires. Clocks of two machines are never compared: who finds another
 * job's lease watches it, and takes it over if it has not changed for its whole time by the watcher's own clock. A
 * lease of the same job (the next attempt of a launch, the pod that replaces another) is taken over at once, and so is
 * one whose owner has died for certain, because the lock that it held on this machine is free.
 *
 * Without renewal for its whole time the lease may belong to somebody else: nothing is written to the run's folder
 * until it is renewed. If it does belong to somebody else, it is lost, for good. Listings leave the file out. */
#ifndef LVN_LEASE_H
#define LVN_LEASE_H

#include <stdbool.h>

#include "stores/store.h"

struct lvn_lease; /* NULL, for all functions below: nobody else can reach the folder, so there is no lease */

struct lvn_lease_options {
    const char *path; /* of the run: a folder, or a path of a store */
    const char *job;  /* the owner's job; another process of it takes the lease over at once. NULL: none */
    const char *lock; /* names the lock on this machine that this process holds, see lease_owner.h; "": none */
    double seconds;   /* the lease expires so long after its last renewal */
};

/* Take the lease, and renew it in the background. If another job owns it, this is logged and watched; IO, with a
 * sentence that names the owner, if that job is alive. *waited: it belonged to another job until now, so the folder may
 * have changed. */
LVN_CHECKED enum lvn_status lvn_lease_take(struct lvn_lease **out, const struct lvn_lease_options *options,
                                           bool *waited);
/* IO, with a sentence that names the new owner, if the lease is lost. Makes no request. */
LVN_CHECKED enum lvn_status lvn_lease_check(struct lvn_lease *l);
/* May something be written now? If the lease has not been renewed for its time, waits for one more attempt; IO, with
 * the reason, if that fails. */
LVN_CHECKED enum lvn_status lvn_lease_confirm(struct lvn_lease *l);
/* The same without waiting. */
bool lvn_lease_holds(struct lvn_lease *l);
/* Stop renewing; remove the file unless the lease is lost or expired. */
void lvn_lease_release(struct lvn_lease *l);

#endif
