/* snapshot.c - see snapshot.h. */
#include "train/snapshot.h"

#include "base/files.h"
#include "data/codec.h"
#include "engine/optimizer_shards.h"
#include "engine/parameters.h"
#include "formats/json.h"
#include "model_io/carried_files.h"
#include "model_io/model_files.h"
#include "model_io/pretrained.h"
#include "model_io/shared_files.h"
#include "models/lora.h"
#include "settings/settings.h"
#include "train/due.h"
#include "train/snapshot_files.h"
#include "train/snapshot_weights.h"

/* --- saving --- */

static enum lvn_status state_text(const struct lvn_snapshot *s, struct lvn_text *out)
{
    char data[24];
    snprintf(data, sizeof data, "%016" PRIx64, s->data);
    long begun = lvn_json_begin();
    json_t *state =
        json_pack("{s:I, s:o, s:o, s:o, s:s, s:I, s:I, s:I}", "step", (json_int_t)s->step, "val_loss",
                  lvn_json_number(s->val_loss), "best_val_loss", lvn_json_number(s->best_val_loss), "start_val_loss",
                  lvn_json_number(s->start_val_loss), "data", data, "micro_batch", (json_int_t)s->micro_batch,
                  "min_micro_batches", (json_int_t)s->min_micro_batches, "ranks", (json_int_t)s->ranks);
    json_error_t error;
    json_t *callbacks = NULL;
    enum lvn_status status = LVN_OK;
    if (*s->callbacks) status = lvn_json_load(s->callbacks, (int64_t)strlen(s->callbacks), 0, &callbacks, &error);
    if (callbacks) json_object_set_new(state, "callbacks", callbacks);
    if (state && s->due & LVN_DUE_VALIDATION) json_object_set_new(state, "owes_validation", json_true());
    if (state && s->due & LVN_DUE_EPOCH_END) json_object_set_new(state, "owes_epoch_end", json_true());
    if (state && *s->device) json_object_set_new(state, "device", json_string(s->device));
    if (state && s->choices && *s->choices) json_object_set_new(state, "algorithms", json_string(s->choices));
    if (state && *s->skipped)
        json_object_set_new(state, "skipped_shards", lvn_json_text(s->skipped, LVN_SNAPSHOT_SKIPPED - 8));
    if (state && s->unlabeled) json_object_set_new(state, "unlabeled_steps", json_integer((json_int_t)s->unlabeled));
    if (state && s->scaling.scale > 0)
        json_object_set_new(state, "loss_scale",
                            json_pack("{s:f, s:I, s:I}", "scale", s->scaling.scale, "good_steps",
                                      (json_int_t)s->scaling.finite_steps, "skipped_steps",
                                      (json_int_t)s->scaling.skipped));
    if (status == LVN_OK && *s->callbacks && !callbacks)
        status = lvn_fail(LVN_INTERNAL, "the state of the callbacks is no JSON: %s", error.text);
    if (status == LVN_OK) lvn_json_add(out, begun, state, 2);
    json_decref(state);
    LVN_TRY_WHILE(status, "writing the state of the run");
    LVN_TRY_WHILE(lvn_text_status(out), "writing the state of the run");
    return LVN_OK;
}

static enum lvn_status add_state(struct lvn_snapshot_files *files, const struct lvn_snapshot *s,
                                 const struct levin_settings *settings, const struct lvn_codec *codec,
                                 const struct lvn_carried_files *carried)
{
    LVN_LOCAL_TEXT(state);
    enum lvn_status status = state_text(s, &state);
    if (status == LVN_OK) lvn_snapshot_files_add_text(files, "state/state.json", state.p, state.n);
    LVN_TRY(status);
    char *yaml = lvn_settings_yaml(settings);
    if (!yaml) LVN_FAIL(MEMORY, "not enough memory for the settings");
    lvn_snapshot_files_add_text(files, "state/settings.yaml", yaml, (int64_t)strlen(yaml));
    free(yaml);
    const struct lvn_tokenizer *t = codec->tokenizer;
    for (int i = 0; t && i < t->n_files; i++)
        lvn_snapshot_files_add_text(files, t->file[i].name, t->file[i].text, t->file[i].bytes);
    for (int i = 0; i < carried->n; i++)
        if (!lvn_carried_is_written(codec, &carried->file[i]))
            lvn_snapshot_files_add_text(files, carried->file[i].name, carried->file[i].text, carried->file[i].bytes);
    if (codec->vocabulary) {
        char *json = NULL;
        LVN_TRY(lvn_vocab_to_json(codec->vocabulary, &json));
        lvn_snapshot_files_add_text(files, "state/vocabulary.json", json, (int64_t)strlen(json));
        free(json);
        LVN_TRY(lvn_vocab_to_tokenizer(codec->vocabulary, &json));
        lvn_snapshot_files_add_text(files, "tokenizer.json", json, (int64_t)strlen(json));
        lvn_snapshot_files_add_text(files, "tokenizer_config.json", lvn_vocab_tokenizer_config,
                                    (int64_t)strlen(lvn_vocab_tokenizer_config));
        free(json);
    }
    return LVN_OK;
}

