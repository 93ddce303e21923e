/* comm_threads.h - a transport between threads of one program, for tests of src/ranks/comm: messages are matched in
 * memory.
 *
 * Sends and receives are kept in a list; test() sometimes answers "not yet" for a handle that is done, so that
 * completions occur in every order. Reductions and broadcasts wait until all ranks have called; sums are in the order
 * of ranks. A group is a separate world, which its ranks share by the number of the call and their first rank. */
#ifndef LVN_COMM_THREADS_H
#define LVN_COMM_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "comm/engine.h"

enum { THREADS_MAX = 8 };

struct mail {
    int kind, from, to, tag, root;
    char *x;
    int64_t bytes, number;
    enum lvn_dtype type;
    enum lvn_reduce op;
    bool done;
    struct mail *next;
};

/* All ranks of one world share this. */
struct threads_world {
    pthread_mutex_t lock;
    int size;
    int number, first;            /* of a group */
    struct threads_world *groups; /* with ranks of this world */
    struct threads_world *next;
    bool broken;        /* every call fails */
    struct mail *mails; /* oldest first */
    struct threads_rank {
        struct threads_world *world;
        int rank;
        int in_world; /* of a group: its rank among all */
        int64_t collectives;
        uint64_t luck;
    } ranks[THREADS_MAX];
};

static inline int mail_add(struct threads_rank *r, struct mail m, void *handle)
{
    struct mail *p = malloc(sizeof *p), **end;
    if (!p) return 1;
    *p = m;
    pthread_mutex_lock(&r->world->lock);
    for (end = &r->world->mails; *end;) end = &(*end)->next;
    *end = p;
    bool fail = r->world->broken;
    pthread_mutex_unlock(&r->world->lock);
    memcpy(handle, &p, sizeof p);
    return fail ? 42 : 0;
}

#define MAIL_REDUCE(type)                                                                                              \
    do {                                                                                                               \
        type *x = (type *)(void *)(into->x + i), y = *(const type *)(const void *)(m->x + i);                          \
        *x = into->op == LVN_SUM ? *x + y : (into->op == LVN_MIN) == (y < *x) ? y : *x;                                \
    } while (0)
static inline void mail_reduce(struct mail *into, const struct mail *m)
{
    for (int64_t i = 0; i < into->bytes; i += lvn_dtype_bytes(into->type)) {
        if (into->type == LVN_F32) MAIL_REDUCE(float);
        if (into->type == LVN_F64) MAIL_REDUCE(double);
        if (into->type == LVN_I32) MAIL_REDUCE(int32_t);
        if (into->type == LVN_I64) MAIL_REDUCE(int64_t);
    }
}
#undef MAIL_REDUCE

/* Call under the lock: complete every operation that has all its parts. */
static inline void mails_meet(struct threads_world *w)
{
    for (struct mail *a = w->mails; a; a = a->next) {
        if (a->done) continue;
        if (a->kind == LVN_REQUEST_RECEIVE)
            for (struct mail *b = w->mails; b && !a->done; b = b->next)
                if (b->kind == LVN_REQUEST_SEND && !b->done && b->from == a->from && b->to == a->to &&
                    b->tag == a->tag) {
                    memcpy(a->x, b->x, (size_t)a->bytes);
                    a->done = b->done = true;
                }
        if (a->kind != LVN_REQUEST_ALL_REDUCE && a->kind != LVN_REQUEST_BROADCAST) continue;
        struct mail *all[THREADS_MAX], *root;
        int n = 0;
        for (struct mail *b = w->mails; b; b = b->next) {
            if (b->kind != a->kind || b->number != a->number || b->done) continue;
            int at = n++;
            for (; at > 0 && all[at - 1]->from > b->from; at--) all[at] = all[at - 1];
            all[at] = b;
        }
        root = all[0];
        if (n < w->size) continue;
        for (int i = 0; i < n; i++)
            if (a->kind == LVN_REQUEST_BROADCAST && all[i]->from == a->root) root = all[i];
        for (int i = 0; i < n; i++)
            if (a->kind == LVN_REQUEST_ALL_REDUCE && all[i] != root) mail_reduce(root, all[i]);
        for (int i = 0; i < n; i++) {
            if (all[i] != root) memcpy(all[i]->x, root->x, (size_t)a->bytes);
            all[i]->done = true;
        }
    }
}

static inline enum lvn_status threads_join(void **state, int *handle_bytes, const struct lvn_comm_options *o,
                                           char *description, int description_bytes)
{
    (void)state;
    (void)o;
    snprintf(description, (size_t)description_bytes, "threads");
    *handle_bytes = (int)sizeof(void *);
    return LVN_OK;
}

