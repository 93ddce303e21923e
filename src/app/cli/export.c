/* export.c - levin export MODEL OUT: writes a model directory in another format, a checkpoint as torch.save() writes it
 * (OUT ends in .pt), a file for llama.cpp (.gguf), or adapters alone. Tensors are read, converted and written one at a
 * time. */
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cluster/identity/identity.h"
#include "data/codec.h"
#include "data/file_type.h"
#include "engine/model_state.h"
#include "formats/json.h"
#include "model_io/carried_files.h"
#include "model_io/gguf_model.h"
#include "model_io/model_config.h"
#include "model_io/model_files.h"
#include "model_io/model_find.h"
#include "model_io/model_setup.h"
#include "model_io/pretrained.h"
#include "models/keys.h"
#include "models/model_folder.h"
#include "stores/upload_staging.h"

/* Write the files of the model's folder that levin does not read. */
static enum lvn_status write_carried(struct lvn_arena *a, const struct lvn_pretrained *p, bool with_base,
                                     const struct lvn_codec *codec, const char *out)
{
    struct lvn_carried_files carried;
    LVN_TRY(lvn_carried_files_read(&carried, p, with_base));
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < carried.n && status == LVN_OK; i++) {
        const struct lvn_carried_file *f = &carried.file[i];
        if (lvn_carried_is_written(codec, f)) continue;
        const char *path = lvn_path_join(a, out, f->name), *dir = path ? lvn_path_dir(a, path) : NULL;
        status = dir ? lvn_dir_make(dir) : LVN_MEMORY;
        if (status == LVN_OK) status = lvn_target_write(path, f->text, f->bytes);
    }
    lvn_carried_files_release(&carried);
    return status;
}

/* Write the model's tokenizer or vocabulary, and the files that are only copied. */
static enum lvn_status write_codec(struct lvn_arena *a, const struct lvn_pretrained *p, bool with_base, const char *out)
{
    struct lvn_codec codec;
    char *json = NULL;
    LVN_TRY(lvn_codec_load(&codec, p->dir));
    lvn_tokenizer_warn(codec.tokenizer_error);
    enum lvn_status status = codec.tokenizer ? lvn_tokenizer_save(codec.tokenizer, out) : LVN_OK;
    if (status == LVN_OK) status = write_carried(a, p, with_base, &codec, out);
    if (codec.vocabulary && status == LVN_OK) {
        const char *state = lvn_path_join(a, out, "state"), *path = lvn_path_join(a, out, "state/vocabulary.json");
        const char *tokenizer = lvn_path_join(a, out, "tokenizer.json");
        const char *config = lvn_path_join(a, out, "tokenizer_config.json");
        status = state && path && tokenizer && config ? lvn_dir_make(state) : LVN_MEMORY;
        if (status == LVN_OK) status = lvn_vocab_to_json(codec.vocabulary, &json);
        if (status == LVN_OK) status = lvn_target_write(path, json, (int64_t)strlen(json));
        free(json);
        json = NULL;
        if (status == LVN_OK) status = lvn_vocab_to_tokenizer(codec.vocabulary, &json);
        if (status == LVN_OK) status = lvn_target_write(tokenizer, json, (int64_t)strlen(json));
        if (status == LVN_OK)
            status = lvn_target_write(config, lvn_vocab_tokenizer_config, (int64_t)strlen(lvn_vocab_tokenizer_config));
        free(json);
    }
    lvn_codec_release(&codec);
    return status;
}