/* --- the whole sequence --- */

static enum lvn_status add_all(struct lvn_snapshot_files *files, struct lvn_model_files *f,
                               const struct lvn_snapshot_target *to, const struct lvn_snapshot *s,
                               struct lvn_optimizer_shards *m)
{
    struct lvn_safetensors_source optimizer;
    LVN_TRY(lvn_snapshot_add_weights(files, f, to, m->model_state));
    LVN_TRY(lvn_optimizer_shards_source(m, files->arena, &optimizer));
    LVN_TRY(lvn_snapshot_files_add_tensors(files, "state/optimizer.safetensors", &optimizer));
    lvn_snapshot_files_add_text(files, "config.json", f->config.p, f->config.n);
    return files->writer ? add_state(files, s, to->settings, to->codec, to->carried) : LVN_OK;
}

struct lvn_snapshot_writing {
    const struct lvn_snapshot_target *to;
    double val_loss;
    struct lvn_checkpoint_score score;
    struct lvn_arena arena;
    struct lvn_snapshot_files files;
    struct lvn_model_files model;
    struct lvn_optimizer_shards moments;
};

static void release(struct lvn_snapshot_writing *writing)
{
    lvn_optimizer_shards_release(&writing->moments);
    lvn_model_files_release(&writing->model);
    lvn_arena_release(&writing->arena);
    free(writing);
}

enum lvn_status lvn_snapshot_begin(struct lvn_snapshot_writing **out, const struct lvn_snapshot_target *to,
                                   const struct lvn_snapshot *s, const struct lvn_model_state *n,
                                   struct lvn_ranks *ranks)
{
    struct lvn_snapshot_writing *writing = lvn_calloc(1, sizeof *writing);
    enum lvn_status status = writing ? LVN_OK : LVN_MEMORY;
    *out = NULL;
    if (lvn_parameters_any_sharded(n)) status = lvn_ranks_agree(ranks, status);
    if (status != LVN_OK) {
        free(writing);
        return status;
    }
    *writing = (struct lvn_snapshot_writing){.to = to, .val_loss = s->val_loss, .score = s->score};
    lvn_arena_init(&writing->arena);
    lvn_optimizer_shards_init(&writing->moments, n, ranks);
    status = lvn_snapshot_files_begin(&writing->files, &writing->arena, to->dir, s->step, n, ranks);
    if (status != LVN_OK) {
        release(writing);
        return status;
    }
    if (lvn_snapshot_files_mine(&writing->files))
        status = add_all(&writing->files, &writing->model, to, s, &writing->moments);
    status = lvn_snapshot_files_prepare(&writing->files, status);
    if (status == LVN_OK)
        *out = writing;
    else
        lvn_snapshot_cancel(writing);
    return status;
}

bool lvn_snapshot_is_async(const struct lvn_snapshot_writing *writing)
{
    return writing->files.async;
}

void lvn_snapshot_write(struct lvn_snapshot_writing *writing)
{
    lvn_snapshot_files_write(&writing->files);
    if (writing->to->all_read) writing->to->all_read(writing->to->context);
    lvn_snapshot_files_sync(&writing->files);
}

enum lvn_status lvn_snapshot_end(struct lvn_snapshot_writing *writing)
{
    const enum lvn_status status = lvn_snapshot_files_end(&writing->files, writing->val_loss, &writing->score);
    release(writing);
    return status;
}

void lvn_snapshot_cancel(struct lvn_snapshot_writing *writing)
{
    if (!writing) return;
    lvn_snapshot_files_cancel(&writing->files);
    release(writing);
}

enum lvn_status lvn_snapshot_save(const struct lvn_snapshot_target *to, const struct lvn_snapshot *s,
                                  const struct lvn_model_state *n, struct lvn_ranks *ranks)
{
    struct lvn_snapshot_writing *writing;
    LVN_TRY(lvn_snapshot_begin(&writing, to, s, n, ranks));
    lvn_snapshot_write(writing);
    return lvn_snapshot_end(writing);
}

/* --- loading --- */

