/* text_prepare.c - see text_prepare.h: from files (corpus_pipeline.h) to token files (text_write.h). */
#include "data/prepare/text_prepare.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/target.h"
#include "data/file_type.h"
#include "data/parquet_texts.h"
#include "data/prepare/text_write.h"
#include "data/prepare/token_shards.h"
#include "data/texts/corpus_pipeline.h"
#include "data/texts/text_files.h"
#include "tokenizers/encoders.h"
#include "tokenizers/post_processor.h"

struct preparation {
    const struct lvn_text_options *o;
    struct lvn_arena arena;
    struct lvn_source_files files;
    int64_t *size; /* bytes of each file */
    int64_t bytes_total;
    int64_t resumed_at; /* bytes of the files before the first one that is read */
    struct lvn_text_writer writer;
};

/* --- writing --- */

static enum lvn_status report(struct preparation *preparation, const struct lvn_batch *b)
{
    struct lvn_text_progress p = {.counts = &preparation->writer.counts,
                                  .bytes_read = preparation->resumed_at + b->bytes_read,
                                  .bytes_total = preparation->bytes_total,
                                  .resumed_at = preparation->resumed_at,
                                  .warnings = b->warnings.p && !preparation->writer.second_pass ? b->warnings.p : ""};
    if (!preparation->o->progress || preparation->o->progress(preparation->o->context, &p) == 0) return LVN_OK;
    LVN_TRY(lvn_text_writer_save(&preparation->writer));
    LVN_FAIL(STOPPED, "stopped; the same command continues from here");
}

static enum lvn_status write_batch(void *context, const struct lvn_batch *b)
{
    struct preparation *preparation = context;
    LVN_TRY_WHILE(lvn_text_writer_batch(&preparation->writer, b), "writing to '%s'", preparation->o->out);
    if (lvn_seconds() - preparation->writer.saved_at > preparation->o->save_every) {
        LVN_TRY_WHILE(lvn_text_writer_save(&preparation->writer), "writing to '%s'", preparation->o->out);
        preparation->writer.saved_at = lvn_seconds();
    }
    return report(preparation, b);
}

/* Read all input that the writer does not have yet. */
static enum lvn_status encode_all(struct preparation *preparation)
{
    const struct lvn_corpus_pipeline pipeline = {.corpus = &preparation->o->corpus,
                                                 .files = &preparation->files,
                                                 .threads = preparation->o->threads,
                                                 .first_file = preparation->writer.file,
                                                 .first_number = preparation->writer.file_batch,
                                                 .written = preparation->writer.batches,
                                                 .each = write_batch,
                                                 .context = preparation};
    preparation->resumed_at = 0;
    for (int64_t i = 0; i < preparation->writer.file; i++) preparation->resumed_at += preparation->size[i];
    return lvn_corpus_pipeline_run(&pipeline);
}

/* --- a preparation --- */