static enum lvn_status write_files(struct lvn_arena *a, struct lvn_model_files *f, const char *out)
{
    const char *weights = lvn_path_join(a, out, "model.safetensors"), *config = lvn_path_join(a, out, "config.json");
    const char *run = lvn_path_join(a, out, "checkpoints");
    if (!weights || !config || !run) return LVN_MEMORY;
    LVN_CHECK(!lvn_path_exists(run), ARG,
              "'%s' is a run's folder; a model there would be mistaken for the run's last checkpoint: choose another "
              "folder",
              out);
    LVN_CHECK(!lvn_path_exists(weights) && !lvn_path_exists(config), ARG,
              "'%s' already contains a model; choose another folder or remove it", out);
    LVN_TRY_WHILE(lvn_dir_make(out), "making the folder for the model");
    LVN_TRY(lvn_target_file(a, weights, &weights));
    const char *part = lvn_arena_printf(a, "%s.part", weights);
    if (!part) return LVN_MEMORY;
    const enum lvn_status status = lvn_safetensors_write(part, &f->source, a, NULL);
    if (status != LVN_OK) (void)rmdir(out); /* fails if it has other files */
    LVN_TRY(status);
    LVN_TRY(lvn_file_rename(part, weights));
    return lvn_target_write(config, f->config.p, f->config.n);
}

/* --block-size and --vocab-size: another number of positions and tokens than the model has. */
static enum lvn_status resize(const struct lvn_cli *c, struct lvn_pretrained *p)
{
    int64_t block = c->flag[LVN_FLAG_export_block_size].i, vocab = c->flag[LVN_FLAG_export_vocab_size].i;
    int64_t positions = lvn_model_value(&p->config, LVN_ROLE_POSITIONS);
    LVN_CHECK(block <= positions, ARG,
              "--block-size is %lld, but the model in '%s' has %lld positions; choose at most that many",
              (long long)block, p->path, (long long)positions);
    if (block) LVN_TRY_WHILE(lvn_model_shorten(&p->config, block), "exporting '%s' with --block-size", p->path);
    if (!vocab) return LVN_OK;
    struct lvn_codec codec;
    LVN_TRY(lvn_codec_load(&codec, p->dir));
    int64_t used = lvn_codec_size(&codec);
    lvn_codec_release(&codec);
    return lvn_pretrained_set_vocab(p, vocab, used);
}

static enum lvn_status set_padding(struct lvn_pretrained *p)
{
    struct lvn_codec codec;
    LVN_TRY(lvn_codec_load(&codec, p->dir));
    const enum lvn_status status = lvn_model_padding(&p->config, &codec);
    lvn_codec_release(&codec);
    return status;
}

/* The folder on this machine of a run in a store may have checkpoints that could not be sent yet. */
static enum lvn_status refuse_run(struct lvn_arena *a, const char *out, const char *folder)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    const char *settings = lvn_store_join(a, out, "settings.yaml"),
               *checkpoints = lvn_path_join(a, folder, "checkpoints");
    if (!settings || !checkpoints) return LVN_MEMORY;
    LVN_TRY(lvn_store_stat(settings, &kind, &bytes));
    LVN_CHECK(kind == LVN_STORE_NOTHING && !lvn_path_exists(checkpoints), ARG,
              "'%s' is the folder of a run, into which levin does not export; choose another folder", out);
    return LVN_OK;
}

/* The folder to write into; if OUT is in a store, an empty folder on this machine. */
static enum lvn_status open_out(struct lvn_arena *a, const char *out, const char **folder)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    LVN_TRY(lvn_upload_staging_open(a, out, folder));
    if (*folder == out) return LVN_OK;
    const char *config = lvn_store_join(a, out, "config.json");
    if (!config) return LVN_MEMORY;
    LVN_TRY(lvn_store_stat(config, &kind, &bytes));
    LVN_CHECK(kind == LVN_STORE_NOTHING, ARG, "'%s' already contains a model; choose another folder or remove it", out);
    if (!lvn_store_is_remote(out)) return LVN_OK;
    LVN_TRY(refuse_run(a, out, *folder));
    return lvn_tree_remove(*folder);
}

/* --- a checkpoint of torch.save() --- */

static const struct lvn_model_state_options in_fp32 = {.real = LVN_F32, .threads = 1};

