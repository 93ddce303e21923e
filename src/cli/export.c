/* export.c - levin export MODEL OUT: a model directory in another format, or a checkpoint of torch.save() (OUT ends in
 * .pt). */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/cli.h"
#include "data/codec.h"
#include "data/file_form.h"
#include "models/keys.h"
#include "stores/stage.h"
#include "train/model_config.h"
#include "train/model_setup.h"
#include "train/network.h"

/* What turns text into the model's ids. */
static enum lvn_status write_codec(struct lvn_arena *a, const char *from, const char *out)
{
    struct lvn_codec codec;
    char *json = NULL;
    LVN_TRY(lvn_codec_beside(&codec, from));
    enum lvn_status status = codec.tokenizer ? lvn_tokenizer_save(codec.tokenizer, out) : LVN_OK;
    if (codec.vocabulary) {
        const char *state = lvn_path_join(a, out, "state"), *path = lvn_path_join(a, out, "state/vocabulary.json");
        const char *tokenizer = lvn_path_join(a, out, "tokenizer.json");
        const char *config = lvn_path_join(a, out, "tokenizer_config.json");
        status = state && path && tokenizer && config ? lvn_dir_make(state) : LVN_MEMORY;
        if (status == LVN_OK) status = lvn_vocab_to_json(codec.vocabulary, &json);
        if (status == LVN_OK) status = lvn_file_write(path, json, (int64_t)strlen(json));
        free(json);
        json = NULL;
        if (status == LVN_OK) status = lvn_vocab_to_tokenizer(codec.vocabulary, &json);
        if (status == LVN_OK) status = lvn_file_write(tokenizer, json, (int64_t)strlen(json));
        if (status == LVN_OK)
            status = lvn_file_write(config, lvn_vocab_tokenizer_config, (int64_t)strlen(lvn_vocab_tokenizer_config));
        free(json);
    }
    lvn_codec_release(&codec);
    return status;
}

static enum lvn_status write_files(struct lvn_arena *a, struct lvn_model_files *f, const char *out)
{
    const char *weights = lvn_path_join(a, out, "model.safetensors"), *config = lvn_path_join(a, out, "config.json");
    const char *part = lvn_path_join(a, out, ".model.safetensors.part");
    if (!weights || !config || !part) return LVN_MEMORY;
    LVN_CHECK(!lvn_path_exists(weights) && !lvn_path_exists(config), ARG,
              "'%s' holds a model already; choose another folder or remove it", out);
    LVN_TRY_WHILE(lvn_dir_make(out), "making the folder for the model");
    LVN_TRY(lvn_safetensors_write(part, &f->source, a, NULL));
    LVN_TRY(lvn_file_rename(part, weights));
    return lvn_file_write(config, f->config.p, f->config.n);
}

/* --block-size and --vocab-size: another number of positions and tokens than the model has. */
static enum lvn_status resize(const struct lvn_cli *c, struct lvn_pretrained *p)
{
    int64_t block = c->flag[LVN_FLAG_export_block_size].i, vocab = c->flag[LVN_FLAG_export_vocab_size].i;
    int64_t positions = lvn_model_value(&p->config, LVN_MEANS_POSITIONS);
    LVN_CHECK(block <= positions, ARG,
              "--block-size is %lld, but the model in '%s' has %lld positions: the table can only be cut",
              (long long)block, p->path, (long long)positions);
    if (block) lvn_model_set(&p->config, LVN_MEANS_POSITIONS, block);
    if (!vocab) return LVN_OK;
    struct lvn_codec codec;
    LVN_TRY(lvn_codec_beside(&codec, p->dir));
    int64_t used = lvn_codec_size(&codec);
    lvn_codec_release(&codec);
    return lvn_pretrained_set_vocab(p, vocab, used);
}

/* The folder to write into; where OUT is in a store, one here that is empty. */
static enum lvn_status open_out(struct lvn_arena *a, const char *out, const char **folder)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    LVN_TRY(lvn_stage_open(a, out, folder));
    if (*folder == out) return LVN_OK;
    const char *config = lvn_store_join(a, out, "config.json");
    if (!config) return LVN_MEMORY;
    LVN_TRY(lvn_store_stat(config, &kind, &bytes));
    LVN_CHECK(kind == LVN_STORE_NOTHING, ARG, "'%s' holds a model already; choose another folder or remove it", out);
    return strncmp(out, "file:", 5) == 0 ? LVN_OK : lvn_tree_remove(*folder);
}

static bool is_torch(const char *out)
{
    size_t n = strlen(out);
    return n > 3 && strcmp(out + n - 3, ".pt") == 0;
}

