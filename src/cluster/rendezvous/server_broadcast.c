/* server_broadcast.c - messages of the rendezvous server to the ranks: start, tables, faults.
 *
 * The same lines to every rank would grow with the square of the number of ranks. So the whole table goes to a few
 * ranks, of which one writes status.json: the lowest ranks, the lowest of another host, and the lowest that is
 * connected. All others receive changes of state, the state of rank 0, whose silence they may have to report, and of
 * the ranks on their own host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/rendezvous/server_private.h"
#include "host/machine.h"

enum { READERS = 4 };

static void send_lines(struct lvn_server_client *c, const struct lvn_text *t)
{
    enum { MAX = 1 << 24 }; /* a rank that does not read for so long is detected as lost */
    if (c->wire.out.n < MAX) lvn_text_add_bytes(&c->wire.out, t->p ? t->p : "", t->n);
}

void lvn_server_broadcast(struct lvn_server *s, const struct lvn_text *t)
{
    for (int k = 0; k < s->n_clients; k++)
        if (s->client[k]->rank >= 0) send_lines(s->client[k], t);
}

int lvn_server_lowest(const struct lvn_server *s)
{
    int lowest = -1;
    for (int k = 0; k < s->n_clients; k++) {
        int rank = s->client[k]->rank;
        if (rank >= 0 && s->peer[rank].state != LVN_PEER_LOST && (lowest < 0 || rank < lowest)) lowest = rank;
    }
    return lowest;
}

void lvn_server_log_missing(struct lvn_server *s, double now)
{
    const double first = 10, pause = 60; /* seconds */
    struct lvn_text t = {0};
    int missing = 0;
    if (!s->next_missing) s->next_missing = now + first;
    if (now < s->next_missing) return;
    s->next_missing = now + pause;
    bool *flag = calloc((size_t)s->o.size, sizeof *flag);
    for (int i = 0; flag && i < s->o.size; i++) missing += flag[i] = s->peer[i].state == LVN_PEER_ABSENT;
    if (missing) lvn_ranks_text(flag, s->o.size, 0, &t);
    if (missing) lvn_log(LVN_LOG_INFO, "waiting for %d of %d ranks: %.200s", missing, s->o.size, t.p ? t.p : "");
    lvn_text_release(&t);
    free(flag);
}

static bool is_reader(const struct lvn_server *s, int rank, int lowest)
{
    return rank < READERS || rank == s->lowest_remote || rank == lowest;
}

/* --- the start --- */

/* A rank, and the text by which ranks are grouped: a fact's value, NULL for none, or a host. */
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
    const struct item *x = a, *y = b;
    int order = compare_texts(x->text, y->text);
    return order ? order : x->rank - y->rank;
}

static int by_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : x->rank - y->rank;
}

/* Sort so that ranks with the same text are adjacent, groups and ranks in rising order. */
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

static void add_peer(const struct lvn_server *s, int rank, struct lvn_text *t)
{
    lvn_message_add(t, LVN_MESSAGE_PEER, (int64_t)rank, s->peer[rank].pid, s->peer[rank].host);
}

/* For each key: its values, which ranks have each, and who the first of each are. */
static void add_groups(const struct lvn_server *s, struct item *item, bool *flag, struct lvn_text *t)
{
    const int n = s->o.size;
    for (int k = 0; k < LVN_FACTS && s->key[k]; k++) {
        for (int i = 0; i < n; i++) item[i] = (struct item){.text = s->facts[i].value[k], .rank = i};
        group_items(item, n);
        for (int i = 0, end; i < n; i = end) {
            struct lvn_text ranks = {0};
            end = end_of_group(item, n, i);
            const int low = item[i].rank, high = item[end - 1].rank;
            for (int m = i; m < end; m++) flag[item[m].rank] = true;
            lvn_ranks_text(flag + low, high - low + 1, low, &ranks);
            for (int m = i; m < end; m++) flag[item[m].rank] = false;
            const char *text = lvn_text_string(&ranks);
            add_peer(s, low, t);
            lvn_message_add(t, LVN_MESSAGE_GROUP, s->key[k], item[i].text ? item[i].text : "", text ? text : "");
            lvn_text_release(&ranks);
        }
    }
}

