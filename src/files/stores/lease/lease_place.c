/* lease_place.c - see lease_place.h. */
#include "stores/lease/lease_place.h"

enum lvn_status lvn_lease_place_set(struct lvn_lease_place *place, const char *text)
{
    char *copy = lvn_strdup(text);
    if (!copy) return LVN_MEMORY;
    free(place->last);
    place->last = copy;
    return LVN_OK;
}
