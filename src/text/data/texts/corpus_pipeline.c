/* corpus_pipeline.c - see corpus_pipeline.h. */
#include "data/texts/corpus_pipeline.h"

#include <pthread.h>
#include <sys/stat.h>

#include "base/list.h"
#include "base/threads.h"

/* States of a slot of the ring. READY: to be encoded; BUSY: being encoded; DONE: encoded, or no longer needed. */
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
    struct lvn_batch *filling; /* the batch that receives chunks; NULL: none */
    int64_t number;            /* of the next batch to fill */
    int64_t bytes_before;      /* of the files before the current one */
    int64_t bytes_in_file;     /* read from the current file */
    int64_t skipped;           /* files skipped before the batch `filling` */
};

/* --- encoding threads --- */

/* The slot of the oldest batch to encode; waits for one. -1: there will be none. */
static int64_t take(struct pipeline *pipeline)
{
    for (;;) {
        for (int64_t i = pipeline->oldest; i < pipeline->next; i++)
            if (pipeline->state[i % pipeline->capacity] == READY) return i % pipeline->capacity;
        if (pipeline->closed) return -1;
        pthread_cond_wait(&pipeline->filled, &pipeline->lock);
    }
}

static void *encode(void *argument)
{
    struct pipeline *pipeline = argument;
    struct lvn_encoder *e = lvn_encoder_new(pipeline->o->corpus->tokenizer);
    pthread_mutex_lock(&pipeline->lock);
    for (int64_t at; (at = take(pipeline)) >= 0;) {
        struct lvn_batch *b = pipeline->batch[at];
        pipeline->state[at] = BUSY;
        pthread_mutex_unlock(&pipeline->lock);
        if (e)
            (void)lvn_batch_encode(b, e, pipeline->o->corpus);
        else
            snprintf(b->error, sizeof b->error, "not enough memory for an encoder"), b->status = LVN_MEMORY;
        lvn_text_release(&b->text);
        pthread_mutex_lock(&pipeline->lock);
        pipeline->state[at] = DONE;
        pthread_cond_signal(&pipeline->encoded);
    }
    pthread_mutex_unlock(&pipeline->lock);
    lvn_encoder_free(e);
    return NULL;
}

static enum lvn_status start_threads(struct pipeline *pipeline)
{
    const int n = pipeline->o->threads;
    pipeline->capacity = 2 * n + 2;
    pipeline->batch = lvn_calloc((size_t)pipeline->capacity, sizeof *pipeline->batch);
    pipeline->state = lvn_calloc((size_t)pipeline->capacity, sizeof *pipeline->state);
    pipeline->thread = lvn_calloc((size_t)n, sizeof *pipeline->thread);
    if (!pipeline->batch || !pipeline->state || !pipeline->thread) return LVN_MEMORY;
    for (; pipeline->n_threads < n; pipeline->n_threads++)
        if (lvn_thread_start(&pipeline->thread[pipeline->n_threads], encode, pipeline) != 0) break;
    LVN_CHECK(pipeline->n_threads, MEMORY, "cannot start a thread");
    return LVN_OK;
}

static void stop_threads(struct pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->lock);
    pipeline->closed = true;
    for (int64_t i = 0; i < pipeline->capacity; i++) /* batches not yet encoded are dropped */
        if (pipeline->state && pipeline->state[i] == READY) pipeline->state[i] = DONE;
    pthread_cond_broadcast(&pipeline->filled);
    pthread_mutex_unlock(&pipeline->lock);
    for (int i = 0; i < pipeline->n_threads; i++) pthread_join(pipeline->thread[i], NULL);
    for (int64_t i = pipeline->oldest; i < pipeline->next; i++) lvn_batch_free(pipeline->batch[i % pipeline->capacity]);
    free(pipeline->thread);
    free(pipeline->batch);
    free(pipeline->state);
}

/* --- passing encoded batches on --- */

static enum lvn_status pass_on(const struct pipeline *pipeline, const struct lvn_batch *b)
{
    return b->status == LVN_OK ? pipeline->o->each(pipeline->o->context, b) : lvn_fail(b->status, "%s", b->error);
}

/* Pass encoded batches on in order. Wait until at most `left` batches are in the ring. */
static enum lvn_status drain(struct pipeline *pipeline, int64_t left)
{
    enum lvn_status status = LVN_OK;
    pthread_mutex_lock(&pipeline->lock);
    while (pipeline->oldest < pipeline->next && status == LVN_OK) {
        int64_t at = pipeline->oldest % pipeline->capacity;
        if (pipeline->state[at] != DONE) {
            if (pipeline->next - pipeline->oldest <= left) break;
            pthread_cond_wait(&pipeline->encoded, &pipeline->lock);
            continue;
        }
        pthread_mutex_unlock(&pipeline->lock);
        status = pass_on(pipeline, pipeline->batch[at]);
        lvn_batch_free(pipeline->batch[at]);
        pthread_mutex_lock(&pipeline->lock);
        pipeline->state[at] = FREE;
        pipeline->oldest++;
    }
    pthread_mutex_unlock(&pipeline->lock);
    return status;
}