/* Refuse an `out` that exists; *part is OUT.part, which is renamed to it when it is complete. */
static enum lvn_status begin_file(struct lvn_arena *a, const char **out, const char **part)
{
    LVN_CHECK(!lvn_store_is_url(*out), ARG,
              "'%s': a %s file can only be written locally; write it here and upload it with `levin cp`", *out,
              strrchr(*out, '.'));
    LVN_CHECK(!lvn_path_exists(*out), ARG, "'%s' exists already; choose another name or remove it", *out);
    LVN_TRY(lvn_target_file(a, *out, out));
    *part = lvn_arena_printf(a, "%s.part", *out);
    return *part ? LVN_OK : LVN_MEMORY;
}

/* A .pt file of tensors, and the JSON file that describes it. */
static enum lvn_status write_tensors(struct lvn_arena *a, const struct lvn_model_files *f,
                                     const struct lvn_model *variant, const struct lvn_model_config *c, const char *out)
{
    const char *part, *metadata = lvn_model_metadata_file(a, variant, out);
    const int64_t rows = lvn_model_value(c, LVN_ROLE_VOCABULARY);
    LVN_CHECK(metadata, ARG, "'%s': checkpoints of %s must be named %s (* is the step number)", out, variant->program,
              variant->checkpoint);
    LVN_CHECK(rows % 64 == 0, ARG,
              "'%s': %s needs a vocabulary size that is a multiple of 64, and this one is %lld; add --vocab-size=%lld",
              out, variant->program, (long long)rows, (long long)((rows + 63) / 64 * 64));
    LVN_CHECK(!lvn_path_exists(metadata), ARG, "'%s' exists already; choose another name or remove it", metadata);
    LVN_TRY(begin_file(a, &out, &part));
    LVN_TRY(lvn_torch_write(part, &f->source, NULL, 0)); /* first: a full disk leaves no metadata */
    const long begun = lvn_json_begin();
    json_t *root = json_object();
    json_object_set_new(root, "step", json_integer(strtoll(strrchr(lvn_path_name(out), '_') + 1, NULL, 10)));
    json_object_set_new(root, "model_config", lvn_config_sizes(variant, c));
    enum lvn_status status = lvn_json_write(metadata, begun, root);
    json_decref(root);
    if (status == LVN_OK) return lvn_file_rename(part, out);
    unlink(part);
    return status;
}

/* A .pt file in the format of another program, which can sample from it. */
static enum lvn_status write_torch(struct lvn_arena *a, const struct lvn_model_files *f,
                                   const struct lvn_model *variant, const struct lvn_model_config *c, const char *out)
{
    struct lvn_torch_arg args[LVN_CONFIG_ARGS];
    int n_args = lvn_config_args(variant, c, args);
    const char *part;
    if (variant->metadata) return write_tensors(a, f, variant, c, out);
    LVN_TRY(begin_file(a, &out, &part));
    LVN_TRY(lvn_torch_write(part, &f->source, args, n_args));
    return lvn_file_rename(part, out);
}

/* Print what the other program can do with the file. */
static void print_torch(const struct lvn_cli *c, const struct lvn_pretrained *p, const struct lvn_model *variant)
{
    struct lvn_codec codec;
    if (variant->metadata) {
        lvn_cli_print(c, "%s reads it, and the JSON file next to it, from a folder of its base_checkpoints\n",
                      variant->program);
        return;
    }
    lvn_cli_print(c, "%s can sample from it, but not continue training: the file has no optimizer state\n",
                  variant->program);
    if (lvn_codec_load(&codec, p->dir) != LVN_OK) lvn_error_clear();
    if (codec.vocabulary)
        lvn_cli_print(c, "its characters are read from data/DATASET/meta.pkl, which its prepare.py writes\n");
    lvn_codec_release(&codec);
}

/* The weights of the model that is exported. */
struct weights {
    const struct lvn_pretrained *pretrained;
    float *scratch; /* for the largest parameter */
};

static enum lvn_status read_weights(void *context, const struct lvn_param *p, float *to)
{
    const struct weights *w = context;
    return lvn_pretrained_values(w->pretrained, p, to, w->scratch);
}

