/* server_broadcast.c - messages of the rendezvous server to the ranks: start, tables, faults.
 *
 * Sending the same lines to every rank would grow with the square of the number of ranks. So the whole table is sent to
 * a few ranks only, one of which writes status.json: the lowest ranks, the lowest on another host, and the lowest that
 * is connected. All others receive changes of state, the state of rank 0, because they may have to report its silence,
 * and the state of the ranks on their own host. */

#include "base/log.h"
#include "cluster/rendezvous/server_private.h"
#include "host/machine.h"

enum { READERS = 4 };

static void send_lines(struct lvn_server_client *client, const struct lvn_text *t)
{
    enum { MAX = 1 << 24 }; /* a rank that does not read for that long is detected as lost */
    if (client->wire.out.n < MAX) lvn_text_add_bytes(&client->wire.out, t->p ? t->p : "", t->n);
}

void lvn_server_broadcast(struct lvn_server *server, const struct lvn_text *t)
{
    for (int k = 0; k < server->n_clients; k++)
        if (server->client[k]->rank >= 0) send_lines(server->client[k], t);
}

int lvn_server_lowest(const struct lvn_server *server)
{
    int lowest = -1;
    for (int k = 0; k < server->n_clients; k++) {
        int rank = server->client[k]->rank;
        if (rank >= 0 && server->peer[rank].state != LVN_PEER_LOST && (lowest < 0 || rank < lowest)) lowest = rank;
    }
    return lowest;
}

void lvn_server_log_missing(struct lvn_server *server, double now)
{
    const double first = 10, pause = 60; /* seconds */
    struct lvn_text t = {0};
    int missing = 0;
    if (!server->next_missing) server->next_missing = now + first;
    if (now < server->next_missing) return;
    server->next_missing = now + pause;
    bool *flag = calloc((size_t)server->o.size, sizeof *flag);
    for (int i = 0; flag && i < server->o.size; i++) missing += flag[i] = server->peer[i].state == LVN_PEER_ABSENT;
    if (missing) lvn_ranks_text(flag, server->o.size, 0, &t);
    if (missing) lvn_log(LVN_LOG_INFO, "waiting for %d of %d ranks: %.200s", missing, server->o.size, t.p ? t.p : "");
    lvn_text_release(&t);
    free(flag);
}

static bool is_reader(const struct lvn_server *server, int rank, int lowest)
{
    return rank < READERS || rank == server->lowest_remote || rank == lowest;
}

/* --- the start --- */

/* A rank, and the text by which ranks are grouped: a host, or the value of a fact (NULL: none). */
struct item {
    const char *text;
    int rank;
    int first; /* the lowest rank with the same text */
};