/* --- reading --- */

/* Put the batch `filling` into the ring. A batch that an earlier run has written already is dropped. */
static enum lvn_status submit(struct pipeline *pipeline, int64_t next_file)
{
    struct lvn_batch *b = pipeline->filling;
    pipeline->filling = NULL;
    if (!b) return LVN_OK;
    b->next_file = next_file;
    b->bytes_read = pipeline->bytes_before + pipeline->bytes_in_file;
    b->skipped = pipeline->chunker.skipped - pipeline->skipped;
    pipeline->skipped = pipeline->chunker.skipped;
    lvn_chunker_take_warnings(&pipeline->chunker, &b->warnings);
    const bool needed = b->number >= pipeline->o->written;
    const enum lvn_status status = needed ? drain(pipeline, pipeline->capacity - 1) : LVN_OK;
    if (!needed || status != LVN_OK) {
        lvn_batch_free(b);
        return status;
    }
    pthread_mutex_lock(&pipeline->lock);
    pipeline->batch[pipeline->next % pipeline->capacity] = b;
    pipeline->state[pipeline->next % pipeline->capacity] = READY;
    pipeline->next++;
    pthread_cond_signal(&pipeline->filled);
    pthread_mutex_unlock(&pipeline->lock);
    return LVN_OK;
}

static enum lvn_status ensure_batch(struct pipeline *pipeline)
{
    if (pipeline->filling && pipeline->filling->text.n >= LVN_BATCH_BYTES) LVN_TRY(submit(pipeline, -1));
    if (pipeline->filling) return LVN_OK;
    pipeline->filling = lvn_batch_new(pipeline->number++);
    return pipeline->filling ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status add_chunk(void *context, const struct lvn_chunk *p, const char *bytes)
{
    struct pipeline *pipeline = context;
    LVN_TRY(ensure_batch(pipeline));
    struct lvn_batch *b = pipeline->filling;
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
    struct pipeline *pipeline = context;
    LVN_TRY(submit(pipeline, -1));
    LVN_TRY(ensure_batch(pipeline));
    pipeline->filling->blob = lvn_arena_strdup(&pipeline->filling->arena, name);
    pipeline->filling->place = place;
    if (!pipeline->filling->blob) return LVN_MEMORY;
    lvn_text_add_bytes(&pipeline->filling->text, p, n);
    LVN_TRY(lvn_text_status(&pipeline->filling->text));
    return submit(pipeline, -1);
}

static enum lvn_status read_all(struct pipeline *pipeline)
{
    const struct lvn_source_files *files = pipeline->o->files;
    const struct lvn_archive_visitor v = {.context = pipeline, .begin = begin, .data = data, .end = end, .blob = blob};
    const bool named = files->n == 1 && !files->is_folder;
    for (int64_t i = pipeline->o->first_file; i < files->n; i++) {
        struct stat s = {0};
        pipeline->chunker.at = i;
        LVN_TRY(lvn_chunker_read(&pipeline->chunker, &v, files->file[i], named, &pipeline->bytes_in_file));
        (void)stat(files->file[i], &s);
        pipeline->bytes_before += s.st_size;
        pipeline->bytes_in_file = 0;
        if (pipeline->filling && pipeline->filling->text.n >= LVN_BATCH_BYTES / 2) LVN_TRY(submit(pipeline, i + 1));
    }
    if (pipeline->chunker.skipped > pipeline->skipped)
        LVN_TRY(ensure_batch(pipeline)); /* it carries their number and the warnings */
    LVN_TRY(submit(pipeline, files->n));
    return drain(pipeline, 0);
}

enum lvn_status lvn_corpus_pipeline_run(const struct lvn_corpus_pipeline *o)
{
    struct pipeline pipeline = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER, .number = o->first_number};
    pipeline.chunker = (struct lvn_chunker){.o = o->corpus, .emit = add_chunk, .context = &pipeline, .files = o->files};
    pthread_cond_init(&pipeline.filled, NULL);
    pthread_cond_init(&pipeline.encoded, NULL);
    enum lvn_status status = start_threads(&pipeline);
    if (status == LVN_OK) status = read_all(&pipeline);
    stop_threads(&pipeline);
    lvn_batch_free(pipeline.filling);
    lvn_chunker_release(&pipeline.chunker);
    pthread_cond_destroy(&pipeline.filled);
    pthread_cond_destroy(&pipeline.encoded);
    return status;
}
