/* retired.c - see retired.h. */
#include "settings/retired.h"

#include <stddef.h>
#include <string.h>

#ifndef LVN_RETIRED_TABLE /* a test has its own */
#define LVN_RETIRED_TABLE "settings/retired.def"
#endif

static const struct lvn_retired rows[] = {
#define LVN_RETIRED(key, value, sentence) {key, value, sentence},
#include LVN_RETIRED_TABLE
    {NULL, NULL, NULL}};

const struct lvn_retired *lvn_retired_find(const char *key)
{
    for (int i = 0; rows[i].key; i++)
        if (!strcmp(rows[i].key, key)) return &rows[i];
    return NULL;
}
