/* lease_file.h - leases in folders that other machines may reach; run_dir.c and lease.c call it. */
#ifndef LVN_LEASE_FILE_H
#define LVN_LEASE_FILE_H

#include <stdbool.h>

/* Is a lock of this machine not enough for the folder, because other machines may reach it (NFS and the like)? */
bool lvn_lease_is_needed(const char *folder);

#endif