static inline void threads_nothing(void *state)
{
    (void)state;
}

static inline void threads_release_group(void *state, bool failed)
{
    (void)state;
    (void)failed;
}

static inline void threads_clear(void *state, void *handle)
{
    (void)state;
    memset(handle, 0, sizeof(void *));
}

static inline int threads_send(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    struct threads_rank *r = state;
    struct mail m = {.kind = LVN_REQUEST_SEND, .from = r->rank, .to = to, .tag = tag, .bytes = bytes};
    memcpy(&m.x, &x, sizeof x); /* only read */
    return mail_add(r, m, handle);
}

static inline int threads_receive(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct threads_rank *r = state;
    return mail_add(
        r, (struct mail){.kind = LVN_REQUEST_RECEIVE, .from = from, .to = r->rank, .tag = tag, .x = x, .bytes = bytes},
        handle);
}

static inline int threads_all_reduce(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op,
                                     void *handle)
{
    struct threads_rank *r = state;
    struct mail m = {.kind = LVN_REQUEST_ALL_REDUCE,
                     .from = r->rank,
                     .x = x,
                     .bytes = count * lvn_dtype_bytes(type),
                     .type = type,
                     .op = op,
                     .number = r->collectives++};
    return mail_add(r, m, handle);
}

static inline int threads_broadcast(void *state, void *x, int64_t bytes, int root, void *handle)
{
    struct threads_rank *r = state;
    struct mail m = {.kind = LVN_REQUEST_BROADCAST,
                     .from = r->rank,
                     .root = root,
                     .x = x,
                     .bytes = bytes,
                     .number = r->collectives++};
    return mail_add(r, m, handle);
}

static inline int threads_test(void *state, void *handles, int n, int *n_done, int *done)
{
    struct threads_rank *r = state;
    struct mail *m, **at;
    *n_done = 0;
    pthread_mutex_lock(&r->world->lock);
    mails_meet(r->world);
    for (int i = 0; i < n; i++) {
        memcpy(&m, (char *)handles + (size_t)i * sizeof m, sizeof m);
        r->luck = r->luck * 6364136223846793005U + 1442695040888963407U;
        if (!m || !m->done || r->luck >> 62 == 0) continue;
        for (at = &r->world->mails; *at != m;) at = &(*at)->next;
        *at = m->next;
        free(m);
        threads_clear(state, (char *)handles + (size_t)i * sizeof m);
        done[(*n_done)++] = i;
    }
    pthread_mutex_unlock(&r->world->lock);
    return 0;
}

static inline void threads_error(void *state, int code, char *text, int bytes)
{
    (void)state;
    snprintf(text, (size_t)bytes, "threads say: error %d", code);
}

static inline void world_init(struct threads_world *w, int size)
{
    *w = (struct threads_world){.size = size};
    pthread_mutex_init(&w->lock, NULL);
    for (int i = 0; i < size; i++)
        w->ranks[i] = (struct threads_rank){.world = w, .rank = i, .in_world = i, .luck = (uint64_t)i * 77777 + 1};
}

static inline void world_release(struct threads_world *w)
{
    for (struct threads_world *g = w->groups, *next; g; g = next) {
        next = g->next;
        world_release(g);
        free(g);
    }
    for (struct mail *m = w->mails, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    pthread_mutex_destroy(&w->lock);
}

static inline enum lvn_status threads_split(void *state, const struct lvn_group_split *s, void **group)
{
    struct threads_world *w = ((struct threads_rank *)state)->world, *g;
    if (!s->n) return LVN_OK;
    pthread_mutex_lock(&w->lock);
    for (g = w->groups; g && (g->number != s->number || g->first != s->member[0]);) g = g->next;
    if (!g && (g = malloc(sizeof *g))) {
        world_init(g, s->n);
        for (int i = 0; i < s->n; i++) g->ranks[i].in_world = s->member[i];
        g->number = s->number;
        g->first = s->member[0];
        g->next = w->groups;
        w->groups = g;
    }
    pthread_mutex_unlock(&w->lock);
    if (!g) return LVN_MEMORY;
    *group = &g->ranks[s->rank];
    return LVN_OK;
}

static const struct lvn_transport threads_transport = {.join = threads_join,
                                                       .barrier = threads_nothing,
                                                       .release = threads_nothing,
                                                       .clear = threads_clear,
                                                       .send = threads_send,
                                                       .receive = threads_receive,
                                                       .all_reduce = threads_all_reduce,
                                                       .broadcast = threads_broadcast,
                                                       .test = threads_test,
                                                       .make_progress = threads_nothing,
                                                       .error = threads_error,
                                                       .split = threads_split,
                                                       .release_group = threads_release_group};

#endif
