/* corpus_pipeline.c - see corpus_pipeline.h. */
#include "data/texts/corpus_pipeline.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/list.h"
#include "base/threads.h"

/* Of a slot of the ring: FREE; READY to be encoded; BUSY: being encoded; DONE: encoded, or no longer needed. */
enum slot_state { FREE, READY, BUSY, DONE };

struct pipeline {
    const struct lvn_corpus_pipeline *o;
    pthread_mutex_t lock;     /* of the ring */
    pthread_cond_t filled;    /* a slot became READY, or the ring was closed */
    pthread_cond_t encoded;   /* a slot became DONE */
    struct lvn_batch **batch; /* [capacity] batch i is at i % capacity */
    enum slot_state *state;   /* [capacity] */
    int64_t capacity;
    int64_t oldest; /* number of the oldest batch in the ring, counted from 0 without wrapping */
    int64_t next;   /* number of the batch after the newest */
    bool closed;    /* no further batches */
    pthread_t *thread;
    int n_threads;
    struct lvn_chunker chunker;
    struct lvn_batch *filling;
    int64_t number;        /* of the next batch to fill */
    int64_t bytes_before;  /* read from the files before this one */
    int64_t bytes_in_file; /* read from this file */
    int64_t skipped;       /* files skipped before the current batch */
};

/* --- encoding threads --- */

/* The slot of the oldest batch to encode; waits for one. -1: there will be none. */
static int64_t take(struct pipeline *l)
{
    for (;;) {
        for (int64_t i = l->oldest; i < l->next; i++)
            if (l->state[i % l->capacity] == READY) return i % l->capacity;
        if (l->closed) return -1;
        pthread_cond_wait(&l->filled, &l->lock);
    }
}

static void *encode(void *argument)
{
    struct pipeline *l = argument;
    struct lvn_encoder *e = lvn_encoder_new(l->o->corpus->tokenizer);
    pthread_mutex_lock(&l->lock);
    for (int64_t at; (at = take(l)) >= 0;) {
        struct lvn_batch *b = l->batch[at];
        l->state[at] = BUSY;
        pthread_mutex_unlock(&l->lock);
        if (e)
            (void)lvn_batch_encode(b, e, l->o->corpus);
        else
            snprintf(b->error, sizeof b->error, "not enough memory for an encoder"), b->status = LVN_MEMORY;
        lvn_text_release(&b->text);
        pthread_mutex_lock(&l->lock);
        l->state[at] = DONE;
        pthread_cond_signal(&l->encoded);
    }
    pthread_mutex_unlock(&l->lock);
    lvn_encoder_free(e);
    return NULL;
}

static enum lvn_status start_threads(struct pipeline *l)
{
    const int n = l->o->threads;
    l->capacity = 2 * n + 2;
    l->batch = lvn_calloc((size_t)l->capacity, sizeof *l->batch);
    l->state = lvn_calloc((size_t)l->capacity, sizeof *l->state);
    l->thread = lvn_calloc((size_t)n, sizeof *l->thread);
    if (!l->batch || !l->state || !l->thread) return LVN_MEMORY;
    for (; l->n_threads < n; l->n_threads++)
        if (lvn_thread_start(&l->thread[l->n_threads], encode, l) != 0) break;
    LVN_CHECK(l->n_threads, MEMORY, "cannot start a thread");
    return LVN_OK;
}

static void stop_threads(struct pipeline *l)
{
    pthread_mutex_lock(&l->lock);
    l->closed = true;
    for (int64_t i = 0; i < l->capacity; i++) /* batches not yet encoded are dropped */
        if (l->state && l->state[i] == READY) l->state[i] = DONE;
    pthread_cond_broadcast(&l->filled);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++) pthread_join(l->thread[i], NULL);
    for (int64_t i = l->oldest; i < l->next; i++) lvn_batch_free(l->batch[i % l->capacity]);
    free(l->thread);
    free(l->batch);
    free(l->state);
}

/* --- passing on --- */

static enum lvn_status pass_on(const struct pipeline *l, const struct lvn_batch *b)
{
    return b->status == LVN_OK ? l->o->each(l->o->context, b) : lvn_fail(b->status, "%s", b->error);
}

