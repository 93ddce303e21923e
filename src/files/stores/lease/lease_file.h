/* lease_file.h - leases in folders that other machines may reach; src/run/train/run_dir_lock.c calls it. */
#ifndef LVN_LEASE_FILE_H
#define LVN_LEASE_FILE_H

#include <stdbool.h>

/* True if a lock on this machine is not sufficient because other machines may reach the folder (for example NFS). */
bool lvn_lease_is_needed(const char *folder);

#endif
