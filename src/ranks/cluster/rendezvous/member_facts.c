/* member_facts.c - the facts of the ranks, and their differences. The server has grouped the ranks by equal values
 * (GROUP messages). */

#include "cluster/rendezvous/member_private.h"

/* True if the rank is in a list such as "0-2,5". */
static bool among(const char *list, int rank)
{
    long first, last;
    while (lvn_range_next(&list, &first, &last))
        if (rank >= first && rank <= last) return true;
    return false;
}

static int count(const struct lvn_member *member, const char *list)
{
    int n = 0;
    for (int i = 0; i < member->size; i++) n += among(list, i);
    return n;
}

const char *lvn_member_fact(const struct lvn_member *member, int rank, const char *key)
{
    for (int i = 0; member && i < member->n_groups; i++) {
        if (!strcmp(member->group[i].key, key) && among(member->group[i].ranks, rank)) return member->group[i].value;
    }
    return "";
}

bool lvn_member_difference(const struct lvn_member *member, const char *key, char *text, size_t size)
{
    const struct lvn_fact_group *max = NULL, *other = NULL;
    int groups = 0, n_max = 0;
    for (int i = 0; member && i < member->n_groups; i++) {
        if (strcmp(member->group[i].key, key) != 0) continue;
        groups++;
        int n = count(member, member->group[i].ranks);
        if (n > n_max) {
            max = &member->group[i];
            n_max = n;
        }
    }
    for (int i = 0; i < (groups > 1 ? member->n_groups : 0) && !other; i++) {
        if (!strcmp(member->group[i].key, key) && &member->group[i] != max) other = &member->group[i];
    }
    if (!other || !max) return false;
    int first = 0, n = count(member, other->ranks);
    while (first < member->size && !among(other->ranks, first)) first++;
    if (first == member->size) return false;
    char rest[64];
    if (n_max == 1) {
        snprintf(rest, sizeof rest, "rank %.20s has", max->ranks);
    } else {
        snprintf(rest, sizeof rest, "%s%d have", n + n_max == member->size ? "the other " : "", n_max);
    }
    if (n == 1) {
        snprintf(text, size, "rank %d on %s has %s '%.200s', %s '%.200s'%s", first, member->peer[first].host, key,
                 other->value, rest, max->value, groups > 2 ? ", and others differ too" : "");
    } else {
        snprintf(text, size, "ranks %.100s (the first on %s) have %s '%.200s', %s '%.200s'%s", other->ranks,
                 member->peer[first].host, key, other->value, rest, max->value,
                 groups > 2 ? ", and others differ too" : "");
    }
    return true;
}
