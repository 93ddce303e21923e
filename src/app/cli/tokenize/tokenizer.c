/* tokenizer.c - levin tokenizer train: makes a vocabulary from text files. tokenizers/training/bpe_trainer.h does the
 * work. */

#include "base/files.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "data/texts/text_tokenizer.h"
#include "formats/json.h"
#include "host/machine.h"
#include "stores/store.h"
#include "stores/upload_staging.h"

enum { MAX_SPECIAL_BYTES = 1 << 20 };

/* --- the command --- */

/* Set the special tokens: "a,b", or the lines of a file. */
static enum lvn_status read_special(struct lvn_arena *a, const char *list, struct lvn_vocabulary_options *o)
{
    const bool file = lvn_path_is_file(list);
    LVN_CHECK(
        file || !lvn_ends_with(list, ".txt"), ARG,
        "--special-tokens '%.300s' is the name of a text file, and there is none; give a file with a token on each "
        "line, or the tokens, separated by commas",
        list);
    const char *separators = file ? "\r\n" : ",";
    char *text = lvn_arena_strdup(a, list), *read = NULL;
    int64_t bytes = 0;
    if (file) {
        LVN_TRY(lvn_file_read(list, MAX_SPECIAL_BYTES, &read, &bytes));
        text = lvn_arena_printf(a, "%.*s", (int)bytes, read);
        free(read);
    }
    const char **names = lvn_arena_alloc(a, sizeof *names * (size_t)((text ? strlen(text) : 0) / 2 + 1));
    if (!text || !names) return LVN_MEMORY;
    for (char *rest = text, *name; (name = strtok_r(rest, separators, &rest));) names[o->n_special++] = name;
    LVN_CHECK(!*list || o->n_special, ARG, "--special-tokens '%.60s' has no token; give names separated by commas",
              list);
    o->special = names;
    return LVN_OK;
}

static enum lvn_status read_options(struct lvn_cli *c, struct lvn_vocabulary_options *o)
{
    const char *kind = c->flag[LVN_FLAG_tokenizer_kind].t;
    *o = (struct lvn_vocabulary_options){.wordpiece = !strcmp(kind, "wordpiece"),
                                         .lowercase = lvn_cli_on(c, LVN_FLAG_tokenizer_lowercase),
                                         .size = c->flag[LVN_FLAG_tokenizer_vocab_size].i,
                                         .min_frequency = c->flag[LVN_FLAG_tokenizer_min_frequency].i,
                                         .limit_alphabet = c->flag[LVN_FLAG_tokenizer_limit_alphabet].i,
                                         .threads = lvn_threads_default()};
    const char *pattern = c->flag[LVN_FLAG_tokenizer_pattern].t,
               *special = c->flag[LVN_FLAG_tokenizer_special_tokens].t;
    if (*pattern) o->pattern = pattern;
    if (c->settings.values.trainer.threads > 0) o->threads = (int)c->settings.values.trainer.threads;
    LVN_CHECK(!strcmp(c->operand[0], "train"), ARG, "levin tokenizer supports train, got '%.40s'", c->operand[0]);
    LVN_CHECK(o->wordpiece || !strcmp(kind, "bpe"), ARG, "--kind must be wordpiece or bpe, got '%.40s'", kind);
    LVN_CHECK(o->wordpiece || (!o->lowercase && !o->limit_alphabet), ARG,
              "--lowercase and --limit-alphabet are for --kind=wordpiece: byte-level BPE keeps all bytes");
    LVN_CHECK(!o->wordpiece || (!*pattern && !*special), ARG,
              "--pattern and --special-tokens are for --kind=bpe: BERT's words and special tokens are fixed");
    LVN_TRY(read_special(&c->settings.arena, special, o));
    LVN_CHECK(*c->flag[LVN_FLAG_tokenizer_input].t, ARG, "levin tokenizer train requires --input=FILE_OR_FOLDER");
    LVN_CHECK(*c->flag[LVN_FLAG_tokenizer_out].t, ARG, "levin tokenizer train requires --out=FOLDER");
    return LVN_OK;
}

static enum lvn_status make(struct lvn_cli *c, struct lvn_vocabulary_text *r, const char *named)
{
    struct lvn_vocabulary *v = r->v;
    const char *out;
    char size[LVN_NUMBER_TEXT], bytes[LVN_NUMBER_TEXT];
    LVN_TRY(lvn_vocabulary_text_read(r, &c->settings.arena, c->flag[LVN_FLAG_tokenizer_input].t));
    LVN_TRY(lvn_vocabulary_make(v));
    LVN_TRY(lvn_upload_staging_open(&c->settings.arena, named, &out));
    LVN_TRY(lvn_vocabulary_save(v, out));
    LVN_TRY(lvn_upload_staging_send(out, named));
    lvn_cli_print(c, "%s: %s tokens from %s of text\n", named, lvn_count_text(v->n, size),
                  lvn_bytes_text(r->bytes, bytes));
    if (v->n < v->o.size)
        lvn_cli_print(c, "fewer than --vocab-size=%lld: no more pairs occur often enough\n", (long long)v->o.size);
    if (r->bad)
        lvn_cli_print(c, "%lld row%s cannot be used and %s skipped; the first: %s\n", (long long)r->bad,
                      lvn_plural(r->bad), r->bad == 1 ? "is" : "are", r->first_bad.p);
    lvn_cli_add(c, "out", lvn_json_text(named, INT64_MAX));
    lvn_cli_add(c, "vocab_size", json_integer(v->n));
    lvn_cli_add(c, "merges", json_integer(v->n_merges));
    lvn_cli_add(c, "text_bytes", json_integer(r->bytes));
    lvn_cli_add(c, "bad_lines", json_integer(r->bad));
    return LVN_OK;
}

enum lvn_status lvn_command_tokenizer(struct lvn_cli *c)
{
    struct lvn_vocabulary_options o;
    struct lvn_vocabulary v;
    struct lvn_vocabulary_text r = {.v = &v, .field = "text|document|sentence", .column_option = "--field"};
    const char *field = c->flag[LVN_FLAG_tokenizer_field].t;
    if (*field) r.field = field;
    const char *named = c->flag[LVN_FLAG_tokenizer_out].t;
    LVN_TRY(lvn_cli_settings(c, NULL, 0));
    LVN_TRY(read_options(c, &o));
    LVN_CHECK(lvn_cli_on(c, LVN_FLAG_tokenizer_overwrite) || lvn_store_is_url(named) || !lvn_tokenizer_exists(named),
              ARG, "'%s' holds a tokenizer already: replace it with --overwrite, or give another folder with --out",
              named);
    enum lvn_status status = lvn_vocabulary_open(&v, &o);
    if (status == LVN_OK) status = make(c, &r, named);
    lvn_vocabulary_text_release(&r);
    lvn_vocabulary_close(&v);
    return status;
}
