/* prepare.c - levin prepare: encodes texts into token files, with a tokenizer or with one token per character. This
 * file has options, download, progress line and summary; data/prepare does the work.
 *
 * With a tokenizer, a signal of stop.h makes the command save its state and exit with 75; the same command continues.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/threads.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "cli/model_arg.h"
#include "cli/stop.h"
#include "cli/transfer.h"
#include "data/file_type.h"
#include "data/prepare/prepare.h"
#include "data/prepare/text_prepare.h"
#include "data/prepare/text_write.h"
#include "data/prepare/token_shards.h"
#include "formats/json.h"
#include "host/machine.h"
#include "options/choices.h"
#include "settings/settings_model.h"
#include "setup/setup.h"
#include "stores/fetch.h"
#include "stores/upload_staging.h"
#include "tokenizers/post_processor.h"

/* The archive as its makers published it: a tar of xz-compressed tars, 12.9 GB. */
static const char openwebtext_url[] = "https://zenodo.org/record/3834942/files/openwebtext.tar.xz";
static const char openwebtext_sha256[] = "9fe39d154c5bc67da8c359415372b79510eb1e2edb0d035fe4f7fc3a732b9336";

/* --- the progress line --- */

struct line {
    bool quiet;       /* print no line */
    bool live;        /* stderr is a terminal */
    bool displayed;   /* a live line is displayed */
    double began;     /* lvn_seconds() */
    double drawn;     /* lvn_seconds() of the last line */
    int64_t first;    /* bytes read when this run began; -1: not known yet */
    int64_t warnings; /* printed so far, at most 10 */
};

static void clear(struct line *l)
{
    if (l->displayed) fputs("\r\033[K", stderr);
    l->displayed = false;
}

/* Is a line due? Five times a second on a terminal, every ten seconds elsewhere. */
static bool is_due(struct line *l)
{
    double t = lvn_seconds();
    if (l->quiet || t - l->drawn < (l->live ? 0.2 : 10)) return false;
    l->drawn = t;
    return true;
}

static void draw(struct line *l, const char *text)
{
    clear(l);
    fprintf(stderr, l->live ? "%s" : "%s\n", text);
    fflush(stderr);
    l->displayed = l->live;
}

static void eta_text(double left, char text[LVN_NUMBER_TEXT])
{
    if (isfinite(left) && left < 1e9)
        lvn_seconds_text(left, text);
    else
        snprintf(text, LVN_NUMBER_TEXT, "?");
}

static int on_progress(void *context, const struct lvn_text_progress *p)
{
    struct line *l = context;
    for (const char *at = p->warnings; *at && l->warnings < 10; at = strchr(at, '\n') + 1, l->warnings++) {
        clear(l);
        fprintf(stderr, "warning: %.*s\n", (int)strcspn(at, "\n"), at);
    }
    if (l->first < 0) l->first = p->resumed_at;
    if (is_due(l)) {
        char text[400], documents[LVN_NUMBER_TEXT], tokens[LVN_NUMBER_TEXT], eta[LVN_NUMBER_TEXT],
            rate[LVN_NUMBER_TEXT];
        double seconds = lvn_seconds() - l->began, read = (double)(p->bytes_read - l->first);
        const struct lvn_text_counts *c = p->counts;
        eta_text((double)(p->bytes_total - p->bytes_read) * seconds / read, eta);
        lvn_bytes_text((int64_t)(read / seconds), rate);
        snprintf(text, sizeof text, "%3.0f %%  %s documents, %s tokens, reading %s/s, %s left",
                 p->bytes_total ? 100.0 * (double)p->bytes_read / (double)p->bytes_total : 100.0,
                 lvn_count_text(c->documents[0] + c->documents[1], documents),
                 lvn_count_text(c->tokens[0] + c->tokens[1], tokens), rate, eta);
        draw(l, text);
    }
    return lvn_stop_requested;
}

/* --- options --- */