static enum lvn_status load_callbacks(const char *path, const json_t *state, struct lvn_snapshot *s)
{
    const json_t *callbacks = json_object_get(state, "callbacks");
    LVN_LOCAL_TEXT(t);
    if (!callbacks) return LVN_OK;
    lvn_json_add(&t, lvn_json_begin(), callbacks, 0);
    enum lvn_status status = lvn_text_status(&t);
    if (status == LVN_OK && t.n >= LVN_SNAPSHOT_CALLBACKS)
        status = lvn_fail(LVN_FORMAT, "'%s': the callbacks have %lld bytes of state, at most %d are allowed", path,
                          (long long)t.n, LVN_SNAPSHOT_CALLBACKS - 1);
    if (status == LVN_OK) memcpy(s->callbacks, t.p, (size_t)t.n + 1);
    return status;
}

static enum lvn_status load_scaling(const char *path, const json_t *state, struct lvn_scaling *s)
{
    const json_t *source = json_object_get(state, "loss_scale");
    int64_t good = 0, skipped = 0;
    if (!source) return LVN_OK;
    LVN_TRY(lvn_json_real(path, source, "scale", true, &s->scale));
    LVN_TRY(lvn_json_int(path, source, "good_steps", true, 0, LVN_SCALING_EVERY, &good));
    LVN_TRY(lvn_json_int(path, source, "skipped_steps", true, 0, INT64_MAX, &skipped));
    LVN_CHECK(s->scale > 0 && isfinite(s->scale), FORMAT, "'%s': the loss scale is %g; it must be finite and above 0",
              path, s->scale);
    s->finite_steps = (double)good;
    s->skipped = (double)skipped;
    return LVN_OK;
}

static enum lvn_status load_state(const char *path, struct lvn_snapshot *s)
{
    json_t *state;
    const char *data = "0", *skipped = "", *device = "";
    bool validation = false, epoch_end = false;
    LVN_TRY(lvn_json_read(path, &state));
    *s = (struct lvn_snapshot){.val_loss = NAN, .score.value = NAN, .best_val_loss = NAN, .start_val_loss = NAN};
    enum lvn_status status = lvn_json_int(path, state, "step", true, 0, INT64_MAX, &s->step);
    if (status == LVN_OK) status = lvn_json_real(path, state, "val_loss", false, &s->val_loss);
    if (status == LVN_OK) status = lvn_json_bool(path, state, "owes_validation", false, &validation);
    if (status == LVN_OK) status = lvn_json_bool(path, state, "owes_epoch_end", false, &epoch_end);
    if (status == LVN_OK) status = lvn_json_real(path, state, "best_val_loss", false, &s->best_val_loss);
    if (status == LVN_OK) status = lvn_json_real(path, state, "start_val_loss", false, &s->start_val_loss);
    if (status == LVN_OK) status = lvn_json_string(path, state, "data", true, &data);
    if (status == LVN_OK) status = lvn_json_int(path, state, "micro_batch", true, 1, INT64_MAX, &s->micro_batch);
    if (status == LVN_OK) status = lvn_json_int(path, state, "ranks", false, 1, INT64_MAX, &s->ranks);
    if (status == LVN_OK) status = lvn_json_int(path, state, "unlabeled_steps", false, 0, s->step, &s->unlabeled);
    if (status == LVN_OK)
        status = lvn_json_int(path, state, "min_micro_batches", true, 1, INT64_MAX, &s->min_micro_batches);
    if (status == LVN_OK) status = lvn_json_string(path, state, "device", false, &device);
    if (status == LVN_OK) status = lvn_copy_bytes(s->device, sizeof s->device, "'device'", device, strlen(device));
    if (status == LVN_OK) status = lvn_json_string(path, state, "skipped_shards", false, &skipped);
    if (status == LVN_OK)
        status = lvn_copy_bytes(s->skipped, sizeof s->skipped, "'skipped_shards'", skipped, strlen(skipped));
    if (status == LVN_OK) status = load_scaling(path, state, &s->scaling);
    if (status == LVN_OK) status = load_callbacks(path, state, s);
    s->due = (validation ? LVN_DUE_VALIDATION : 0) | (epoch_end ? LVN_DUE_EPOCH_END : 0);
    s->data = strtoull(data, NULL, 16);
    json_decref(state);
    return status;
}

