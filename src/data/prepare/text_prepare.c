/* text_prepare.c - see text_prepare.h: the pipeline from files to token files. One thread reads and writes, the others
 * encode. Batches are in a ring buffer: the reading thread fills the next free slot, writes the oldest batch as soon as
 * it is encoded, and waits for that batch if the ring is full. This bounds memory and preserves order. */
#include "data/prepare/text_prepare.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/target.h"
#include "base/threads.h"
#include "data/file_type.h"
#include "data/prepare/text_write.h"
#include "tokenizers/parallel.h"
#include "tokenizers/post_processor.h"

/* Of a slot of the ring: FREE; READY to be encoded; BUSY: being encoded; DONE: encoded, or not wanted any more. */
enum slot_state { FREE, READY, BUSY, DONE };

struct pipeline {
    const struct lvn_text_options *o;
    struct lvn_arena arena;
    const char *const *file; /* input files */
    int64_t n_files;
    int64_t *size; /* bytes of each file */
    int64_t bytes_total;
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
    int64_t resumed_at;    /* bytes_before when this pass began */
    struct lvn_text_writer writer;
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
    struct lvn_encoder *e = lvn_encoder_new(l->o->corpus.tokenizer);
    pthread_mutex_lock(&l->lock);
    for (int64_t at; (at = take(l)) >= 0;) {
        struct lvn_batch *b = l->batch[at];
        l->state[at] = BUSY;
        pthread_mutex_unlock(&l->lock);
        if (e)
            (void)lvn_batch_encode(b, e, &l->o->corpus);
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
    l->capacity = 2 * l->o->threads + 2;
    l->batch = lvn_calloc((size_t)l->capacity, sizeof *l->batch);
    l->state = lvn_calloc((size_t)l->capacity, sizeof *l->state);
    l->thread = lvn_calloc((size_t)l->o->threads, sizeof *l->thread);
    if (!l->batch || !l->state || !l->thread) return LVN_MEMORY;
    for (; l->n_threads < l->o->threads; l->n_threads++)
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

/* --- writing --- */

static enum lvn_status report(struct pipeline *l, const struct lvn_batch *b)
{
    struct lvn_text_progress p = {.counts = &l->writer.counts,
                                  .bytes_read = b->bytes_read,
                                  .bytes_total = l->bytes_total,
                                  .resumed_at = l->resumed_at,
                                  .warnings = b->warnings.p && !l->writer.second_pass ? b->warnings.p : ""};
    if (!l->o->progress || l->o->progress(l->o->context, &p) == 0) return LVN_OK;
    LVN_TRY(lvn_text_writer_save(&l->writer));
    LVN_FAIL(STOPPED, "stopped; the same command continues from here");
}

static enum lvn_status write_batch(struct pipeline *l, const struct lvn_batch *b)
{
    if (b->status != LVN_OK) return lvn_fail(b->status, "%s", b->error);
    LVN_TRY_WHILE(lvn_text_writer_batch(&l->writer, b), "writing to '%s'", l->o->out);
    if (lvn_seconds() - l->writer.saved_at > l->o->save_every) {
        LVN_TRY_WHILE(lvn_text_writer_save(&l->writer), "writing to '%s'", l->o->out);
        l->writer.saved_at = lvn_seconds();
    }
    return report(l, b);
}

/* Writes encoded batches in order; waits until at most `left` batches are in the ring. */
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
        status = write_batch(l, l->batch[at]);
        lvn_batch_free(l->batch[at]);
        pthread_mutex_lock(&l->lock);
        l->state[at] = FREE;
        l->oldest++;
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* --- reading --- */

/* Puts the current batch into the ring. A batch that an earlier run wrote is dropped. */
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
    if (b->number < l->writer.batches) {
        lvn_batch_free(b);
        return LVN_OK;
    }
    enum lvn_status status = drain(l, l->capacity - 1);
    if (status != LVN_OK) {
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
    if (b->n_chunks == b->chunk_capacity) {
        int64_t capacity = b->chunk_capacity ? 2 * b->chunk_capacity : 64;
        struct lvn_chunk *more = lvn_realloc(b->chunk, (size_t)capacity * sizeof *more);
        if (!more) return LVN_MEMORY;
        b->chunk = more;
        b->chunk_capacity = capacity;
    }
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
    struct lvn_archive_visitor v = {.context = l, .begin = begin, .data = data, .end = end, .blob = blob};
    lvn_chunker_release(&l->chunker);
    l->chunker = (struct lvn_chunker){.o = &l->o->corpus, .emit = add_chunk, .context = l};
    l->number = l->writer.file_batch;
    l->skipped = l->bytes_before = 0;
    for (int64_t i = 0; i < l->writer.file; i++) l->bytes_before += l->size[i];
    l->resumed_at = l->bytes_before;
    for (int64_t i = l->writer.file; i < l->n_files; i++) {
        bool named = l->n_files == 1 && !lvn_path_is_dir(l->o->input);
        LVN_TRY(lvn_archive_read(l->file[i], named, &v, &l->bytes_in_file));
        l->bytes_before += l->size[i];
        l->bytes_in_file = 0;
        if (l->filling && l->filling->text.n >= LVN_BATCH_BYTES / 2) LVN_TRY(submit(l, i + 1));
    }
    if (l->chunker.warnings.n) LVN_TRY(ensure_batch(l)); /* to carry the warnings */
    LVN_TRY(submit(l, l->n_files));
    return drain(l, 0);
}

/* --- the whole --- */

static void add_text(struct lvn_checksum *c, const char *text)
{
    lvn_checksum_add(c, text, (int64_t)strlen(text) + 1);
}

/* A hash of all options and input files that the result depends on. */
static uint64_t hash_settings(const struct pipeline *l)
{
    const struct lvn_text_options *o = l->o;
    struct lvn_checksum c;
    int64_t numbers[] = {(int64_t)o->seed,     o->end_id, o->drop_duplicates, (int64_t)o->corpus.kind,
                         o->corpus.refuse_bad, l->n_files};
    lvn_checksum_init(&c);
    lvn_checksum_add(&c, numbers, sizeof numbers);
    lvn_checksum_add(&c, &o->val_fraction, sizeof o->val_fraction);
    lvn_checksum_add(&c, &o->corpus.tokenizer->sum, sizeof o->corpus.tokenizer->sum);
    for (int i = 0; i < o->corpus.tokenizer->n_files; i++)
        lvn_checksum_add(&c, o->corpus.tokenizer->file[i].text, o->corpus.tokenizer->file[i].bytes);
    add_text(&c, o->corpus.field);
    for (int64_t i = 0; i < l->n_files; i++) {
        struct stat s = {0};
        add_text(&c, l->file[i]);
        (void)stat(l->file[i], &s);
        int64_t of_file[] = {s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
        lvn_checksum_add(&c, of_file, sizeof of_file);
    }
    return lvn_checksum_value(&c);
}

static enum lvn_status list_input(struct pipeline *l)
{
    LVN_TRY(lvn_archive_list(&l->arena, l->o->input, &l->file, &l->n_files));
    LVN_CHECK(l->n_files, ARG, "'%s' is a folder without files", l->o->input);
    l->size = lvn_arena_alloc(&l->arena, sizeof *l->size * (size_t)l->n_files);
    if (!l->size) return LVN_MEMORY;
    for (int64_t i = 0; i < l->n_files; i++) {
        struct stat s = {0};
        (void)stat(l->file[i], &s);
        l->bytes_total += l->size[i] = s.st_size;
    }
    return LVN_OK;
}

static enum lvn_status run(struct pipeline *l)
{
    if (l->writer.finished) return lvn_text_writer_finish(&l->writer);
    l->writer.saved_at = lvn_seconds();
    bool second_pass = true;
    enum lvn_status status = start_threads(l);
    while (status == LVN_OK && second_pass) {
        status = read_all(l);
        if (status == LVN_OK) status = lvn_text_writer_second_pass(&l->writer, &second_pass);
    }
    stop_threads(l);
    lvn_batch_free(l->filling);
    l->writer.counts.skipped += l->chunker.skipped - l->skipped; /* after the last batch */
    lvn_chunker_release(&l->chunker);
    LVN_TRY(status);
    const struct lvn_text_counts *c = &l->writer.counts;
    LVN_CHECK(c->tokens[LVN_SPLIT_TRAIN] + c->tokens[LVN_SPLIT_VAL], FORMAT,
              "there are no documents in '%s' (%lld files skipped, %lld empty documents, %lld bad lines); texts are "
              "files named .txt, and .jsonl with the text in \"%s\"",
              l->o->input, (long long)c->skipped, (long long)c->empty, (long long)c->bad, l->o->corpus.field);
    return lvn_text_writer_finish(&l->writer);
}

enum lvn_status lvn_text_prepare(const struct lvn_text_options *o, struct lvn_text_counts *counts)
{
    struct pipeline l = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_cond_init(&l.filled, NULL);
    pthread_cond_init(&l.encoded, NULL);
    lvn_arena_init(&l.arena);
    enum lvn_status status = list_input(&l);
    if (status == LVN_OK) status = lvn_text_writer_open(&l.writer, o, hash_settings(&l));
    if (status == LVN_OK) {
        status = run(&l);
        *counts = l.writer.counts;
        if (status != LVN_OK && status != LVN_STOPPED) lvn_text_writer_abandon(&l.writer);
        lvn_text_writer_close(&l.writer);
    }
    lvn_arena_release(&l.arena);
    pthread_cond_destroy(&l.filled);
    pthread_cond_destroy(&l.encoded);
    return status;
}

/* --- one text --- */

/* The byte offset at which the last tenth of the characters begins. */
static int64_t nine_tenths(const unsigned char *p, int64_t n)
{
    int64_t characters = 0;
    for (int64_t i = 0; i < n; i++) characters += (p[i] & 0xc0) != 0x80;
    int64_t keep = (int64_t)((double)characters * 0.9), at = 0; /* as int(n * 0.9) in Python */
    for (; at < n; at++)
        if ((p[at] & 0xc0) != 0x80 && keep-- == 0) break;
    return at;
}

static enum lvn_status write_ids(struct lvn_resumable_file *f, int width, const struct lvn_ids *ids, int64_t *tokens)
{
    for (int64_t i = 0; i < ids->n; i++) {
        uint32_t id = (uint32_t)ids->p[i]; /* little-endian: its first bytes are the number */
        LVN_TRY(lvn_resumable_file_write(f, &id, width));
    }
    *tokens += ids->n;
    return LVN_OK;
}

static enum lvn_status write_one(struct lvn_encoders *e, const char *path, const char *out, enum lvn_split_id split,
                                 struct lvn_text_counts *counts, const unsigned char *p, int64_t n)
{
    struct lvn_resumable_file f;
    int64_t used;
    int width = lvn_text_width(e->t);
    struct lvn_ids around[2] = {{0}, {0}};
    LVN_TRY(lvn_encoders_run(e, p, n, false, LVN_ENCODE_ORDINARY, &used));
    LVN_TRY(lvn_resumable_file_open(&f, path, 0, 0));
    enum lvn_status status = lvn_post_processor_prefix(e->t, &around[0]);
    if (status == LVN_OK) status = lvn_post_processor_suffix(e->t, &around[1]);
    if (status == LVN_OK) status = write_ids(&f, width, &around[0], &counts->tokens[split]);
    for (int64_t s = 0; s < e->n_slices && status == LVN_OK; s++)
        status = write_ids(&f, width, &e->slice[s], &counts->tokens[split]);
    if (status == LVN_OK) status = write_ids(&f, width, &around[1], &counts->tokens[split]);
    for (int i = 0; i < 2; i++) lvn_ids_release(&around[i]);
    counts->documents[split] = 1;
    if (status == LVN_OK) status = lvn_resumable_file_sync(&f);
    struct lvn_text_sidecar sidecar = {
        .tokenizer = e->t, .counts = counts, .split = split, .sum = lvn_checksum_value(&f.sum)};
    if (status == LVN_OK) status = lvn_text_sidecar_write(out, &sidecar);
    lvn_resumable_file_close(&f);
    return status;
}

static enum lvn_status write_both(struct lvn_encoders *e, const struct lvn_mapping *m, const char *out,
                                  struct lvn_text_counts *counts)
{
    LVN_LOCAL_ARENA(a);
    int64_t cut = nine_tenths(m->data, m->bytes);
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < LVN_SPLITS_TRAINED && status == LVN_OK; i++) {
        const char *bin = lvn_arena_printf(&a, "%s/%s.bin", out, lvn_split_names[i]), *part = NULL;
        status = bin ? lvn_target_file(&a, bin, &bin) : LVN_MEMORY;
        if (status == LVN_OK && !(part = lvn_arena_printf(&a, "%s.part", bin))) status = LVN_MEMORY;
        int64_t from = i == LVN_SPLIT_TRAIN ? 0 : cut, n = (i == LVN_SPLIT_TRAIN ? cut : m->bytes) - from;
        if (status == LVN_OK) status = write_one(e, part, out, (enum lvn_split_id)i, counts, m->data + from, n);
        if (status == LVN_OK) status = lvn_file_rename(part, bin);
    }
    return status;
}

enum lvn_status lvn_text_prepare_one(const struct lvn_tokenizer *t, const char *path, const char *out, int threads,
                                     struct lvn_text_counts *counts)
{
    struct lvn_mapping m;
    struct lvn_encoders e;
    *counts = (struct lvn_text_counts){0};
    LVN_TRY(lvn_file_map(&m, path));
    enum lvn_status status = LVN_OK;
    if (m.bytes < 2)
        status = lvn_fail(LVN_FORMAT, "'%s' is %s: there is nothing to train on", path,
                          m.bytes ? "a single byte long" : "empty");
    if (status == LVN_OK) status = lvn_file_refuse_bytes(path, m.data, m.bytes, 0);
    if (status == LVN_OK) status = lvn_encoders_open(&e, t, threads);
    if (status == LVN_OK) {
        status = lvn_dir_make(out);
        if (status == LVN_OK) status = write_both(&e, &m, out, counts);
        if (status == LVN_OK) status = lvn_tokenizer_save(t, out);
        lvn_encoders_close(&e);
    }
    counts->text_bytes = m.bytes;
    lvn_file_unmap(&m);
    return status;
}
