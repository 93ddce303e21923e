/* member_facts.c - facts of the ranks, and where they differ. The server has grouped the ranks by equal values
 * (GROUP messages). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/rendezvous/member_private.h"

/* Is the rank in "0-2,5"? */
static bool among(const char *list, int rank)
{
    for (const char *p = list; *p;) {
        char *end;
        long first = strtol(p, &end, 10), last = first;
        if (end == p) return false;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (rank >= first && rank <= last) return true;
        p = *end ? end + 1 : end;
    }
    return false;
}

static int count(const struct lvn_member *h, const char *list)
{
    int n = 0;
    for (int i = 0; i < h->size; i++) n += among(list, i);
    return n;
}

const char *lvn_member_fact(const struct lvn_member *h, int rank, const char *key)
{
    for (int i = 0; h && i < h->n_groups; i++) {
        if (!strcmp(h->group[i].key, key) && among(h->group[i].ranks, rank)) return h->group[i].value;
    }
    return "";
}

bool lvn_member_difference(const struct lvn_member *h, const char *key, char *text, size_t capacity)
{
    const struct lvn_fact_group *max = NULL, *other = NULL;
    int groups = 0, n_max = 0;
    for (int i = 0; h && i < h->n_groups; i++) {
        if (strcmp(h->group[i].key, key) != 0) continue;
        groups++;
        int n = count(h, h->group[i].ranks);
        if (n > n_max) {
            max = &h->group[i];
            n_max = n;
        }
    }
    for (int i = 0; i < (groups > 1 ? h->n_groups : 0) && !other; i++) {
        if (!strcmp(h->group[i].key, key) && &h->group[i] != max) other = &h->group[i];
    }
    if (!other || !max) return false;
    int first = 0, n = count(h, other->ranks);
    while (first < h->size && !among(other->ranks, first)) first++;
    if (first == h->size) return false;
    char rest[64];
    if (n_max == 1) {
        snprintf(rest, sizeof rest, "rank %.20s has", max->ranks);
    } else {
        snprintf(rest, sizeof rest, "%s%d have", n + n_max == h->size ? "the other " : "", n_max);
    }
    if (n == 1) {
        snprintf(text, capacity, "rank %d on %s has %s '%.200s', %s '%.200s'%s", first, h->peer[first].host, key,
                 other->value, rest, max->value, groups > 2 ? ", and others differ too" : "");
    } else {
        snprintf(text, capacity, "ranks %.100s (the first on %s) have %s '%.200s', %s '%.200s'%s", other->ranks,
                 h->peer[first].host, key, other->value, rest, max->value, groups > 2 ? ", and others differ too" : "");
    }
    return true;
}