static enum lvn_status write_files_of(struct lvn_cli *c, struct lvn_arena *a, const struct lvn_pretrained *p,
                                      const struct lvn_model *variant, struct lvn_model_files *files)
{
    const char *folder, *out = c->operand[1];
    if (lvn_ends_with(out, ".pt")) {
        LVN_TRY(write_torch(a, files, variant, &p->config, out));
        print_torch(c, p, variant);
        return LVN_OK;
    }
    LVN_TRY(open_out(a, out, &folder));
    LVN_TRY(write_files(a, files, folder));
    LVN_TRY(write_codec(a, p, true, folder));
    return lvn_upload_staging_send(folder, out);
}

/* Write one tensor at a time, so the whole model is never in memory. */
static enum lvn_status write_model(struct lvn_cli *c, const struct lvn_pretrained *p, struct lvn_model_state *n,
                                   const struct lvn_model *variant)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_model_files files;
    struct weights weights = {.pretrained = p};
    const struct lvn_model_values values = {read_weights, &weights};
    weights.scratch = lvn_malloc(sizeof *weights.scratch * (size_t)lvn_params_largest(n->params, false));
    if (!weights.scratch) return LVN_MEMORY;
    enum lvn_status status = lvn_model_files_stream(&files, variant, n, &values, false);
    if (status == LVN_OK) {
        status = write_files_of(c, &a, p, variant, &files);
        lvn_model_files_release(&files);
    }
    free(weights.scratch);
    return status;
}

/* Refuse an OUT that names a file of another program's format, which levin does not write. */
static enum lvn_status refuse_file(const char *out, const struct lvn_model *model)
{
    char list[256] = "";
    if (lvn_ends_with(out, ".pt") || lvn_file_type(out, (int64_t)strlen(out)) == LVN_FILE_TYPE_UNKNOWN) return LVN_OK;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++)
        if (lvn_model_file_variant(*m) == lvn_model_file_variant(model) && *m != lvn_model_file_variant(model))
            lvn_print_append(list, sizeof list, ", %s", (*m)->name);
    LVN_FAIL(
        ARG,
        "'%s': levin cannot write %s files; OUT is a folder (--format huggingface%s), a file OUT.gguf for llama.cpp, "
        "or OUT.pt for nanoGPT",
        out, strrchr(out, '.'), list);
}

/* The model variant whose key names and files OUT gets: that of --format, or, for a .pt file, the one that is stored in
 * such files. */
static enum lvn_status find_variant(const struct lvn_cli *c, const struct lvn_model *model,
                                    const struct lvn_model **variant)
{
    const struct lvn_model *const *m = lvn_models();
    bool torch = lvn_ends_with(c->operand[1], ".pt");
    if (!torch || c->given[LVN_FLAG_export_format])
        LVN_TRY(lvn_model_variant(model, c->flag[LVN_FLAG_export_format].t, variant));
    if (!torch) return LVN_OK;
    while (*m && (!(*m)->checkpoint || lvn_model_file_variant(*m) != lvn_model_file_variant(model))) m++;
    LVN_CHECK(*m, UNSUPPORTED, "'%s': there is no .pt format for %s; give a directory", c->operand[1], model->name);
    LVN_CHECK(!c->given[LVN_FLAG_export_format] || *variant == *m, ARG,
              "'%s': .pt files are checkpoints of %s; leave out --format, or give a directory", c->operand[1],
              (*m)->program);
    *variant = *m;
    return LVN_OK;
}

/* --- adapters alone --- */

static const char peft[] = "peft";

static enum lvn_status copy_adapters(struct lvn_arena *a, const struct lvn_pretrained *p, const char *out)
{
    const char *const names[] = {LVN_ADAPTERS_CONFIG, lvn_path_name(p->adapters.path), LVN_ADAPTERS_BASE};
    for (int i = 0; i < 3; i++) {
        const char *from = lvn_path_join(a, p->adapters.dir, names[i]), *to = lvn_path_join(a, out, names[i]);
        if (!from || !to) return LVN_MEMORY;
        LVN_CHECK(!lvn_path_exists(to), ARG, "'%s' already contains adapters; choose another folder or remove it", out);
        if (lvn_path_exists(from)) LVN_TRY(lvn_store_copy(from, to, NULL, NULL));
    }
    return write_codec(a, p, false, out);
}