/* Passes encoded batches on in order; waits until at most `left` batches are in the ring. */
static enum lvn_status drain(struct pipeline *l, int64_t left)
{
    enum lvn_status status = LVN_OK;
    pthread_mutex_lock(&l->lock);
    while (l->oldest < l->next && status == LVN_OK) {
        int64_t at = l->oldest % l->capacity;
        if (l->state[at] != DONE) {
            if (l->next - l->oldest <= left) break;
            pthread_cond_wait(&l->encoded, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        status = pass_on(l, l->batch[at]);
        lvn_batch_free(l->batch[at]);
        pthread_mutex_lock(&l->lock);
        l->state[at] = FREE;
        l->oldest++;
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* --- reading --- */

/* Puts the current batch into the ring. A batch that was written by an earlier run is dropped. */
static enum lvn_status submit(struct pipeline *l, int64_t next_file)
{
    struct lvn_batch *b = l->filling;
    l->filling = NULL;
    if (!b) return LVN_OK;
    b->next_file = next_file;
    b->bytes_read = l->bytes_before + l->bytes_in_file;
    b->skipped = l->chunker.skipped - l->skipped;
    l->skipped = l->chunker.skipped;
    lvn_chunker_take_warnings(&l->chunker, &b->warnings);
    const bool wanted = b->number >= l->o->written;
    const enum lvn_status status = wanted ? drain(l, l->capacity - 1) : LVN_OK;
    if (!wanted || status != LVN_OK) {
        lvn_batch_free(b);
        return status;
    }
    pthread_mutex_lock(&l->lock);
    l->batch[l->next % l->capacity] = b;
    l->state[l->next % l->capacity] = READY;
    l->next++;
    pthread_cond_signal(&l->filled);
    pthread_mutex_unlock(&l->lock);
    return LVN_OK;
}

static enum lvn_status ensure_batch(struct pipeline *l)
{
    if (l->filling && l->filling->text.n >= LVN_BATCH_BYTES) LVN_TRY(submit(l, -1));
    if (l->filling) return LVN_OK;
    l->filling = lvn_batch_new(l->number++);
    return l->filling ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status add_chunk(void *context, const struct lvn_chunk *p, const char *bytes)
{
    struct pipeline *l = context;
    LVN_TRY(ensure_batch(l));
    struct lvn_batch *b = l->filling;
    if (!lvn_list_reserve(&b->chunk, &b->chunk_capacity, b->n_chunks + 1, sizeof *b->chunk)) return LVN_MEMORY;
    struct lvn_chunk *copy = &b->chunk[b->n_chunks];
    *copy = *p;
    copy->at = b->text.n;
    copy->name = lvn_arena_strdup(&b->arena, p->name);
    if (!copy->name) return LVN_MEMORY;
    lvn_text_add_bytes(&b->text, bytes, p->bytes);
    b->n_chunks++;
    return lvn_text_status(&b->text);
}

static enum lvn_status begin(void *context, const char *name, bool named, bool *want)
{
    return lvn_chunker_begin(&((struct pipeline *)context)->chunker, name, named, want);
}

static enum lvn_status data(void *context, const void *p, int64_t n)
{
    return lvn_chunker_data(&((struct pipeline *)context)->chunker, p, n);
}

static enum lvn_status end(void *context)
{
    return lvn_chunker_end(&((struct pipeline *)context)->chunker);
}

static enum lvn_status blob(void *context, const char *name, const void *p, int64_t n,
                            struct lvn_archive_position place)
{
    struct pipeline *l = context;
    LVN_TRY(submit(l, -1));
    LVN_TRY(ensure_batch(l));
    l->filling->blob = lvn_arena_strdup(&l->filling->arena, name);
    l->filling->place = place;
    if (!l->filling->blob) return LVN_MEMORY;
    lvn_text_add_bytes(&l->filling->text, p, n);
    LVN_TRY(lvn_text_status(&l->filling->text));
    return submit(l, -1);
}

static enum lvn_status read_all(struct pipeline *l)
{
    const struct lvn_source_files *files = l->o->files;
    const struct lvn_archive_visitor v = {.context = l, .begin = begin, .data = data, .end = end, .blob = blob};
    const bool named = files->n == 1 && !files->is_folder;
    for (int64_t i = l->o->first_file; i < files->n; i++) {
        struct stat s = {0};
        l->chunker.at = i;
        LVN_TRY(lvn_chunker_read(&l->chunker, &v, files->file[i], named, &l->bytes_in_file));
        (void)stat(files->file[i], &s);
        l->bytes_before += s.st_size;
        l->bytes_in_file = 0;
        if (l->filling && l->filling->text.n >= LVN_BATCH_BYTES / 2) LVN_TRY(submit(l, i + 1));
    }
    if (l->chunker.skipped > l->skipped) LVN_TRY(ensure_batch(l)); /* to carry their number and the warnings */
    LVN_TRY(submit(l, files->n));
    return drain(l, 0);
}

enum lvn_status lvn_corpus_pipeline_run(const struct lvn_corpus_pipeline *o)
{
    struct pipeline l = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER, .number = o->first_number};
    l.chunker = (struct lvn_chunker){.o = o->corpus, .emit = add_chunk, .context = &l, .files = o->files};
    pthread_cond_init(&l.filled, NULL);
    pthread_cond_init(&l.encoded, NULL);
    enum lvn_status status = start_threads(&l);
    if (status == LVN_OK) status = read_all(&l);
    stop_threads(&l);
    lvn_batch_free(l.filling);
    lvn_chunker_release(&l.chunker);
    pthread_cond_destroy(&l.filled);
    pthread_cond_destroy(&l.encoded);
    return status;
}
