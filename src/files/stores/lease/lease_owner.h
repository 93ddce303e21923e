/* lease_owner.h - the owner of a lease, as written to its file and to a run's lock file; used by lease.c and run_dir.c.
 */
#ifndef LVN_LEASE_OWNER_H
#define LVN_LEASE_OWNER_H

#include "base/text.h"
#include "stores/lease/lease.h"

enum { LVN_LEASE_TEXT = 1024 };
/* A globally unique name of the lock that this process holds on an open file. */
enum { LVN_LEASE_LOCK_TEXT = 96 };
void lvn_lease_lock(int fd, char text[LVN_LEASE_LOCK_TEXT]);

/* The content of the file: one line of JSON. */
struct lvn_lease_owner {
    char instance[33]; /* random: one process */
    char job[128];     /* "": none */
    char host[128];
    char user[64];
    char since[32]; /* UTC, as "2026-11-24T19:30:00Z": when the owner started, by its clock */
    char lock[LVN_LEASE_LOCK_TEXT];
    long long pid;
    long long renewals;
    double seconds; /* after which the lease expires */
};
enum lvn_status lvn_lease_owner_init(struct lvn_lease_owner *owner,
                                     const struct lvn_lease_options *options) LVN_CHECKED;
enum lvn_status lvn_lease_owner_write(const struct lvn_lease_owner *owner, struct lvn_text *t) LVN_CHECKED;
/* False: the text was not written by levin; *owner is then empty. */
bool lvn_lease_owner_read(struct lvn_lease_owner *owner, const char *text);
/* "job J of user U on host H (pid P), since T", in text. */
const char *lvn_lease_owner_name(const struct lvn_lease_owner *owner, char text[LVN_LEASE_TEXT]);

/* The text that the owner of a folder writes to its lock file. */
void lvn_lease_owner_text(const struct lvn_lease_options *options, char text[LVN_LEASE_TEXT]);
/* "job J of user U on host H (pid P), since T" from such a text; false: the text is invalid. */
bool lvn_lease_owner_describe(const char *owner, char text[LVN_LEASE_TEXT]);

#endif
