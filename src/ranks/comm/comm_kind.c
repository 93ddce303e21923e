/* comm_kind.c - see comm_kind.h: the table of the kinds of communicators. */
#include "comm/comm_kind.h"

#define LVN_COMM_KIND(name) extern const struct lvn_comm_kind lvn_comm_kind_##name;
#include "comm/comm_kinds_each.h"

static const struct lvn_comm_kind *const kinds[] = {
#define LVN_COMM_KIND(name) &lvn_comm_kind_##name,
#include "comm/comm_kinds_each.h"
};

const struct lvn_comm_kind *lvn_comm_kind_at(int i)
{
    return i >= 0 && i < (int)(sizeof kinds / sizeof *kinds) ? kinds[i] : NULL;
}

const struct lvn_comm_kind *lvn_comm_kind_find(const char *name)
{
    for (int i = 0; lvn_comm_kind_at(i); i++)
        if (!strcmp(lvn_comm_kind_at(i)->name, name)) return lvn_comm_kind_at(i);
    return NULL;
}

const struct lvn_comm_kind *lvn_comm_kind_by_connection(enum lvn_connection connection)
{
    int i = 0;
    while (lvn_comm_kind_at(i) && lvn_comm_kind_at(i)->connection != connection) i++;
    return lvn_comm_kind_at(i);
}

bool lvn_comm_kind_connects(const struct lvn_comm_kind *kind)
{
    return kind->connection == LVN_CONNECTED_BY_LAUNCHER || kind->connection == LVN_CONNECTED_BY_SOCKETS;
}
