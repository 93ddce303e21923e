/* text_prepare.c - the line from files to token files: one thread reads and writes, the others encode.
 *
 * Batches stand in a ring. The reading thread fills the next free place, and writes the oldest one as soon as it is
 * encoded; when the ring is full it waits for that one. So memory is bounded by the ring, and order is kept. */
#include "data/text_prepare.h"

#include <math.h>
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
#include "data/text_write.h"
#include "tokenizers/parallel.h"

enum place { FREE, READY, BUSY, DONE };

struct line {
    const struct lvn_text_options *o;
    struct lvn_arena arena;
    const char *const *file; /* input files */
    int64_t n_files, *size, bytes_total;

    pthread_mutex_t lock;
    pthread_cond_t filled, encoded;
    struct lvn_batch **batch; /* [room] a ring: batch i stands at i % room */
    enum place *place;
    int64_t capacity, oldest, next; /* places of the ring, counted on and on */
    bool closed;
    pthread_t *thread;
    int n_threads;

    struct lvn_cutter cutter;
    struct lvn_batch *filling;
    int64_t number;                /* of the next batch to fill */
    int64_t bytes_before, in_file; /* read of the files before this one, and of this one */
    int64_t passed_over, resumed_at;
    struct lvn_text_writer writer;
};

/* --- encoding threads --- */

/* The oldest batch that waits; -1 when there will be none. */
static int64_t take(struct line *l)
{
    for (;;) {
        for (int64_t i = l->oldest; i < l->next; i++)
            if (l->place[i % l->capacity] == READY) return i % l->capacity;
        if (l->closed) return -1;
        pthread_cond_wait(&l->filled, &l->lock);
    }
}

static void *encode(void *argument)
{
    struct line *l = argument;
    struct lvn_encoder *e = lvn_encoder_new(l->o->corpus.tokenizer);
    pthread_mutex_lock(&l->lock);
    for (int64_t at; (at = take(l)) >= 0;) {
        struct lvn_batch *b = l->batch[at];
        l->place[at] = BUSY;
        pthread_mutex_unlock(&l->lock);
        if (e)
            (void)lvn_batch_encode(b, e, &l->o->corpus);
        else
            snprintf(b->error, sizeof b->error, "not enough memory for an encoder"), b->status = LVN_MEMORY;
        lvn_text_release(&b->text);
        pthread_mutex_lock(&l->lock);
        l->place[at] = DONE;
        pthread_cond_signal(&l->encoded);
    }
    pthread_mutex_unlock(&l->lock);
    lvn_encoder_free(e);
    return NULL;
}

static enum lvn_status start_threads(struct line *l)
{
    l->capacity = 2 * l->o->threads + 2;
    l->batch = lvn_calloc((size_t)l->capacity, sizeof *l->batch);
    l->place = lvn_calloc((size_t)l->capacity, sizeof *l->place);
    l->thread = lvn_calloc((size_t)l->o->threads, sizeof *l->thread);
    if (!l->batch || !l->place || !l->thread) return LVN_MEMORY;
    for (; l->n_threads < l->o->threads; l->n_threads++)
        if (lvn_thread_start(&l->thread[l->n_threads], encode, l) != 0) break;
    LVN_CHECK(l->n_threads, MEMORY, "cannot start a thread");
    return LVN_OK;
}

static void stop_threads(struct line *l)
{
    pthread_mutex_lock(&l->lock);
    l->closed = true;
    for (int64_t i = 0; i < l->capacity; i++) /* what still waits is not wanted */
        if (l->place && l->place[i] == READY) l->place[i] = DONE;
    pthread_cond_broadcast(&l->filled);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++) pthread_join(l->thread[i], NULL);
    for (int64_t i = l->oldest; i < l->next; i++) lvn_batch_free(l->batch[i % l->capacity]);
    free(l->thread);
    free(l->batch);
    free(l->place);
}

/* --- writing --- */