/* PEFT saves modules whole. It cannot load one that is inside of another, as in a head for masked tokens. */
static enum lvn_status refuse_nested(const struct lvn_cli *c, const struct lvn_weights *w)
{
    for (int i = 0; i < w->n; i++) {
        const char *name = w->tensor[i].name, *end = strrchr(name, '.');
        for (int k = 0; k < w->n && end && !strstr(name, ".lora_"); k++) {
            const char *other = w->tensor[k].name;
            LVN_CHECK(strncmp(other, name, (size_t)(end + 1 - name)) != 0 || !strchr(other + (end + 1 - name), '.'),
                      ARG,
                      "'%s' holds a new head for tokens with '%s' and '%s', which PEFT cannot load together: leave "
                      "--format=%s out for a model that the adapters are merged into",
                      c->operand[0], name, other, peft);
        }
    }
    return LVN_OK;
}

static enum lvn_status export_adapters(struct lvn_cli *c, const struct lvn_pretrained *p)
{
    LVN_LOCAL_ARENA(a);
    const char *folder, *out = c->operand[1];
    int64_t count = 0;
    char text[LVN_NUMBER_TEXT];
    LVN_CHECK(p->base, ARG,
              "'%s' contains no adapters; --format=peft needs a run with lora.rank and without lora.merge_checkpoints, "
              "or a PEFT folder",
              c->operand[0]);
    LVN_CHECK(
        !c->given[LVN_FLAG_export_block_size] && !c->given[LVN_FLAG_export_vocab_size], ARG,
        "--block-size and --vocab-size apply to a whole model, but --format=peft writes adapters: leave them out");
    LVN_CHECK(!lvn_ends_with(out, ".pt"), ARG, "'%s': --format=peft writes a folder; give one", out);
    LVN_TRY(refuse_nested(c, &p->adapters.weights));
    LVN_TRY(refuse_file(out, p->config.model));
    LVN_TRY(open_out(&a, out, &folder));
    LVN_TRY_WHILE(lvn_dir_make(folder), "making the folder for the adapters");
    LVN_TRY(copy_adapters(&a, p, folder));
    LVN_TRY(lvn_upload_staging_send(folder, out));
    for (int i = 0; i < p->adapters.weights.n; i++) count += lvn_desc_count(&p->adapters.weights.tensor[i].desc);
    lvn_cli_print(c, "%s: %s parameters as %s; their base model, '%s', is not part of it\n", out,
                  lvn_count_text(count, text), peft, p->adapters.base ? p->adapters.base : p->base->path);
    lvn_cli_add(c, "path", lvn_json_text(out, INT64_MAX));
    lvn_cli_add(c, "parameters", json_integer(count));
    return LVN_OK;
}

/* --- a file for llama.cpp --- */

/* Is OUT a GGUF file? ARG if options contradict its name. */
static enum lvn_status is_gguf(const struct lvn_cli *c, bool *is, const struct lvn_gguf_type **type)
{
    const char *out = c->operand[1], *format = c->flag[LVN_FLAG_export_format].t,
               *name = c->flag[LVN_FLAG_export_type].t;
    const bool requested = strcmp(format, "gguf") == 0;
    *is = lvn_ends_with(out, ".gguf");
    *type = lvn_gguf_type_find(name);
    LVN_CHECK(*is || !requested, ARG, "'%s': --format=gguf writes a file, OUT.gguf; give such a name", out);
    const bool to_folder = !lvn_ends_with(out, ".pt") && strcmp(format, peft) != 0,
               in_folder = *type && (*type == lvn_gguf_type_find("f32") || *type == lvn_gguf_type_find("bf16"));
    LVN_CHECK(
        *is || !c->given[LVN_FLAG_export_type] || (to_folder && in_folder), ARG,
        "'%s': --type is the data type of a GGUF file, and may be f32 or bf16 for a model in a folder; change OUT or "
        "--type, or leave --type out",
        out);
    LVN_CHECK(!*is || requested || !c->given[LVN_FLAG_export_format], ARG,
              "'%s': a GGUF file has no --format=%.40s; leave it out, or give a folder", out, format);
    LVN_CHECK(*is || !lvn_cli_on(c, LVN_FLAG_export_adapter), ARG,
              "'%s': --adapter writes a GGUF file; give a name that ends in .gguf, or --format=peft for PEFT's files",
              out);
    if (*type && lvn_gguf_type_is_written(*type)) return LVN_OK;
    LVN_LOCAL_TEXT(names);
    lvn_gguf_type_names(&names, true);
    LVN_FAIL(ARG, "--type is '%.40s'; expected one of %s", name, names.p ? names.p : "");
}