static const struct {
    const char *word;
    enum lvn_chunk_kind kind;
} kinds[] = {{"openwebtext", LVN_CHUNK_TEXT}, {"text", LVN_CHUNK_TEXT}, {"jsonl", LVN_CHUNK_LINES}};

/* Is the word openwebtext, text or jsonl? */
static bool is_corpus(const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].word, word)) return true;
    return false;
}

/* The id to write after each document; -1: none. */
static enum lvn_status end_token(struct lvn_cli *c, const struct lvn_tokenizer *t, int32_t *id)
{
    const char *name = c->flag[LVN_FLAG_prepare_end_token].t;
    struct lvn_ids suffix = {0}; /* tokens that the tokenizer adds after a text also end a document */
    LVN_TRY(lvn_post_processor_suffix(t, &suffix));
    bool ended = suffix.n > 0;
    lvn_ids_release(&suffix);
    *id = *name || ended ? -1 : t->end_id;
    if (!strcmp(name, "none") || (ended && !*name)) return LVN_OK;
    if (*name) *id = lvn_tokenizer_find(t, name, (int64_t)strlen(name));
    LVN_CHECK(*id >= 0 || !*name, ARG, "'%s' has no token '%s'", t->path, name);
    LVN_CHECK(*id >= 0, ARG,
              "'%s' does not say which token ends a document: give its name with --end-token, or --end-token=none",
              t->path);
    return LVN_OK;
}

static int thread_count(const struct lvn_cli *c)
{
    return c->settings.values.trainer.threads > 0 ? (int)c->settings.values.trainer.threads : lvn_threads_default();
}

/* Download the published archive into the output folder. */
static enum lvn_status fetch(struct lvn_cli *c, const char *out, const char **path)
{
    const struct levin_settings *s = &c->settings;
    const char *url = *s->values.data.url ? s->values.data.url : openwebtext_url;
    const char *sum = *s->values.data.sha256 ? s->values.data.sha256 : *s->values.data.url ? NULL : openwebtext_sha256;
    /* If `out` is sent to a store, into the folder above: the archive must not be sent. */
    const char *folder =
        lvn_store_is_url(c->flag[LVN_FLAG_prepare_out].t) ? lvn_path_dir(&c->settings.arena, out) : out;
    *path = folder ? lvn_path_join(&c->settings.arena, folder, lvn_path_name(url)) : NULL;
    if (!*path) return LVN_MEMORY;
    /* The file was verified before it got this name: do not read its 13 GB again. */
    if (lvn_path_exists(*path)) return LVN_OK;
    struct lvn_transfer t;
    lvn_transfer_begin(&t, c, lvn_path_name(url));
    enum lvn_status status = lvn_download(url, sum, *path, lvn_transfer_progress, &t);
    lvn_transfer_end(&t);
    LVN_TRY_WHILE(status, "fetching OpenWebText");
    return LVN_OK;
}

/* --- the summary --- */

static void warn(const struct lvn_cli *c, const struct lvn_tokenizer *t, const struct lvn_text_counts *n)
{
    char a[LVN_NUMBER_TEXT];
    const char *separator = c->flag[LVN_FLAG_prepare_separator].t;
    if (n->notes.special) {
        const uint32_t *at = t->start + n->notes.special_id;
        const char *name = (const char *)t->byte + at[0];
        const int bytes = (int)(at[1] - at[0]);
        lvn_log(LVN_LOG_WARN,
                "the texts contain the text of special tokens, such as %.*s, %s time%s; it was encoded as ordinary "
                "text. If these are meant as tokens, use --allow-special; if they separate documents of a text file, "
                "--separator='%.*s'",
                bytes, name, lvn_count_text(n->notes.special, a), lvn_plural(n->notes.special), bytes, name);
    }
    if (n->doubled)
        lvn_log(LVN_LOG_WARN,
                "%s document%s with a token that the tokenizer also adds, so the token occurs twice; remove it from "
                "the texts",
                lvn_count_text(n->doubled, a), n->doubled == 1 ? " begins" : "s begin");
    lvn_encoder_notes_report(t, "the texts", n->notes.unknown, n->notes.ids, false);
    if (*separator && !n->separators)
        lvn_log(LVN_LOG_WARN, "--separator: the text files do not contain '%s', so each is one document", separator);
}

