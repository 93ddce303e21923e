/* getenv.h - environment variables. */
#ifndef LVN_GETENV_H
#define LVN_GETENV_H

#include <stdlib.h>

/* The value of the variable; NULL if it is not set or empty. */
static inline const char *lvn_getenv(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

#endif
