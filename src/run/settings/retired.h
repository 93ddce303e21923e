/* retired.h - keys of older versions, which recorded settings still hold (retired.def). Called by settings.c. */
#ifndef LVN_RETIRED_H
#define LVN_RETIRED_H

struct lvn_retired {
    const char *key;
    const char *value;    /* the only one that is accepted: it changes nothing */
    const char *sentence; /* what to do with other values */
};

/* NULL: no version had this key, or it still is one. */
const struct lvn_retired *lvn_retired_find(const char *key);

#endif
