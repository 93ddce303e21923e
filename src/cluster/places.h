/* places.h - where processes of a run find each other on the network.
 *
 * A place is written "PORT,HOST,ADDRESS,ADDRESS,...": a host by its name and all its addresses; or "HOST:PORT" or
 * "[IPV6]:PORT", as people write it. */
#ifndef LVN_PLACES_H
#define LVN_PLACES_H

#include <stddef.h>

#include "base/status.h"

enum { LVN_PLACES_TEXT = 1200 };

/* Listen on an address or host name (NULL: on all) and a port (0: any). *out does not block. IO with a sentence when
 * the port is in use or the address is not this host's. */
enum lvn_status lvn_listen(const char *host, int port, int *out) LVN_CHECKED;
/* See that this process may open so many files for so many ranks, beside what else it opens: the limit is raised as far
 * as it may be. IO where that is too few. */
enum lvn_status lvn_allow_files(int ranks, int files) LVN_CHECKED;
/* Where this process can be found that listens there: the long form. */
void lvn_places_name(int listening, char *out, size_t room);
#define LVN_MEETING "rank 0 or levin launch, where the ranks meet,"
/* Connect to one of the places in `address`, which are `who`'s, trying again for `patience` seconds while nobody
 * listens. *fd does not block. COMM with the reason otherwise. `skip`: how many of the places to pass over; *place:
 * which one was taken. */
enum lvn_status lvn_places_connect(const char *address, const char *who, double patience, int skip, int *place,
                                   int *fd) LVN_CHECKED;

#endif
