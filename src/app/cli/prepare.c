/* prepare.c - levin prepare: writes a text as token files, each character a token. With a tokenizer prepare_text.c does
 * it. */
#include "data/prepare/prepare.h"
#include "base/files.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/model_arg.h"
#include "cli/prepare_text.h"
#include "data/file_type.h"
#include "data/prepare/token_shards.h"
#include "formats/json.h"
#include "options/choices.h"
#include "setup/setup.h"
#include "stores/upload_staging.h"

/* --out, or the text's path without its extension. */
static const char *output_folder(struct lvn_cli *c)
{
    const char *given = c->flag[LVN_FLAG_prepare_out].t, *path = c->settings.values.data.path;
    if (*given) return given;
    int64_t n = lvn_file_stem(path);
    return lvn_arena_printf(&c->settings.arena, "%.*s%s", (int)n, path, path[n] ? "" : "-tokens");
}

/* Without data.kind, detect the kind of data at data.path. *kind "text" or "jsonl": several documents, which
 * *description names in messages; *kind NULL: one text. */
static enum lvn_status detect_kind(const struct levin_settings *s, const char **kind, const char **description)
{
    const char *path = s->values.data.path;
    enum lvn_store_kind there = LVN_STORE_NOTHING;
    int64_t bytes;
    *kind = NULL;
    *description = "";
    if (!*path || lvn_settings_given(s, LVN_OPT_data_kind)) return LVN_OK;
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
    LVN_TRY(lvn_cli_prepare_check_flags(c));
    if (operand && lvn_cli_is_corpus(operand)) return lvn_cli_prepare_corpus(c, operand);
    LVN_CHECK(!*c->flag[LVN_FLAG_prepare_input].t, ARG,
              "--input belongs to `levin prepare openwebtext`, `text` or `jsonl`: say which");
    if (operand && !recipe) LVN_TRY(lvn_settings_set(&c->settings, "data.path", operand, LVN_SOURCE_COMMAND));
    LVN_TRY(lvn_cli_settings(c, recipe ? operand : NULL, LVN_USES_DATA));
    const struct levin_settings *s = &c->settings;
    const char *kind, *description;
    LVN_CHECK(*c->flag[LVN_FLAG_prepare_out].t || s->origin[LVN_OPT_data_path].source != LVN_SOURCE_RUN, ARG,
              "the settings of a run do not say where to write: give a folder, --out=FOLDER");
    LVN_TRY(detect_kind(s, &kind, &description));
    const bool tokenizer = *c->flag[LVN_FLAG_prepare_tokenizer].t, separator = *c->flag[LVN_FLAG_prepare_separator].t;
    LVN_CHECK(
        tokenizer ||
            (!separator && !lvn_cli_on(c, LVN_FLAG_prepare_allow_special) && !c->given[LVN_FLAG_prepare_encoding]),
        ARG,
        "--separator, --allow-special and --encoding need a tokenizer: without --tokenizer each character is a token");
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
    if (!kind && !tokenizer) LVN_TRY(lvn_cli_prepare_check_overwrite(c, out, NULL));
    char *cached;
    LVN_TRY(lvn_model_setup_download(s, false, &cached)); /* cached: NULL, since nothing is evaluated */
    struct lvn_data_options o = lvn_data_options_of(&s->values);
    o.block_size = lvn_cli_prepare_window(c);
    const double fraction = c->flag[LVN_FLAG_prepare_val_fraction].r;
    struct lvn_prepared made;
    if (kind) {
        LVN_TRY_WHILE(lvn_cli_prepare_files(c, kind, s->values.data.path, out), "preparing '%s', which is %s",
                      s->values.data.path, description);
        return LVN_OK;
    }
    if (tokenizer) return lvn_cli_prepare_one(c, s->values.data.path, out);
    LVN_TRY(lvn_cli_prepare_shard_tokens(c, 2, &shard_tokens));
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