/* "12 %" of the tokens. */
static double percent(const struct lvn_text_counts *n, int split)
{
    return 100.0 * (double)n->tokens[split] / (double)(n->tokens[LVN_SPLIT_TRAIN] + n->tokens[LVN_SPLIT_VAL]);
}

static void report(struct lvn_cli *c, const char *out, const struct lvn_tokenizer *t, const struct lvn_text_counts *n,
                   int64_t shard_tokens, double seconds)
{
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT], files[64];
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) {
        if (!n->tokens[i]) continue;
        lvn_token_shards_text((enum lvn_split_id)i, n->tokens[i], shard_tokens, files);
        lvn_cli_print(c, "%s/%s: %s token%s (%.3g %%) of %s document%s\n", out, files, lvn_count_text(n->tokens[i], a),
                      lvn_plural(n->tokens[i]), percent(n, i), lvn_count_text(n->documents[i], b),
                      lvn_plural(n->documents[i]));
    }
    if (!n->tokens[LVN_SPLIT_VAL])
        lvn_cli_print(c, "no val.bin: %s\n",
                      c->flag[LVN_FLAG_prepare_val_fraction].r > 0
                          ? "there is too little text to use some for validation"
                          : "--val-fraction=0: no text is used for validation");
    if (n->duplicates)
        lvn_cli_print(c, "%s duplicate document%s left out\n", lvn_count_text(n->duplicates, a),
                      lvn_plural(n->duplicates));
    if (n->bad) lvn_cli_print(c, "%s bad line%s skipped\n", lvn_count_text(n->bad, a), lvn_plural(n->bad));
    if (n->crlf)
        lvn_cli_print(
            c,
            "%s line%s end%s in CR LF, and the tokens of '\\r' are learned; `sed -i 's/\\r$//' FILE` converts "
            "a file\n",
            lvn_count_text(n->crlf, a), lvn_plural(n->crlf), n->crlf == 1 ? "s" : "");
    if (n->empty) lvn_cli_print(c, "%s empty document%s skipped\n", lvn_count_text(n->empty, a), lvn_plural(n->empty));
    if (n->skipped)
        lvn_cli_print(c, "%s file%s skipped: no text by its name, or not UTF-8\n", lvn_count_text(n->skipped, a),
                      lvn_plural(n->skipped));
    lvn_cli_print(c, "vocabulary: %s; train on it with --data.kind=tokens --data.path=%s\n", lvn_count_text(t->n, a),
                  out);
    lvn_cli_add(c, "out", lvn_json_text(out, INT64_MAX));
    lvn_cli_add(c, "vocab_size", json_integer(t->n));
    lvn_cli_add(c, "train_tokens", json_integer(n->tokens[LVN_SPLIT_TRAIN]));
    lvn_cli_add(c, "val_tokens", json_integer(n->tokens[LVN_SPLIT_VAL]));
    lvn_cli_add(c, "train_documents", json_integer(n->documents[LVN_SPLIT_TRAIN]));
    lvn_cli_add(c, "val_documents", json_integer(n->documents[LVN_SPLIT_VAL]));
    lvn_cli_add(c, "text_bytes", json_integer(n->text_bytes));
    lvn_cli_add(c, "duplicates", json_integer(n->duplicates));
    lvn_cli_add(c, "bad_lines", json_integer(n->bad));
    lvn_cli_add(c, "empty_documents", json_integer(n->empty));
    lvn_cli_add(c, "files_skipped", json_integer(n->skipped));
    lvn_cli_add(c, "special_texts", json_integer(n->notes.special));
    lvn_cli_add(c, "unknown_tokens", json_integer(n->notes.unknown));
    lvn_cli_add(c, "crlf_lines", json_integer(n->crlf));
    lvn_cli_add(c, "seconds", json_real(seconds));
    warn(c, t, n);
}