static enum lvn_status report(struct line *l, const struct lvn_batch *b)
{
    struct lvn_text_progress p = {.counts = &l->writer.counts,
                                  .bytes_read = b->bytes_read,
                                  .bytes_total = l->bytes_total,
                                  .resumed_at = l->resumed_at,
                                  .complaints = b->complaints.p && !l->writer.again ? b->complaints.p : ""};
    if (!l->o->progress || l->o->progress(l->o->context, &p) == 0) return LVN_OK;
    LVN_TRY(lvn_text_writer_save(&l->writer));
    LVN_FAIL(STOPPED, "stopped; the same command goes on from here");
}

static enum lvn_status write_batch(struct line *l, const struct lvn_batch *b)
{
    if (b->status != LVN_OK) return lvn_fail(b->status, "%s", b->error);
    LVN_TRY_WHILE(lvn_text_writer_batch(&l->writer, b), "writing to '%s'", l->o->out);
    if (lvn_seconds() - l->writer.saved > l->o->save_every) {
        LVN_TRY_WHILE(lvn_text_writer_save(&l->writer), "writing to '%s'", l->o->out);
        l->writer.saved = lvn_seconds();
    }
    return report(l, b);
}

/* Write what is encoded, in order; wait until at most `left` are in the ring. */
static enum lvn_status drain(struct line *l, int64_t left)
{
    enum lvn_status status = LVN_OK;
    pthread_mutex_lock(&l->lock);
    while (l->oldest < l->next && status == LVN_OK) {
        int64_t at = l->oldest % l->capacity;
        if (l->place[at] != DONE) {
            if (l->next - l->oldest <= left) break;
            pthread_cond_wait(&l->encoded, &l->lock);
            continue;
        }
        pthread_mutex_unlock(&l->lock);
        status = write_batch(l, l->batch[at]);
        lvn_batch_free(l->batch[at]);
        pthread_mutex_lock(&l->lock);
        l->place[at] = FREE;
        l->oldest++;
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* --- reading --- */

/* The batch at hand is full. Those that an earlier run wrote are only counted. */
static enum lvn_status submit(struct line *l, int64_t next_file)
{
    struct lvn_batch *b = l->filling;
    l->filling = NULL;
    if (!b) return LVN_OK;
    b->next_file = next_file;
    b->bytes_read = l->bytes_before + l->in_file;
    b->passed_over = l->cutter.passed_over - l->passed_over;
    l->passed_over = l->cutter.passed_over;
    lvn_cutter_complain(&l->cutter, &b->complaints);
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
    l->place[l->next % l->capacity] = READY;
    l->next++;
    pthread_cond_signal(&l->filled);
    pthread_mutex_unlock(&l->lock);
    return LVN_OK;
}

static enum lvn_status want_batch(struct line *l)
{
    if (l->filling && l->filling->text.n >= LVN_BATCH_BYTES) LVN_TRY(submit(l, -1));
    if (l->filling) return LVN_OK;
    l->filling = lvn_batch_new(l->number++);
    return l->filling ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status add_piece(void *context, const struct lvn_piece *p, const char *bytes)
{
    struct line *l = context;
    LVN_TRY(want_batch(l));
    struct lvn_batch *b = l->filling;
    if (b->n_pieces == b->piece_capacity) {
        int64_t capacity = b->piece_capacity ? 2 * b->piece_capacity : 64;
        struct lvn_piece *more = lvn_realloc(b->piece, (size_t)capacity * sizeof *more);
        if (!more) return LVN_MEMORY;
        b->piece = more;
        b->piece_capacity = capacity;
    }
    struct lvn_piece *copy = &b->piece[b->n_pieces];
    *copy = *p;
    copy->at = b->text.n;
    copy->name = lvn_arena_strdup(&b->arena, p->name);
    if (!copy->name) return LVN_MEMORY;
    lvn_text_add_bytes(&b->text, bytes, p->bytes);
    b->n_pieces++;
    return lvn_text_status(&b->text);
}

static enum lvn_status begin(void *context, const char *name, bool named, bool *want)
{
    return lvn_cutter_begin(&((struct line *)context)->cutter, name, named, want);
}

static enum lvn_status data(void *context, const void *p, int64_t n)
{
    return lvn_cutter_data(&((struct line *)context)->cutter, p, n);
}

static enum lvn_status end(void *context)
{
    return lvn_cutter_end(&((struct line *)context)->cutter);
}

static enum lvn_status blob(void *context, const char *name, const void *p, int64_t n,
                            struct lvn_archive_position place)
{
    struct line *l = context;
    LVN_TRY(submit(l, -1));
    LVN_TRY(want_batch(l));
    l->filling->blob = lvn_arena_strdup(&l->filling->arena, name);
    l->filling->place = place;
    if (!l->filling->blob) return LVN_MEMORY;
    lvn_text_add_bytes(&l->filling->text, p, n);
    LVN_TRY(lvn_text_status(&l->filling->text));
    return submit(l, -1);
}

static enum lvn_status read_all(struct line *l)
{
    struct lvn_archive_visitor v = {.context = l, .begin = begin, .data = data, .end = end, .blob = blob};
    lvn_cutter_release(&l->cutter);
    l->cutter = (struct lvn_cutter){.o = &l->o->corpus, .piece = add_piece, .context = l};
    l->number = l->writer.file_batch;
    l->passed_over = l->bytes_before = 0;
    for (int64_t i = 0; i < l->writer.file; i++) l->bytes_before += l->size[i];
    l->resumed_at = l->bytes_before;
    for (int64_t i = l->writer.file; i < l->n_files; i++) {
        bool named = l->n_files == 1 && !lvn_path_is_dir(l->o->input);
        LVN_TRY(lvn_archive_read(l->file[i], named, &v, &l->in_file));
        l->bytes_before += l->size[i];
        l->in_file = 0;
        if (l->filling && l->filling->text.n >= LVN_BATCH_BYTES / 2) LVN_TRY(submit(l, i + 1));
    }
    if (l->cutter.complaints.n) LVN_TRY(want_batch(l)); /* which carries them */
    LVN_TRY(submit(l, l->n_files));
    return drain(l, 0);
}

/* --- the whole --- */

static void add_text(struct lvn_checksum *c, const char *text)
{
    lvn_checksum_add(c, text, (int64_t)strlen(text) + 1);
}

/* All that decides on the result. */
static uint64_t settings_of(const struct line *l)
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

static enum lvn_status list_input(struct line *l)
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

static enum lvn_status run(struct line *l)
{
    if (l->writer.finished) return lvn_text_writer_finish(&l->writer);
    l->writer.saved = lvn_seconds();
    bool again = true;
    enum lvn_status status = start_threads(l);
    while (status == LVN_OK && again) {
        status = read_all(l);
        if (status == LVN_OK) status = lvn_text_writer_again(&l->writer, &again);
    }
    stop_threads(l);
    lvn_batch_free(l->filling);
    l->writer.counts.passed_over += l->cutter.passed_over - l->passed_over; /* behind the last batch */
    lvn_cutter_release(&l->cutter);
    LVN_TRY(status);
    const struct lvn_text_counts *c = &l->writer.counts;
    LVN_CHECK(c->tokens[LVN_SPLIT_TRAIN] + c->tokens[LVN_SPLIT_VAL], FORMAT,
              "there are no documents in '%s' (%lld files skipped, %lld empty documents, %lld bad lines); texts are "
              "files named .txt, and .jsonl with the text in \"%s\"",
              l->o->input, (long long)c->passed_over, (long long)c->empty, (long long)c->bad, l->o->corpus.field);
    return lvn_text_writer_finish(&l->writer);
}

enum lvn_status lvn_text_prepare(const struct lvn_text_options *o, struct lvn_text_counts *counts)
{
    struct line l = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_cond_init(&l.filled, NULL);
    pthread_cond_init(&l.encoded, NULL);
    lvn_arena_init(&l.arena);
    enum lvn_status status = list_input(&l);
    if (status == LVN_OK) status = lvn_text_writer_open(&l.writer, o, settings_of(&l));
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

/* Where the last tenth of the characters begins. */
static int64_t nine_tenths(const unsigned char *p, int64_t n)
{
    int64_t characters = 0;
    for (int64_t i = 0; i < n; i++) characters += (p[i] & 0xc0) != 0x80;
    int64_t keep = (int64_t)((double)characters * 0.9), at = 0; /* as int(n*0.9) is */
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
    enum lvn_status status = lvn_post_processor_begin(e->t, &around[0]);
    if (status == LVN_OK) status = lvn_post_processor_end(e->t, &around[1]);
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