/* Send the ranks [from, end) of a host the PEER lines of each other; client_of[rank] is the rank's connection. */
static void send_host(const struct lvn_server *s, const struct item *item, int from, int end,
                      struct lvn_server_client *const *client_of)
{
    struct lvn_text t = {0};
    for (int i = from; i < end; i++) add_peer(s, item[i].rank, &t);
    for (int i = from; i < end; i++)
        if (client_of[item[i].rank]) send_lines(client_of[item[i].rank], &t);
    lvn_text_release(&t);
}

void lvn_server_send_start(struct lvn_server *s)
{
    const int n = s->o.size;
    struct lvn_text all = {0}, groups = {0}, start = {0};
    struct item *item = calloc((size_t)n, sizeof *item);
    bool *flag = calloc((size_t)n, sizeof *flag);
    struct lvn_server_client **client_of = calloc((size_t)n, sizeof *client_of);
    s->lowest_remote = -1;
    for (int i = n - 1; i > 0; i--)
        if (strcmp(s->peer[i].host, s->peer[0].host) != 0) s->lowest_remote = i;
    for (int i = 0; i < n; i++) add_peer(s, i, &all);
    for (int k = 0; client_of && k < s->n_clients; k++) {
        struct lvn_server_client *c = s->client[k];
        if (c->rank < 0) continue;
        client_of[c->rank] = c;
        c->gets_table = is_reader(s, c->rank, -1);
        if (c->gets_table) send_lines(c, &all);
    }
    if (item && flag && client_of) {
        for (int i = 0; i < n; i++) item[i] = (struct item){.text = s->peer[i].host, .rank = i};
        group_items(item, n);
        for (int i = 0, end; i < n; i = end) send_host(s, item, i, end = end_of_group(item, n, i), client_of);
        add_groups(s, item, flag, &groups);
        lvn_server_broadcast(s, &groups);
    }
    lvn_message_add(&start, LVN_MESSAGE_START);
    lvn_server_broadcast(s, &start);
    lvn_text_release(&all);
    lvn_text_release(&groups);
    lvn_text_release(&start);
    free(client_of);
    free(flag);
    free(item);
}

/* --- tables --- */

static void add_row(const struct lvn_peer *p, double now, struct lvn_text *t)
{
    lvn_message_add(t, LVN_MESSAGE_ROW, (int64_t)p->rank, (int64_t)p->state, p->step, (int64_t)p->collective,
                    (int64_t)p->collectives, p->tokens_per_s, p->compute_s, p->memory, now - p->last_heard,
                    p->operation);
}

void lvn_server_send_table(struct lvn_server *s, double now)
{
    struct lvn_text rows = {0}, news = {0}, whole = {0};
    const int lowest = lvn_server_lowest(s);
    for (int i = 0; i < s->o.size; i++) {
        const struct lvn_peer *p = &s->peer[i];
        const bool changed = s->sent[i].state != p->state, heard = s->sent[i].last_heard < p->last_heard;
        if (changed || heard) add_row(p, now, &rows);
        if (changed || (heard && !i)) add_row(p, now, &news);
        s->sent[i].state = p->state;
        s->sent[i].last_heard = p->last_heard;
    }
    for (int k = 0; k < s->n_clients; k++) {
        struct lvn_server_client *c = s->client[k];
        const bool gets_table = is_reader(s, c->rank, lowest);
        if (c->rank < 0) continue;
        if (gets_table && !c->gets_table && !whole.n)
            for (int i = 0; i < s->o.size; i++) add_row(&s->peer[i], now, &whole);
        send_lines(c, !gets_table     ? &news
                      : c->gets_table ? &rows
                                      : &whole); /* a new reader has received no earlier table */
        c->gets_table = gets_table;
    }
    lvn_text_release(&rows);
    lvn_text_release(&news);
    lvn_text_release(&whole);
}