/* ARG if token files are in `out` and --overwrite is not given. t: see lvn_prepare_refuse(). */
static enum lvn_status check_overwrite(const struct lvn_cli *c, const char *out, const struct lvn_tokenizer *t)
{
    return lvn_prepare_refuse(out, t, lvn_cli_on(c, LVN_FLAG_prepare_overwrite));
}

/* Window of the model that the settings name (model.block_size); 0: they name none. */
static int64_t model_window(const struct lvn_cli *c)
{
    const struct lvn_model *model = lvn_model_find(c->settings.values.model.kind);
    return model ? lvn_settings_role(&c->settings, model, LVN_ROLE_POSITIONS) : 0;
}

/* --shard-size in tokens of `width` bytes; 0: no shards. ARG for another text than a number or a size. */
static enum lvn_status read_shard_tokens(const struct lvn_cli *c, int width, int64_t *out)
{
    const char *text = c->flag[LVN_FLAG_prepare_shard_size].t;
    const size_t n = strlen(text);
    const bool is_size = n && (text[n - 1] == 'B' || text[n - 1] == 'b');
    *out = lvn_bytes_of_text(text);
    LVN_CHECK(*out >= 0 && !strchr(text, '.') && (!is_size || *out >= width), ARG,
              "--shard-size must be a number of tokens, as 100000000 or 100M, or a size, as 64MB or 64MiB, got '%.40s'",
              text);
    if (is_size) *out /= width;
    return LVN_OK;
}

/* Check the flags that need neither a tokenizer nor data, before anything is downloaded or created. */
static enum lvn_status check_flags(const struct lvn_cli *c)
{
    const char *bad = c->flag[LVN_FLAG_prepare_bad_lines].t;
    int64_t shard_tokens;
    enum lvn_text_encoding encoding;
    LVN_TRY(read_shard_tokens(c, 2, &shard_tokens));
    LVN_TRY(lvn_text_encoding_find(c->flag[LVN_FLAG_prepare_encoding].t, &encoding));
    LVN_CHECK(!strcmp(bad, "refuse") || !strcmp(bad, "skip"), ARG, "--bad-lines must be skip or refuse, got '%.40s'",
              bad);
    return LVN_OK;
}

/* Options of both ways to prepare texts. */
static struct lvn_text_options text_options(const struct lvn_cli *c, const struct lvn_tokenizer *t, const char *input)
{
    return (struct lvn_text_options){.corpus = {.tokenizer = t,
                                                .field = c->flag[LVN_FLAG_prepare_field].t,
                                                .field_option = "--field",
                                                .separator = c->flag[LVN_FLAG_prepare_separator].t,
                                                .allow_special = lvn_cli_on(c, LVN_FLAG_prepare_allow_special)},
                                     .input = input,
                                     .val_fraction = c->flag[LVN_FLAG_prepare_val_fraction].r,
                                     .val_given = c->given[LVN_FLAG_prepare_val_fraction],
                                     .window = model_window(c),
                                     .threads = thread_count(c)};
}