/* A hash of all options and input files that the result depends on. */
static uint64_t hash_settings(const struct preparation *preparation)
{
    const struct lvn_text_options *o = preparation->o;
    struct lvn_checksum c;
    int64_t numbers[] = {(int64_t)o->seed,     o->end_id,           o->drop_duplicates, (int64_t)o->corpus.kind,
                         o->corpus.refuse_bad, preparation->files.n};
    lvn_checksum_init(&c);
    lvn_checksum_add(&c, numbers, sizeof numbers);
    lvn_checksum_add(&c, &o->val_fraction, sizeof o->val_fraction);
    lvn_checksum_add(&c, &o->window, sizeof o->window);
    lvn_checksum_add(&c, &o->val_given, sizeof o->val_given);
    lvn_checksum_add(&c, &o->corpus.tokenizer->sum, sizeof o->corpus.tokenizer->sum);
    for (int i = 0; i < o->corpus.tokenizer->n_files; i++)
        lvn_checksum_add(&c, o->corpus.tokenizer->file[i].text, o->corpus.tokenizer->file[i].bytes);
    lvn_checksum_add_text(&c, o->corpus.field);
    if (o->corpus.separator && *o->corpus.separator) lvn_checksum_add_text(&c, o->corpus.separator);
    if (o->corpus.allow_special) lvn_checksum_add_text(&c, "allow_special");
    if (o->corpus.encoding) lvn_checksum_add(&c, &o->corpus.encoding, sizeof o->corpus.encoding);
    if (o->shard_tokens) lvn_checksum_add(&c, &o->shard_tokens, sizeof o->shard_tokens);
    for (int64_t i = 0; i < preparation->files.n; i++) {
        struct stat s = {0};
        lvn_checksum_add_text(&c, preparation->files.file[i]);
        (void)stat(preparation->files.file[i], &s);
        int64_t of_file[] = {s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
        lvn_checksum_add(&c, of_file, sizeof of_file);
    }
    return lvn_checksum_value(&c);
}

static enum lvn_status list_input(struct preparation *preparation)
{
    struct lvn_source_files *f = &preparation->files;
    f->path = preparation->o->input;
    LVN_TRY(lvn_text_files(&preparation->arena, f->path, &f->file, &f->n));
    LVN_CHECK(f->n, ARG, "'%s' is a folder without files", preparation->o->input);
    f->shown = f->file;
    f->is_folder = lvn_path_is_dir(f->path);
    preparation->size = lvn_arena_alloc(&preparation->arena, sizeof *preparation->size * (size_t)f->n);
    if (!preparation->size) return LVN_MEMORY;
    for (int64_t i = 0; i < f->n; i++) {
        struct stat s = {0};
        (void)stat(f->file[i], &s);
        preparation->bytes_total += preparation->size[i] = s.st_size;
    }
    return LVN_OK;
}

static enum lvn_status run(struct preparation *preparation)
{
    if (preparation->writer.finished) return lvn_text_writer_finish(&preparation->writer);
    preparation->writer.saved_at = lvn_seconds();
    for (bool second_pass = true; second_pass;) {
        LVN_TRY(encode_all(preparation));
        LVN_TRY(lvn_text_writer_second_pass(&preparation->writer, &second_pass));
    }
    const struct lvn_text_counts *c = &preparation->writer.counts;
    LVN_CHECK(c->tokens[LVN_SPLIT_TRAIN] + c->tokens[LVN_SPLIT_VAL], FORMAT,
              "there are no documents in '%s' (%lld files skipped, %lld empty documents, %lld bad lines); texts are "
              "files named .txt, and .jsonl and .parquet with the text in \"%s\" (--field gives another name)",
              preparation->o->input, (long long)c->skipped, (long long)c->empty, (long long)c->bad,
              preparation->o->corpus.field);
    LVN_TRY_WHILE(lvn_text_writer_balance(&preparation->writer), "writing to '%s'", preparation->o->out);
    return lvn_text_writer_finish(&preparation->writer);
}

enum lvn_status lvn_text_prepare(const struct lvn_text_options *o, struct lvn_text_counts *counts)
{
    struct preparation preparation = {.o = o};
    lvn_arena_init(&preparation.arena);
    enum lvn_status status = list_input(&preparation);
    if (status == LVN_OK)
        status = lvn_text_writer_open(&preparation.writer, o, hash_settings(&preparation), preparation.files.n);
    if (status == LVN_OK) {
        status = run(&preparation);
        *counts = preparation.writer.counts;
        if (status != LVN_OK && status != LVN_STOPPED) lvn_text_writer_abandon(&preparation.writer);
        lvn_text_writer_close(&preparation.writer);
    }
    lvn_arena_release(&preparation.arena);
    return status;
}

/* --- one text --- */

enum lvn_status lvn_val_fraction_check(double fraction, int64_t train, int64_t val, int64_t window)
{
    const int64_t all = train + val, min = window ? window + 1 : 2;
    char of[80] = "each part";
    if (fraction <= 0 || fraction >= 1 || (train >= min && val >= min)) return LVN_OK;
    if (window) snprintf(of, sizeof of, "a window of model.block_size=%lld", (long long)window);
    LVN_CHECK(all >= 2 * min, ARG,
              "the text has %lld tokens, too few to divide them: %s needs %lld, in training and in validation; give "
              "more text, or --val-fraction=0",
              (long long)all, of, (long long)min);
    const bool few = val < min;
    LVN_FAIL(ARG,
             "--val-fraction=%g leaves %lld of %lld tokens for %s, and %s needs %lld: the %s fraction that works is %g",
             fraction, (long long)(few ? val : train), (long long)all, few ? "validation" : "training", of,
             (long long)min, few ? "smallest" : "largest",
             few ? ceil((double)min / (double)all * 1e5) / 1e5 : floor((double)(all - min) / (double)all * 1e5) / 1e5);
}

/* The byte offset at which the last `share` of the characters begins. */
static int64_t cut_at(const unsigned char *p, int64_t n, double share)
{
    int64_t characters = 0;
    for (int64_t i = 0; i < n; i++) characters += (p[i] & 0xc0) != 0x80;
    int64_t keep = (int64_t)((double)characters * (1 - share)), at = 0; /* rounded down, like int(n * 0.9) in Python */
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

/* Write the tokens of a text to a file. */
static enum lvn_status write_one(struct lvn_encoders *e, const char *path, enum lvn_split_id split, uint64_t *sum,
                                 enum lvn_encoding mode, struct lvn_text_counts *counts, const unsigned char *p,
                                 int64_t n)
{
    int64_t *tokens = &counts->tokens[split];
    struct lvn_resumable_file f;
    int64_t used;
    int width = lvn_text_width(e->t);
    struct lvn_ids around[2] = {{0}, {0}};
    LVN_TRY(lvn_encoders_run(e, p, n, false, mode, &used));
    lvn_encoder_notes_add(&counts->notes, lvn_encoders_take_notes(e));
    LVN_TRY(lvn_resumable_file_open(&f, path, 0, 0));
    enum lvn_status status = lvn_post_processor_prefix(e->t, &around[0]);
    if (status == LVN_OK) status = lvn_post_processor_suffix(e->t, &around[1]);
    if (status == LVN_OK) status = write_ids(&f, width, &around[0], tokens);
    for (int64_t s = 0; s < e->n_slices && status == LVN_OK; s++) status = write_ids(&f, width, &e->slice[s], tokens);
    if (status == LVN_OK) status = write_ids(&f, width, &around[1], tokens);
    for (int i = 0; i < 2; i++) lvn_ids_release(&around[i]);
    if (status == LVN_OK) status = lvn_resumable_file_sync(&f);
    *sum = lvn_checksum_value(&f.sum);
    lvn_resumable_file_close(&f);
    return status;
}

struct part {
    const char *bin, *part, *json; /* paths: of the complete file; while it is written; of the sidecar */
    uint64_t sum;
};

static enum lvn_status name_part(struct lvn_arena *a, const struct lvn_text_options *o, int split, struct part *p)
{
    p->bin = lvn_arena_printf(a, "%s/%s.bin", o->out, lvn_split_names[split]);
    p->json = p->bin ? lvn_arena_printf(a, "%s.json", p->bin) : NULL;
    if (!p->json) return LVN_MEMORY;
    if (!o->shard_tokens) LVN_TRY(lvn_target_file(a, p->bin, &p->bin));
    p->part = lvn_arena_printf(a, "%s.part", p->bin);
    return p->part ? LVN_OK : LVN_MEMORY;
}

/* Give the file of a part its final name and write the sidecar. If the part is empty, remove the files of an older
 * one. */
static enum lvn_status finish_part(const struct lvn_text_options *o, const struct lvn_text_counts *counts,
                                   enum lvn_split_id split, const struct part *p)
{
    const int64_t tokens = counts->tokens[split];
    const struct lvn_text_sidecar sidecar = {.tokenizer = o->corpus.tokenizer,
                                             .counts = counts,
                                             .split = split,
                                             .sum = p->sum,
                                             .shard_tokens = o->shard_tokens};
    LVN_TRY(lvn_token_shards_check(tokens, o->shard_tokens));
    LVN_TRY(lvn_token_shards_remove_others(o->out, split, tokens, o->shard_tokens));
    if (!tokens) {
        unlink(p->bin);
        unlink(p->json);
        unlink(p->part);
        return LVN_OK;
    }
    LVN_TRY(lvn_text_sidecar_write(o->out, &sidecar));
    return lvn_token_shards_finish(o->out, split, p->part, p->bin, lvn_text_width(o->corpus.tokenizer), tokens,
                                   o->shard_tokens);
}

static enum lvn_status write_both(struct lvn_encoders *e, const struct lvn_text_options *o, const unsigned char *text,
                                  int64_t bytes, enum lvn_encoding mode, struct lvn_text_counts *counts)
{
    LVN_LOCAL_ARENA(a);
    struct part part[LVN_SPLITS_TRAINED] = {{0}, {0}};
    const int64_t at = cut_at(text, bytes, o->val_given ? o->val_fraction : 0.1);
    const int64_t from[] = {0, at}, n[] = {at, bytes - at};
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < LVN_SPLITS_TRAINED && status == LVN_OK; i++) {
        status = name_part(&a, o, i, &part[i]);
        counts->documents[i] = n[i] > 0;
        if (status == LVN_OK && n[i])
            status = write_one(e, part[i].part, (enum lvn_split_id)i, &part[i].sum, mode, counts, text + from[i], n[i]);
    }
    if (status == LVN_OK && o->val_given)
        status = lvn_val_fraction_check(o->val_fraction, counts->tokens[LVN_SPLIT_TRAIN], counts->tokens[LVN_SPLIT_VAL],
                                        o->window);
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) {
        if (status == LVN_OK) status = finish_part(o, counts, (enum lvn_split_id)i, &part[i]);
        if (status != LVN_OK && part[i].part) unlink(part[i].part);
    }
    return status;
}