static int compare_texts(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

static int by_text(const void *a, const void *b)
{
    const struct item *item = a, *y = b;
    int order = compare_texts(item->text, y->text);
    return order ? order : item->rank - y->rank;
}

static int by_first(const void *a, const void *b)
{
    const struct item *item = a, *y = b;
    return item->first != y->first ? item->first - y->first : item->rank - y->rank;
}

/* Sort so that ranks with the same text are adjacent, groups and ranks in ascending order. */
static void group_items(struct item *item, int n)
{
    qsort(item, (size_t)n, sizeof *item, by_text);
    for (int i = 0; i < n; i++)
        item[i].first = i && !compare_texts(item[i].text, item[i - 1].text) ? item[i - 1].first : item[i].rank;
    qsort(item, (size_t)n, sizeof *item, by_first);
}

static int end_of_group(const struct item *item, int n, int at)
{
    int end = at;
    while (end < n && item[end].first == item[at].first) end++;
    return end;
}

static void add_peer(const struct lvn_server *server, int rank, struct lvn_text *t)
{
    lvn_message_add(t, LVN_MESSAGE_PEER, (int64_t)rank, server->peer[rank].pid, server->peer[rank].host);
}

/* For each key: its values, the ranks that have each, and the PEER line of the first of them. */
static void add_groups(const struct lvn_server *server, struct item *item, bool *flag, struct lvn_text *t)
{
    const int n = server->o.size;
    for (int k = 0; k < LVN_FACTS && server->key[k]; k++) {
        for (int i = 0; i < n; i++) item[i] = (struct item){.text = server->facts[i].value[k], .rank = i};
        group_items(item, n);
        for (int i = 0, end; i < n; i = end) {
            struct lvn_text ranks = {0};
            end = end_of_group(item, n, i);
            const int low = item[i].rank, high = item[end - 1].rank;
            for (int m = i; m < end; m++) flag[item[m].rank] = true;
            lvn_ranks_text(flag + low, high - low + 1, low, &ranks);
            for (int m = i; m < end; m++) flag[item[m].rank] = false;
            const char *text = lvn_text_string(&ranks);
            add_peer(server, low, t);
            lvn_message_add(t, LVN_MESSAGE_GROUP, server->key[k], item[i].text ? item[i].text : "", text ? text : "");
            lvn_text_release(&ranks);
        }
    }
}

/* Send the ranks [from, end) of a host the PEER lines of each other; client_of[rank] is the rank's connection. */
static void send_host(const struct lvn_server *server, const struct item *item, int from, int end,
                      struct lvn_server_client *const *client_of)
{
    struct lvn_text t = {0};
    for (int i = from; i < end; i++) add_peer(server, item[i].rank, &t);
    for (int i = from; i < end; i++)
        if (client_of[item[i].rank]) send_lines(client_of[item[i].rank], &t);
    lvn_text_release(&t);
}

void lvn_server_send_start(struct lvn_server *server)
{
    const int n = server->o.size;
    struct lvn_text all = {0}, groups = {0}, start = {0};
    struct item *item = calloc((size_t)n, sizeof *item);
    bool *flag = calloc((size_t)n, sizeof *flag);
    struct lvn_server_client **client_of = calloc((size_t)n, sizeof *client_of);
    server->lowest_remote = -1;
    for (int i = n - 1; i > 0; i--)
        if (strcmp(server->peer[i].host, server->peer[0].host) != 0) server->lowest_remote = i;
    for (int i = 0; i < n; i++) add_peer(server, i, &all);
    for (int k = 0; client_of && k < server->n_clients; k++) {
        struct lvn_server_client *client = server->client[k];
        if (client->rank < 0) continue;
        client_of[client->rank] = client;
        client->gets_table = is_reader(server, client->rank, -1);
        if (client->gets_table) send_lines(client, &all);
    }
    if (item && flag && client_of) {
        for (int i = 0; i < n; i++) item[i] = (struct item){.text = server->peer[i].host, .rank = i};
        group_items(item, n);
        for (int i = 0, end; i < n; i = end) send_host(server, item, i, end = end_of_group(item, n, i), client_of);
        add_groups(server, item, flag, &groups);
        lvn_server_broadcast(server, &groups);
    }
    lvn_message_add(&start, LVN_MESSAGE_START);
    lvn_server_broadcast(server, &start);
    lvn_text_release(&all);
    lvn_text_release(&groups);
    lvn_text_release(&start);
    free(client_of);
    free(flag);
    free(item);
}

/* --- tables --- */

static void add_row(const struct lvn_peer *peer, double now, struct lvn_text *t)
{
    lvn_message_add(t, LVN_MESSAGE_ROW, (int64_t)peer->rank, (int64_t)peer->state, peer->step,
                    (int64_t)peer->collective, (int64_t)peer->collectives, peer->tokens_per_s, peer->compute_s,
                    peer->memory, now - peer->last_heard, peer->operation);
}

void lvn_server_send_table(struct lvn_server *server, double now)
{
    struct lvn_text rows = {0}, news = {0}, whole = {0};
    const int lowest = lvn_server_lowest(server);
    for (int i = 0; i < server->o.size; i++) {
        const struct lvn_peer *peer = &server->peer[i];
        const bool changed = server->sent[i].state != peer->state,
                   heard = server->sent[i].last_heard < peer->last_heard;
        if (changed || heard) add_row(peer, now, &rows);
        if (changed || (heard && !i)) add_row(peer, now, &news);
        server->sent[i].state = peer->state;
        server->sent[i].last_heard = peer->last_heard;
    }
    for (int k = 0; k < server->n_clients; k++) {
        struct lvn_server_client *client = server->client[k];
        const bool gets_table = is_reader(server, client->rank, lowest);
        if (client->rank < 0) continue;
        if (gets_table && !client->gets_table && !whole.n)
            for (int i = 0; i < server->o.size; i++) add_row(&server->peer[i], now, &whole);
        send_lines(client, !gets_table          ? &news
                           : client->gets_table ? &rows
                                                : &whole); /* a new reader has not received an earlier table */
        client->gets_table = gets_table;
    }
    lvn_text_release(&rows);
    lvn_text_release(&news);
    lvn_text_release(&whole);
}