static enum lvn_status run(struct lvn_cli *c, const char *kind, const struct lvn_tokenizer *t, const char *input,
                           const char *named)
{
    const char *out;
    struct line line = {.quiet = lvn_cli_on(c, LVN_FLAG_any_quiet),
                        .live = isatty(STDERR_FILENO),
                        .began = lvn_seconds(),
                        .drawn = lvn_seconds()};
    struct lvn_text_counts counts = {0};
    struct lvn_text_options o = text_options(c, t, input);
    LVN_TRY(read_shard_tokens(c, lvn_text_width(t), &o.shard_tokens));
    LVN_TRY(lvn_text_encoding_find(c->flag[LVN_FLAG_prepare_encoding].t, &o.corpus.encoding));
    o.seed = (uint64_t)c->flag[LVN_FLAG_prepare_seed].i;
    o.drop_duplicates = lvn_cli_on(c, LVN_FLAG_prepare_drop_duplicates);
    o.overwrite = lvn_cli_on(c, LVN_FLAG_prepare_overwrite);
    o.save_every = (double)c->flag[LVN_FLAG_prepare_save_every].i;
    o.progress = on_progress;
    o.context = &line;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].word, kind)) o.corpus.kind = kinds[i].kind;
    o.corpus.refuse_bad = !strcmp(c->flag[LVN_FLAG_prepare_bad_lines].t, "refuse");
    LVN_TRY(end_token(c, t, &o.end_id));
    LVN_CHECK(*o.input || !strcmp(kind, "openwebtext"), ARG, "levin prepare %s needs --input=FILE_OR_FOLDER", kind);
    LVN_TRY(lvn_upload_staging_open(&c->settings.arena, named, &out));
    o.out = out;
    if (!lvn_text_prepare_begun(out)) LVN_TRY(check_overwrite(c, named, t));
    LVN_TRY(lvn_store_download(&c->settings.arena, o.input, LVN_WANT_ALL, &o.input));
    if (!*o.input) LVN_TRY(fetch(c, out, &o.input));
    lvn_stop_catch();
    line.first = -1;
    line.began = lvn_seconds();
    enum lvn_status status = lvn_text_prepare(&o, &counts);
    clear(&line);
    if (status == LVN_OK) status = lvn_upload_staging_send(out, named);
    if (status == LVN_OK) report(c, named, t, &counts, o.shard_tokens, lvn_seconds() - line.began);
    return status;
}

/* With a tokenizer, the flags of the command choose columns and validation data. */
static enum lvn_status refuse_data_keys(const struct lvn_cli *c)
{
    return lvn_cli_refuse_keys(c, "data.path, data.kind, data.folder, data.url, data.sha256, model, trainer",
                               "has no effect on `levin prepare` with a tokenizer: leave it out; --field names the "
                               "column of the text, and --val-fraction the share for validation");
}

/* Prepare a file or folder of that kind. */
static enum lvn_status prepare_files(struct lvn_cli *c, const char *kind, const char *input, const char *out)
{
    struct lvn_tokenizer *t;
    const char *path = c->flag[LVN_FLAG_prepare_tokenizer].t;
    LVN_CHECK(*path, ARG, "levin prepare %s needs --tokenizer=FILE_OR_DIR: a vocab.json with merges.txt, for instance",
              kind);
    LVN_TRY(refuse_data_keys(c));
    LVN_TRY(lvn_cli_tokenizer(c, path, &t));
    enum lvn_status status = run(c, kind, t, input, out);
    lvn_tokenizer_close(t);
    return status;
}

/* The same for --input, into --out (default: data/KIND). */
static enum lvn_status prepare_corpus(struct lvn_cli *c, const char *kind)
{
    const char *given = c->flag[LVN_FLAG_prepare_out].t, *input = c->flag[LVN_FLAG_prepare_input].t;
    const char *out = *given ? given : lvn_arena_printf(&c->settings.arena, "data/%s", kind);
    LVN_TRY(lvn_cli_settings(c, NULL, 0));
    return out ? prepare_files(c, kind, input, out) : LVN_MEMORY;
}

/* Prepare one text file: its last part is for validation. */
static enum lvn_status prepare_one(struct lvn_cli *c, const char *text, const char *out)
{
    struct lvn_tokenizer *t;
    struct lvn_text_counts counts;
    double began = lvn_seconds();
    const char *folder;
    LVN_TRY(refuse_data_keys(c));
    LVN_TRY(lvn_cli_tokenizer(c, c->flag[LVN_FLAG_prepare_tokenizer].t, &t));
    enum lvn_status status = check_overwrite(c, out, t);
    struct lvn_text_options o = text_options(c, t, NULL);
    if (status == LVN_OK) status = read_shard_tokens(c, lvn_text_width(t), &o.shard_tokens);
    if (status == LVN_OK) status = lvn_text_encoding_find(c->flag[LVN_FLAG_prepare_encoding].t, &o.corpus.encoding);
    if (status == LVN_OK) status = lvn_store_download(&c->settings.arena, text, LVN_WANT_ALL, &o.input);
    if (status == LVN_OK) status = lvn_upload_staging_open(&c->settings.arena, out, &folder);
    if (status == LVN_OK) o.out = folder;
    if (status == LVN_OK) status = lvn_text_prepare_one(&o, &counts);
    if (status == LVN_OK) status = lvn_upload_staging_send(folder, out);
    if (status == LVN_OK) report(c, out, t, &counts, o.shard_tokens, lvn_seconds() - began);
    lvn_tokenizer_close(t);
    return status;
}

