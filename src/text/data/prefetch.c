/* prefetch.c - see prefetch.h. There are two slots: step n is read into slot n % 2, so the thread never writes to the
 * batch that the caller uses.
 *
 * Waking the thread costs more than reading a small batch, so the caller reads such batches itself, and the thread
 * sleeps. The caller also reads a batch that the thread has not begun. */
#include "data/prefetch.h"

#include <pthread.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/threads.h"

enum { SLOTS = 2, TEXT = 1024 };

struct slot {
    struct lvn_samples samples;
    int64_t step; /* of the batch in it; -1: none */
    enum lvn_status status;
    char text[TEXT]; /* the error message */
};

struct lvn_prefetch {
    const struct lvn_loader *loader;
    int64_t first, end;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock */
    struct slot slots[SLOTS];
    int64_t current; /* step that the caller uses or waits for; the thread may read one step further */
    int64_t next;    /* step that the thread reads next */
    bool reading;    /* the thread reads a batch, without the lock */
    bool quit;
    bool fast; /* reading the last batch took less time than waking a thread */
};

/* Read a batch that no other thread uses. True: it was fast. */
static bool read_step(const struct lvn_prefetch *p, struct slot *slot, int64_t step)
{
    const double waking_s = 30e-6;
    double begin = lvn_seconds();
    slot->status = lvn_loader_batch(p->loader, step, p->first, &slot->samples);
    if (slot->status != LVN_OK) {
        snprintf(slot->text, sizeof slot->text, "%s", levin_error_text());
        lvn_error_clear();
    }
    return lvn_seconds() - begin < waking_s;
}

static void *work(void *argument)
{
    struct lvn_prefetch *p = argument;
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        int64_t step = p->next;
        struct slot *slot = &p->slots[step % SLOTS];
        if (step > p->current + 1 || step >= p->end || p->fast) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        p->reading = true;
        slot->step = -1;
        pthread_mutex_unlock(&p->lock);
        bool fast = read_step(p, slot, step);
        pthread_mutex_lock(&p->lock);
        p->fast = fast;
        p->reading = false;
        slot->step = step;
        p->next = step + 1;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int64_t lvn_prefetch_bytes(const struct lvn_fields *f, int64_t rows)
{
    return SLOTS * rows * lvn_fields_bytes(f);
}

enum lvn_status lvn_prefetch_open(struct lvn_prefetch **out, const struct lvn_loader *l, int64_t first, int64_t rows,
                                  int64_t end)
{
    struct lvn_prefetch *p = *out = lvn_calloc(1, sizeof *p);
    if (!p) return LVN_MEMORY;
    *p = (struct lvn_prefetch){.loader = l, .first = first, .end = end, .current = -SLOTS};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    for (int i = 0; i < SLOTS; i++) {
        p->slots[i].step = -1;
        LVN_TRY(lvn_samples_init(&p->slots[i].samples, &l->data->fields, rows));
    }
    p->started = lvn_thread_start(&p->thread, work, p) == 0;
    LVN_CHECK(p->started, MEMORY, "cannot start the thread that prefetches data");
    return LVN_OK;
}

void lvn_prefetch_close(struct lvn_prefetch *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->started) pthread_join(p->thread, NULL);
    for (int i = 0; i < SLOTS; i++) lvn_samples_release(&p->slots[i].samples);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

enum lvn_status lvn_prefetch_take(struct lvn_prefetch *p, int64_t step, const struct lvn_samples **out)
{
    struct slot *slot = &p->slots[step % SLOTS];
    LVN_CHECK(step >= 0 && step < p->end, INTERNAL, "the batch of step %lld is beyond the end", (long long)step);
    pthread_mutex_lock(&p->lock);
    while (p->reading && p->next != step) pthread_cond_wait(&p->changed, &p->lock);
    p->current = step;
    while (p->reading && slot->step != step) pthread_cond_wait(&p->changed, &p->lock);
    if (slot->step != step) { /* the thread has not begun it */
        p->fast = read_step(p, slot, step);
        slot->step = step;
        p->next = step + 1;
    }
    if (!p->fast) pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    *out = &slot->samples;
    return slot->status == LVN_OK ? LVN_OK : lvn_fail(slot->status, "%s", slot->text);
}