static enum lvn_status write_gguf(struct lvn_arena *a, const struct lvn_gguf_model *model, const char *out)
{
    const char *part;
    LVN_TRY(begin_file(a, &out, &part));
    LVN_TRY(lvn_gguf_model_write(part, model));
    return lvn_file_rename(part, out);
}

static enum lvn_status export_gguf(struct lvn_cli *c, struct lvn_pretrained *p, struct lvn_model_state **n,
                                   const struct lvn_gguf_type *type)
{
    LVN_LOCAL_ARENA(a);
    const char *out = c->operand[1], *file = lvn_path_name(out);
    char count[LVN_NUMBER_TEXT];
    struct lvn_codec codec;
    struct weights weights = {.pretrained = p};
    const struct lvn_model_values values = {read_weights, &weights};
    LVN_TRY(resize(c, p));
    LVN_TRY(lvn_gguf_model_check(&p->config));
    LVN_TRY(lvn_model_state_new(n, &p->config, &in_fp32));
    LVN_TRY(lvn_codec_load(&codec, p->dir));
    weights.scratch = lvn_malloc(sizeof *weights.scratch * (size_t)lvn_params_largest((*n)->params, false));
    const struct lvn_gguf_model model = {.model_state = *n,
                                         .values = &values,
                                         .tokenizer = codec.tokenizer,
                                         .type = type,
                                         .name = lvn_arena_printf(&a, "%.*s", (int)lvn_path_stem(file), file)};
    enum lvn_status status = weights.scratch && model.name ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_tokenizer_require(codec.tokenizer_error, "a GGUF file");
    if (status == LVN_OK) status = write_gguf(&a, &model, out);
    const int64_t total = lvn_params_total((*n)->params);
    if (status == LVN_OK)
        lvn_cli_print(c, "%s: %s parameters as gguf, %s\n", out, lvn_count_text(total, count), type->name);
    if (status == LVN_OK && !codec.tokenizer)
        lvn_cli_print(c, "the file has no tokenizer, because %s; llama.cpp accepts only token ids with it\n",
                      codec.vocabulary ? "llama.cpp supports no tokenizer of single characters" : "the model has none");
    lvn_cli_add(c, "path", lvn_json_text(out, INT64_MAX));
    lvn_cli_add(c, "parameters", json_integer(total));
    free(weights.scratch);
    lvn_codec_release(&codec);
    return status;
}