/* --- the command --- */

/* --out, or the text's path without its extension. */
static const char *output_folder(struct lvn_cli *c)
{
    const char *given = c->flag[LVN_FLAG_prepare_out].t, *path = c->settings.values.data.path;
    if (*given) return given;
    int64_t n = lvn_file_stem(path);
    return lvn_arena_printf(&c->settings.arena, "%.*s%s", (int)n, path, path[n] ? "" : "-tokens");
}

/* Without data.kind, or with documents, detect the kind of data at data.path. *kind "text" or "jsonl": several
 * documents, which *description names in messages; *kind NULL: one text. */
static enum lvn_status detect_kind(const struct levin_settings *s, const char **kind, const char **description)
{
    const char *path = s->values.data.path;
    enum lvn_store_kind there = LVN_STORE_NOTHING;
    int64_t bytes;
    *kind = NULL;
    *description = "";
    if (!*path || (lvn_settings_given(s, LVN_OPT_data_kind) && strcmp(s->values.data.kind, "documents") != 0))
        return LVN_OK;
    LVN_TRY(lvn_file_refuse_name(path));
    enum lvn_file_type type = lvn_file_type(path, lvn_file_uncompressed_name(path));
    bool compressed = path[lvn_file_uncompressed_name(path)] != '\0';
    if (type == LVN_FILE_TYPE_UNKNOWN && !compressed) LVN_TRY(lvn_store_stat(path, &there, &bytes));
    const bool rows = type == LVN_FILE_TYPE_LINES || type == LVN_FILE_TYPE_PARQUET;
    *kind = rows ? "jsonl" : compressed || there == LVN_STORE_FOLDER ? "text" : NULL;
    *description = type == LVN_FILE_TYPE_LINES     ? "lines of JSON"
                   : type == LVN_FILE_TYPE_PARQUET ? "a Parquet file"
                   : compressed                    ? "an archive"
                                                   : "a folder of texts";
    return LVN_OK;
}