/* Set *p and *n to the text of the file in UTF-8: `converted`, or the mapped bytes. */
static enum lvn_status text_of_file(const struct lvn_text_options *o, const struct lvn_mapping *m,
                                    struct lvn_text *converted, const char **p, int64_t *n)
{
    struct lvn_text_decoder d = {.encoding = o->corpus.encoding};
    LVN_CHECK(m->bytes >= 2, FORMAT, "'%s' is %s: there is nothing to train on", o->input,
              m->bytes ? "a single byte long" : "empty");
    *p = (const char *)m->data;
    *n = m->bytes;
    if (d.encoding != LVN_TEXT_UTF_8) {
        LVN_TRY(lvn_text_decode(&d, o->input, m->data, m->bytes, converted));
        LVN_TRY(lvn_text_decode_end(&d, o->input));
        *p = converted->p;
        *n = converted->n;
    }
    LVN_TRY(lvn_file_refuse_bytes(o->input, *p, *n, 0));
    const int64_t bom = lvn_utf8_bom(*p, *n);
    *p += bom;
    *n -= bom;
    LVN_CHECK(*n, FORMAT, "'%s' holds only a byte order mark: there is no text to train on", o->input);
    return LVN_OK;
}

enum lvn_status lvn_text_prepare_one(const struct lvn_text_options *o, struct lvn_text_counts *counts)
{
    const enum lvn_encoding mode = o->corpus.allow_special ? LVN_ENCODE_SPECIAL : LVN_ENCODE_ORDINARY;
    struct lvn_mapping m;
    struct lvn_encoders e;
    *counts = (struct lvn_text_counts){0};
    LVN_LOCAL_TEXT(converted);
    const char *text = NULL;
    int64_t bytes = 0;
    LVN_TRY(lvn_file_map(&m, o->input));
    enum lvn_status status = text_of_file(o, &m, &converted, &text, &bytes);
    if (status == LVN_OK) status = lvn_encoders_open(&e, o->corpus.tokenizer, o->threads);
    if (status == LVN_OK) {
        status = lvn_dir_make(o->out);
        counts->crlf = lvn_count_crlf(text, bytes);
        if (status == LVN_OK) status = write_both(&e, o, (const unsigned char *)text, bytes, mode, counts);
        if (status == LVN_OK) status = lvn_tokenizer_save(o->corpus.tokenizer, o->out);
        lvn_encoders_close(&e);
    }
    counts->text_bytes = m.bytes;
    lvn_file_unmap(&m);
    return status;
}