/* Adapters alone. */
static enum lvn_status export_gguf_adapter(struct lvn_cli *c, const struct lvn_pretrained *p,
                                           const struct lvn_gguf_type *type)
{
    LVN_LOCAL_ARENA(a);
    const char *out = c->operand[1], *path = out, *part, *file = lvn_path_name(out);
    char text[LVN_NUMBER_TEXT];
    int64_t count = 0;
    LVN_CHECK(p->base, ARG,
              "'%s' has no adapters to write with --adapter; give a run with lora.rank and without "
              "lora.merge_checkpoints, or a PEFT folder",
              c->operand[0]);
    LVN_CHECK(!c->given[LVN_FLAG_export_block_size] && !c->given[LVN_FLAG_export_vocab_size], ARG,
              "--block-size and --vocab-size apply to a whole model, but --adapter writes adapters: leave them out");
    LVN_TRY(begin_file(&a, &path, &part));
    const char *name = lvn_arena_printf(&a, "%.*s", (int)lvn_path_stem(file), file);
    if (!name) return LVN_MEMORY;
    LVN_TRY(lvn_gguf_adapter_write(part, p, name, type));
    LVN_TRY(lvn_file_rename(part, path));
    for (int i = 0; i < p->adapters.weights.n; i++) count += lvn_desc_count(&p->adapters.weights.tensor[i].desc);
    lvn_cli_print(
        c,
        "%s: adapters of %s parameters as gguf, %s; llama.cpp adds them to their base model, '%s', written as "
        "GGUF (--lora)\n",
        out, lvn_count_text(count, text), type->name, p->adapters.base ? p->adapters.base : p->base->path);
    lvn_cli_add(c, "path", lvn_json_text(out, INT64_MAX));
    lvn_cli_add(c, "parameters", json_integer(count));
    return LVN_OK;
}

static enum lvn_status export_model(struct lvn_cli *c, struct lvn_pretrained *p, struct lvn_model_state **n,
                                    const struct lvn_gguf_type *type)
{
    struct lvn_model_state_options options = in_fp32;
    if (type == lvn_gguf_type_find("bf16")) options.precision = LVN_PRECISION_BF16_TRUE;
    const struct lvn_model *variant;
    char count[LVN_NUMBER_TEXT];
    LVN_TRY(refuse_file(c->operand[1], p->config.model));
    LVN_TRY(find_variant(c, p->config.model, &variant));
    LVN_TRY(resize(c, p));
    LVN_TRY(set_padding(p));
    LVN_TRY(lvn_model_state_new(n, &p->config, &options));
    LVN_TRY(write_model(c, p, *n, variant));
    int64_t total = lvn_params_total((*n)->params);
    lvn_cli_print(c, "%s: %s parameters as %s\n", c->operand[1], lvn_count_text(total, count),
                  variant == lvn_model_file_variant(variant) ? c->flag[LVN_FLAG_export_format].t : variant->name);
    lvn_cli_add(c, "path", lvn_json_text(c->operand[1], INT64_MAX));
    lvn_cli_add(c, "parameters", json_integer(total));
    return LVN_OK;
}

/* Ranks that a launcher started would all write the same files. */
static enum lvn_status refuse_ranks(void)
{
    struct lvn_identity identity;
    const bool known = lvn_identity_find(&identity) == LVN_OK;
    if (!known) lvn_error_clear();
    LVN_CHECK(!known || identity.size == 1, ARG, "`levin export` runs in one process, but %d were started (%s)",
              identity.size, identity.title);
    return LVN_OK;
}

enum lvn_status lvn_command_export(struct lvn_cli *c)
{
    struct lvn_pretrained p;
    struct lvn_model_state *n = NULL;
    const struct lvn_gguf_type *type;
    bool gguf;
    LVN_TRY(refuse_ranks());
    LVN_TRY(is_gguf(c, &gguf, &type));
    LVN_TRY(lvn_pretrained_open_on(&p, c->operand[0], "best", c->flag[LVN_FLAG_export_base].t));
    const bool gguf_adapter = lvn_cli_on(c, LVN_FLAG_export_adapter),
               adapters = gguf_adapter || strcmp(c->flag[LVN_FLAG_export_format].t, peft) == 0;
    const char *why =
        p.base ? "adapters are merged into these values; --base names the 16-bit model to merge into" : "";
    enum lvn_status status = lvn_pretrained_check_head(&p);
    if (status == LVN_OK && !adapters) status = lvn_pretrained_keep_blocks(&p, LVN_F32, why, &p.config);
    if (status == LVN_OK)
        status = gguf_adapter ? export_gguf_adapter(c, &p, type)
                 : adapters   ? export_adapters(c, &p)
                 : gguf       ? export_gguf(c, &p, &n, type)
                              : export_model(c, &p, &n, type);
    lvn_model_state_free(n);
    lvn_pretrained_close(&p);
    return status;
}