static enum lvn_status load(struct lvn_arena *a, const char *dir, struct lvn_model_state *n,
                            const struct lvn_snapshot_source *source, struct lvn_ranks *ranks)
{
    struct lvn_optimizer_shards m;
    const char *shared = NULL; /* the path on all ranks, if each can read its shards */
    if (lvn_parameters_any_sharded(n) && n->ranks)
        LVN_TRY(lvn_ranks_share_files(ranks, a, ranks->rank ? NULL : dir, &shared));
    if (shared) dir = shared;
    const char *optimizer = lvn_path_join(a, dir, "state/optimizer.safetensors");
    enum lvn_status status = optimizer ? LVN_OK : LVN_MEMORY;
    const bool by_shard = shared && lvn_parameters_sharded(n, LVN_PARAMETER_VALUES) && !n->config.lora.rank;
    if (by_shard && status == LVN_OK) status = lvn_snapshot_load_shards(dir, n);
    lvn_parameters_begin_collecting(n);
    if (!ranks->rank && status == LVN_OK) status = lvn_snapshot_load_weights(a, dir, n, source, by_shard);
    enum lvn_status ended = lvn_parameters_end_collecting(n);
    LVN_TRY(lvn_ranks_agree(ranks, status == LVN_OK ? ended : status));
    LVN_TRY(lvn_parameters_broadcast(n, ranks));
    lvn_optimizer_shards_init(&m, n, ranks);
    return lvn_optimizer_shards_load(&m, optimizer, shared != NULL);
}

enum lvn_status lvn_snapshot_read(const struct lvn_checkpoint *c, struct lvn_snapshot *s)
{
    LVN_LOCAL_ARENA(a);
    const char *state = lvn_path_join(&a, c->path, "state/state.json");
    if (!state) return LVN_MEMORY;
    LVN_TRY(load_state(state, s));
    /* A validation ran after the state was saved: a store has its loss, but not the state of callbacks after it. So the
     * resumed run repeats it. */
    if (isnan(s->val_loss) && !isnan(c->val_loss)) s->due |= LVN_DUE_VALIDATION;
    s->val_loss = c->val_loss;
    return LVN_OK;
}

enum lvn_status lvn_snapshot_read_choices(const struct lvn_checkpoint *c, struct lvn_text *out)
{
    LVN_LOCAL_ARENA(a);
    json_t *state;
    const char *path = lvn_path_join(&a, c->path, "state/state.json"), *choices = "";
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_json_read(path, &state));
    enum lvn_status status = lvn_json_string(path, state, "algorithms", false, &choices);
    if (status == LVN_OK) lvn_text_add(out, choices);
    json_decref(state);
    LVN_TRY(status);
    return lvn_text_status(out);
}

enum lvn_status lvn_snapshot_load(const struct lvn_checkpoint *c, struct lvn_model_state *n,
                                  const struct lvn_snapshot_source *source, struct lvn_ranks *ranks)
{
    LVN_LOCAL_ARENA(a);
    const char *path = c->path ? c->path : "the checkpoint of rank 0";
    enum lvn_status status = load(&a, path, n, source, ranks);
    return status == LVN_OK ? LVN_OK : lvn_while_at(status, "continuing from '%s'", path);
}

static enum lvn_status compare_value(const char *key, const char *then, const char *now, const char *path)
{
    LVN_CHECK(strcmp(then, now) == 0, ARG,
              "%s is %s here but was %s in the run that '%s' continues, which would change the model, its "
              "optimizer or the order of the data; set it back, or start a new run",
              key, *now ? now : "\"\"", *then ? then : "\"\"", path);
    return LVN_OK;
}

static enum lvn_status compare_option(const struct levin_settings *then, const struct levin_settings *now,
                                      const struct lvn_option *o, const char *path)
{
    char was[LVN_VALUE_TEXT], is[LVN_VALUE_TEXT];
    return compare_value(o->key, lvn_settings_value(then, o->id, was), lvn_settings_value(now, o->id, is), path);
}

static enum lvn_status compare(const struct levin_settings *then, const struct levin_settings *now,
                               const struct lvn_model *m, const char *path)
{
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (o->fixed) LVN_TRY(compare_option(then, now, o, path));
    }
    /* Targets from lora.init may name the same layers differently; loading compares the layers. */
    if (!now->values.lora.rank || now->origin[LVN_OPT_lora_targets].source == LVN_SOURCE_DERIVED) return LVN_OK;
    return compare_value(lvn_option_by_id(LVN_OPT_lora_targets)->key, lvn_lora_targets(m, then->values.lora.targets),
                         lvn_lora_targets(m, now->values.lora.targets), path);
}

enum lvn_status lvn_snapshot_check(const struct lvn_checkpoint *c, const struct levin_settings *now,
                                   const struct lvn_model *m)
{
    LVN_LOCAL_ARENA(a);
    struct levin_settings then;
    struct lvn_snapshot at;
    LVN_TRY(lvn_snapshot_read(c, &at));
    const char *path = lvn_path_join(&a, c->path, "state/settings.yaml");
    enum lvn_status status = path ? lvn_settings_of_run(&then, path, at.ranks) : LVN_MEMORY;
    if (status == LVN_OK) {
        status = compare(&then, now, m, c->path);
        lvn_settings_release(&then);
    }
    return status;
}
