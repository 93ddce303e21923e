/* api.c - version, meaning of a status, locale and texts of the public functions: see api.h and include/levin.h. */
#include "api/api.h"

#include <stdlib.h>

locale_t lvn_api_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* "C" always exists, and takes no memory */
}

int lvn_api_return(locale_t before, enum lvn_status status)
{
    uselocale(before);
    return (int)status;
}

int lvn_abi_version(void)
{
    return LVN_ABI_VERSION;
}

const char *lvn_version(void)
{
    return LVN_VERSION;
}

enum lvn_outcome lvn_outcome(int status)
{
    switch (status) {
    case LVN_OK:
        return LVN_OUTCOME_DONE;
    case LVN_ARG:
        return LVN_OUTCOME_INPUT;
    case LVN_STOPPED:
        return LVN_OUTCOME_STOPPED;
    case LVN_COMM:
        return LVN_OUTCOME_LOST;
    default:
        return LVN_OUTCOME_FAULT;
    }
}

void lvn_free(void *p)
{
    free(p);
}
