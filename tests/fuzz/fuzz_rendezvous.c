/* fuzz_rendezvous.c - messages of strangers and broken ranks, to the server and to a rank.
 *
 * Each line of the input goes to one of four clients (by its first byte) of a server without sockets, and to a rank. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/rendezvous/member_private.h"
#include "cluster/rendezvous/server_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE = 3, CALLERS = 4 };

static void make(struct lvn_server *s, struct lvn_server_client *callers, struct lvn_server_client **list,
                 struct lvn_peer *peer, struct lvn_fact_values *facts, struct lvn_sent_row *sent_rows)
{
    *s = (struct lvn_server){.o = {.size = SIZE, .timeout = 30, .join_timeout = 60},
                             .token = "t",
                             .client = list,
                             .n_clients = CALLERS,
                             .peer = peer,
                             .facts = facts,
                             .sent = sent_rows,
                             .n_unidentified = CALLERS,
                             .fault_rank = -1};
    for (int i = 0; i < CALLERS; i++) {
        callers[i].rank = callers[i].wire.fd = -1;
        list[i] = &callers[i];
    }
    for (int i = 0; i < SIZE; i++) peer[i].rank = i;
}

static void to_server(const char *text, size_t size)
{
    static struct lvn_server_client callers[CALLERS];
    struct lvn_server_client *list[CALLERS];
    struct lvn_server s;
    struct lvn_peer peer[SIZE] = {0};
    struct lvn_fact_values facts[SIZE] = {0};
    struct lvn_sent_row sent_rows[SIZE] = {0};
    memset(callers, 0, sizeof callers);
    make(&s, callers, list, peer, facts, sent_rows);
    char line[LVN_WIRE_LINE];
    bool gone[CALLERS] = {false};
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at : size - at;
        int who = n ? (unsigned char)text[at] % CALLERS : 0;
        struct lvn_message m;
        if (n > 1 && n < sizeof line && !gone[who] && !callers[who].closing) {
            memcpy(line, text + at + 1, n - 1);
            line[n - 1] = '\0';
            if (!lvn_message_parse(line, &m) || !lvn_server_receive(&s, &callers[who], &m)) {
                gone[who] = true;
                if (callers[who].rank >= 0) lvn_server_rank_lost(&s, callers[who].rank);
            }
        }
        at += n + 1;
    }
    lvn_server_send_table(&s, 1);
    if (s.phase == LVN_SERVER_GATHERING) lvn_server_missing(&s);
    if (s.phase < LVN_SERVER_ENDED) lvn_server_declare(&s);
    for (int i = 0; i < CALLERS; i++) lvn_text_release(&callers[i].wire.out);
    for (int k = 0; k < LVN_FACTS; k++) {
        free(s.key[k]);
        for (int i = 0; i < SIZE; i++) free(facts[i].value[k]);
    }
}

static void to_rank(const char *text, size_t size)
{
    struct lvn_peer peer[SIZE] = {0};
    static struct lvn_member h;
    memset(&h, 0, sizeof h);
    h.rank = 1;
    h.size = SIZE;
    h.peer = peer;
    h.wire.fd = -1;
    pthread_cond_init(&h.change, NULL);
    char line[LVN_WIRE_LINE], capacity[600];
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at : size - at;
        struct lvn_message m;
        if (n > 1 && n < sizeof line) {
            memcpy(line, text + at + 1, n - 1);
            line[n - 1] = '\0';
            if (lvn_message_parse(line, &m) && !lvn_member_receive(&h, &m)) break;
        }
        at += n + 1;
    }
    for (int i = 0; i < h.n_groups && h.group[i].key; i++) {
        lvn_member_difference(&h, h.group[i].key, capacity, sizeof capacity);
        lvn_member_fact(&h, 2, h.group[i].key);
    }
    for (int i = 0; i < h.n_groups; i++) {
        free(h.group[i].key);
        free(h.group[i].value);
        free(h.group[i].ranks);
    }
    free(h.group);
    pthread_cond_destroy(&h.change);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    to_server((const char *)data, size);
    to_rank((const char *)data, size);
    return 0;
}