enum lvn_status lvn_command_prepare(struct lvn_cli *c)
{
    int64_t shard_tokens;
    const char *operand = c->n_operands ? c->operand[0] : NULL;
    bool recipe = operand && lvn_cli_is_recipe(operand);
    LVN_TRY(check_flags(c));
    if (operand && is_corpus(operand)) return prepare_corpus(c, operand);
    LVN_CHECK(!*c->flag[LVN_FLAG_prepare_input].t, ARG,
              "--input belongs to `levin prepare openwebtext`, `text` or `jsonl`: say which");
    if (operand && !recipe) LVN_TRY(lvn_settings_set(&c->settings, "data.path", operand, LVN_SOURCE_COMMAND));
    LVN_TRY(lvn_cli_settings(c, recipe ? operand : NULL, LVN_USES_DATA));
    const struct levin_settings *s = &c->settings;
    const char *kind, *description;
    LVN_CHECK(*c->flag[LVN_FLAG_prepare_out].t || s->origin[LVN_OPT_data_path].source != LVN_SOURCE_RUN, ARG,
              "the settings of a run do not say where to write: give a folder, --out=FOLDER");
    const struct lvn_dataset_kind *given =
        lvn_settings_given(s, LVN_OPT_data_kind) ? lvn_dataset_kind_find(s->values.data.kind) : NULL;
    LVN_CHECK(!given || !given->sample, ARG, "data.kind=%s is read as it is: there is nothing to prepare", given->name);
    LVN_TRY(detect_kind(s, &kind, &description));
    const bool tokenizer = *c->flag[LVN_FLAG_prepare_tokenizer].t, separator = *c->flag[LVN_FLAG_prepare_separator].t;
    LVN_CHECK(
        tokenizer ||
            (!separator && !lvn_cli_on(c, LVN_FLAG_prepare_allow_special) && !c->given[LVN_FLAG_prepare_encoding]),
        ARG,
        "--separator, --allow-special and --encoding need a tokenizer: without --tokenizer each character is a token");
    LVN_CHECK(tokenizer || !*s->values.data.tokenizer, ARG,
              "data.tokenizer is '%s', and levin prepare has a flag for it: add --tokenizer=%s",
              s->values.data.tokenizer, s->values.data.tokenizer);
    if (!kind && separator) kind = "text", description = "a text of several documents";
    static const enum lvn_flag_id of_documents[] = {LVN_FLAG_prepare_end_token, LVN_FLAG_prepare_drop_duplicates,
                                                    LVN_FLAG_prepare_bad_lines, LVN_FLAG_prepare_field,
                                                    LVN_FLAG_prepare_seed,      LVN_FLAG_prepare_save_every};
    if (!kind)
        LVN_TRY(lvn_cli_refuse(c, of_documents, sizeof of_documents / sizeof *of_documents,
                               "has no effect on a single text: it is for several documents (a folder, rows, or a text "
                               "with --separator)"));
    const char *out = output_folder(c), *folder;
    if (!out) return LVN_MEMORY;
    if (!kind && !tokenizer) LVN_TRY(check_overwrite(c, out, NULL));
    char *cached;
    LVN_TRY(lvn_model_setup_download(s, false, &cached)); /* cached: NULL, since nothing is evaluated */
    struct lvn_data_options o = lvn_data_options_of(&s->values);
    o.block_size = model_window(c);
    const double fraction = c->flag[LVN_FLAG_prepare_val_fraction].r;
    struct lvn_prepared made;
    if (kind) {
        LVN_TRY_WHILE(prepare_files(c, kind, s->values.data.path, out), "preparing '%s', which is %s",
                      s->values.data.path, description);
        return LVN_OK;
    }
    if (tokenizer) return prepare_one(c, s->values.data.path, out);
    LVN_TRY(read_shard_tokens(c, 2, &shard_tokens));
    LVN_TRY(lvn_upload_staging_open(&c->settings.arena, out, &folder));
    LVN_TRY(lvn_prepare(&o, c->given[LVN_FLAG_prepare_val_fraction] ? &fraction : NULL, shard_tokens, folder, &made));
    LVN_TRY(lvn_upload_staging_send(folder, out));
    char tokens[LVN_NUMBER_TEXT], files[64], vocabulary[LVN_NUMBER_TEXT];
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++)
        if (made.n_tokens[i])
            lvn_cli_print(c, "%s/%s: %s token%s\n", out,
                          lvn_token_shards_text((enum lvn_split_id)i, made.n_tokens[i], shard_tokens, files),
                          lvn_count_text(made.n_tokens[i], tokens), lvn_plural(made.n_tokens[i]));
    lvn_cli_print(c, "vocabulary: %s; train on it with --data.kind=tokens --data.path=%s\n",
                  lvn_count_text(made.vocab_size, vocabulary), out);
    lvn_cli_add(c, "out", lvn_json_text(out, INT64_MAX));
    lvn_cli_add(c, "vocab_size", json_integer(made.vocab_size));
    lvn_cli_add(c, "train_tokens", json_integer(made.n_tokens[LVN_SPLIT_TRAIN]));
    lvn_cli_add(c, "val_tokens", json_integer(made.n_tokens[LVN_SPLIT_VAL]));
    return LVN_OK;
}