/* A checkpoint of torch.save(), as far as the program that keeps its models so needs it to sample. */
static enum lvn_status write_torch(struct lvn_arena *a, const struct lvn_model_files *f, const struct lvn_model *form,
                                   const struct lvn_model_config *c, const char *out)
{
    struct lvn_torch_arg args[LVN_CONFIG_ARGS];
    int n_args = lvn_config_args(form, c, args);
    const char *part = lvn_arena_printf(a, "%s.part", out);
    if (!part) return LVN_MEMORY;
    LVN_CHECK(!lvn_store_is_url(out), ARG, "'%s': a .pt file is written on this machine; `levin cp` sends it", out);
    LVN_CHECK(!lvn_path_exists(out), ARG, "'%s' is there already; choose another name or remove it", out);
    LVN_TRY(lvn_torch_write(part, &f->source, args, n_args));
    return lvn_file_rename(part, out);
}

static enum lvn_status write_model(struct lvn_cli *c, const struct lvn_pretrained *p, struct lvn_network *n,
                                   const struct lvn_model *form)
{
    struct lvn_arena a;
    struct lvn_model_files files;
    LVN_TRY(lvn_network_allocate(n));
    LVN_TRY(lvn_pretrained_load(p, n->params, n->memory[LVN_BUFFER_PARAM], n->weights));
    LVN_TRY(lvn_model_files_make(&files, form, &p->config, n->params, n->memory[LVN_BUFFER_PARAM], n->weights, false));
    lvn_arena_init(&a);
    const char *folder;
    enum lvn_status status;
    if (is_torch(c->operand[1])) {
        status = write_torch(&a, &files, form, &p->config, c->operand[1]);
    } else {
        status = open_out(&a, c->operand[1], &folder);
        if (status == LVN_OK) status = write_files(&a, &files, folder);
        if (status == LVN_OK) status = write_codec(&a, p->dir, folder);
        if (status == LVN_OK) status = lvn_stage_send(folder, c->operand[1]);
    }
    lvn_arena_release(&a);
    lvn_model_files_release(&files);
    return status;
}

/* Names of files are no folders: what other programs keep in one is not written. */
static enum lvn_status refuse_file(const char *out, const struct lvn_model *model)
{
    char list[256] = "";
    if (is_torch(out) || lvn_file_form(out, (int64_t)strlen(out)) == LVN_FORM_UNKNOWN) return LVN_OK;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        size_t n = strlen(list);
        if (lvn_model_form(*m) == lvn_model_form(model) && *m != lvn_model_form(model))
            snprintf(list + n, sizeof list - n, ", %s", (*m)->name);
    }
    LVN_FAIL(
        ARG,
        "'%s': levin writes no %s; it writes a folder, in one of the formats huggingface%s (--format), or OUT.pt, a "
        "checkpoint of nanoGPT",
        out, strrchr(out, '.'), list);
}

/* The variant whose keys and files OUT has: as --format says, or, of a .pt file, the one that is kept in such. */
static enum lvn_status find_form(const struct lvn_cli *c, const struct lvn_model *model, const struct lvn_model **form)
{
    const struct lvn_model *const *m = lvn_models();
    bool torch = is_torch(c->operand[1]);
    if (!torch || c->given[LVN_FLAG_export_format])
        LVN_TRY(lvn_model_variant(model, c->flag[LVN_FLAG_export_format].t, form));
    if (!torch) return LVN_OK;
    while (*m && (!(*m)->checkpoint || lvn_model_form(*m) != lvn_model_form(model))) m++;
    LVN_CHECK(*m, UNSUPPORTED, "'%s': no program keeps a %s in a .pt file; give a directory", c->operand[1],
              model->name);
    LVN_CHECK(!c->given[LVN_FLAG_export_format] || *form == *m, ARG,
              "'%s': .pt files are checkpoints of %s; leave out --format, or give a directory", c->operand[1],
              (*m)->program);
    *form = *m;
    return LVN_OK;
}

static enum lvn_status export_model(struct lvn_cli *c, struct lvn_pretrained *p, struct lvn_network **n)
{
    const struct lvn_model *form;
    struct lvn_network_options options = {.real = LVN_F32, .threads = 1};
    char count[LVN_NUMBER_TEXT];
    LVN_TRY(refuse_file(c->operand[1], p->config.model));
    LVN_TRY(find_form(c, p->config.model, &form));
    LVN_TRY(resize(c, p));
    LVN_TRY(lvn_network_new(n, &p->config, &options));
    LVN_TRY(write_model(c, p, *n, form));
    int64_t total = lvn_params_total((*n)->params);
    lvn_cli_print(c, "%s: %s parameters as %s\n", c->operand[1], lvn_count_text(total, count),
                  form == lvn_model_form(form) ? c->flag[LVN_FLAG_export_format].t : form->name);
    lvn_cli_add(c, "path", json_string(c->operand[1]));
    lvn_cli_add(c, "parameters", json_integer(total));
    return LVN_OK;
}

enum lvn_status lvn_command_export(struct lvn_cli *c)
{
    struct lvn_pretrained p;
    struct lvn_network *n = NULL;
    LVN_TRY(lvn_pretrained_open(&p, c->operand[0], "best"));
    enum lvn_status status = export_model(c, &p, &n);
    lvn_network_free(n);
    lvn_pretrained_close(&p);
    return status;
}
