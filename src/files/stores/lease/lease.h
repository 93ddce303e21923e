/* lease.h - allows only one job at a time to write to a run's folder, which may be local or in a store. run_dir.h
 * acquires a lease for each run that other machines can reach; uploads (upload_staging.h) check it.
 *
 * The lease is a small file RUN/.lease (in a folder RUN/.lease-N, lease_file.c) that is written conditionally: created
 * only if it does not exist, replaced only if it has not changed. It contains the name of its owner, and a thread of
 * the owner renews it three times per expiration time. Clocks of two machines are never compared: a job that finds
 * another job's lease watches it, and takes it over if it has not changed for its expiration time by the watcher's own
 * clock. A lease of the same job (the next attempt of a launch, the pod that replaces another) is taken over
 * immediately, and so is a lease whose owner has certainly ended, because the lock that it held on this machine is
 * free.
 *
 * If the owner could not renew a lease in time, another job may have taken it over: nothing is written to the run's
 * folder until the lease is renewed. If another job has it, it is lost permanently. Listings omit the file. */
#ifndef LVN_LEASE_H
#define LVN_LEASE_H

#include "stores/store.h"

struct lvn_lease; /* NULL, for all functions below: no other machine can reach the folder, so no lease is needed */

struct lvn_lease_options {
    const char *path; /* of the run: a folder, or a path of a store */
    const char *job;  /* the owner's job; another process of it takes the lease over immediately. NULL: none */
    const char *lock; /* names the lock on this machine that this process holds, see lease_owner.h; "": none */
    double seconds;   /* the lease expires this long after its last renewal */
    bool *busy;       /* NULL: an owner that is alive is an IO error; otherwise set to true, with LVN_OK and no lease */
};

/* Acquire the lease and renew it in the background. If another job owns it, this is logged and the lease is watched;
 * IO with the owner's name if that job is alive. *waited: it belonged to another job before, so the folder may have
 * changed. */
enum lvn_status lvn_lease_acquire(struct lvn_lease **out, const struct lvn_lease_options *options,
                                  bool *waited) LVN_CHECKED;
/* IO, with the new owner's name, if the lease is lost. Makes no request. */
enum lvn_status lvn_lease_check(struct lvn_lease *lease) LVN_CHECKED;
/* Return LVN_OK if writing is allowed now. If the lease was not renewed in time, wait for one more attempt; IO with
 * the reason if that fails. */
enum lvn_status lvn_lease_confirm(struct lvn_lease *lease) LVN_CHECKED;
/* True if writing is allowed; does not wait. */
bool lvn_lease_is_valid(struct lvn_lease *lease);
/* Stop renewing; remove the file unless the lease is lost or expired. */
void lvn_lease_release(struct lvn_lease *lease);

#endif
