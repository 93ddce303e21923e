/* model_arg.c - see model_arg.h. */
#include "cli/model_arg.h"
#include "cli/cli_ranks.h"

#include <jansson.h>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/args.h"
#include "formats/json.h"
#include "model_io/model_find.h"
#include "options/device_list.h"
#include "tokenizers/tokenizer.h"

/* Is the file one JSON object with a part of a recipe? */
static bool is_json_recipe(const char *path)
{
    enum { MAX_BYTES = 1 << 20 };
    char *text;
    int64_t n;
    json_error_t error;
    json_t *root = NULL;
    if (!lvn_ends_with(path, ".json") || !lvn_path_is_file(path)) return false;
    enum lvn_status status = lvn_file_read(path, MAX_BYTES, &text, &n);
    if (status == LVN_OK) {
        status = lvn_json_load(text, n, 0, &root, &error);
        free(text);
    }
    if (status != LVN_OK) lvn_error_clear();
    bool recipe = json_is_object(json_object_get(root, "model")) || json_is_object(json_object_get(root, "data")) ||
                  json_is_object(json_object_get(root, "trainer"));
    json_decref(root);
    return recipe;
}

bool lvn_cli_is_recipe(const char *path)
{
    return lvn_ends_with(path, ".yaml") || lvn_ends_with(path, ".yml") || is_json_recipe(path);
}

/* Log how many byte values the tokenizer has no token for: encoding drops those bytes. */
static void log_holes(const struct lvn_tokenizer *t)
{
    int holes = 0;
    if (!t->missing_bytes || t->unknown >= 0 || t->byte_fallback) return;
    for (int b = 0; b < 256; b++) holes += t->bpe.byte_id[b] < 0;
    lvn_log(LVN_LOG_INFO, "the tokenizer '%s' has no token for %d of the 256 bytes: a text loses those", t->path,
            holes);
}

enum lvn_status lvn_cli_tokenizer(struct lvn_cli *c, const char *name, struct lvn_tokenizer **t)
{
    const char *path;
    LVN_TRY(lvn_tokenizer_find_files(&c->settings.arena, name, &path));
    LVN_TRY(lvn_tokenizer_open(t, path));
    log_holes(*t);
    return LVN_OK;
}

/* Settings of a recipe; its model.init is downloaded if need be, like a MODEL of the command line. */
static enum lvn_status recipe_settings(struct lvn_cli *c, const char *recipe, unsigned parts)
{
    LVN_LOCAL_ARENA(a);
    const char *dir;
    LVN_TRY(lvn_cli_settings(c, recipe, parts));
    LVN_CHECK(*c->settings.values.model.init, ARG,
              "the recipe '%s' does not say which model: give it model.init, or name a run instead", recipe);
    return lvn_model_find_files(&a, c->settings.values.model.init, "best", &dir);
}

/* The strategy of a run or a recipe is that of its training. Where a model is only read, another one may be given: auto
 * divides the parameters over ranks if a rank's memory is too small for all of them. */
static enum lvn_status set_strategy(struct lvn_cli *c)
{
    struct levin_settings *s = &c->settings;
    char word[LVN_VALUE_TEXT];
    if (s->origin[LVN_OPT_trainer_strategy].source <= LVN_SOURCE_RECIPE)
        s->values.trainer.strategy = LVN_TRAINER_STRATEGY_AUTO;
    if (s->origin[LVN_OPT_trainer_fsdp_size].source <= LVN_SOURCE_RECIPE) s->values.trainer.fsdp_size = 0;
    if (s->origin[LVN_OPT_trainer_fsdp_reshard].source <= LVN_SOURCE_RECIPE) s->values.trainer.fsdp_reshard = true;
    LVN_CHECK(s->values.trainer.strategy != LVN_TRAINER_STRATEGY_ZERO1 &&
                  s->values.trainer.strategy != LVN_TRAINER_STRATEGY_ZERO2,
              ARG,
              "trainer.strategy %s shards gradients or the optimizer's state, but `levin %s` only reads a "
              "model: use fsdp, which shards the parameters, ddp, which does not, or auto",
              lvn_settings_value(s, LVN_OPT_trainer_strategy, word), c->command->name);
    lvn_cli_count_ranks(c);
    return lvn_values_check_strategy(&s->values);
}

/* ARG for values of the command line that only training uses. */
static enum lvn_status check_reads(const struct lvn_cli *c, unsigned parts)
{
    const struct levin_settings *s = &c->settings;
    const bool mixed_ok = parts & LVN_USES_TRAINER; /* evaluate and predict; generation computes token by token */
    char word[LVN_VALUE_TEXT];
    struct lvn_identity identity;
    struct lvn_devices devices;
    LVN_CHECK(s->origin[LVN_OPT_trainer_precision].source < LVN_SOURCE_COMMAND ||
                  (s->values.trainer.precision != LVN_TRAINER_PRECISION_16_MIXED &&
                   (mixed_ok || s->values.trainer.precision != LVN_TRAINER_PRECISION_BF16_MIXED)),
              ARG,
              "trainer.precision %s has no effect on this command, which computes in 32-true%s or bf16-true: set one "
              "of these, or leave it out",
              lvn_settings_value(s, LVN_OPT_trainer_precision, word), mixed_ok ? ", bf16-mixed" : "");
    if (s->origin[LVN_OPT_trainer_devices].source < LVN_SOURCE_COMMAND) return LVN_OK;
    LVN_TRY(lvn_devices_read(&devices, &s->values));
    if (!devices.n || devices.listed) return LVN_OK;
    LVN_TRY(lvn_identity_find(&identity));
    LVN_CHECK(identity.local_size < 0 || identity.local_size == devices.n, ARG,
              "trainer.devices is %s, but %d rank%s of this command run%s on this host (%s): start it with `levin "
              "launch -n %lld`, or leave trainer.devices out",
              s->values.trainer.devices, identity.local_size, lvn_plural(identity.local_size),
              identity.local_size == 1 ? "s" : "", identity.title, (long long)devices.n);
    return LVN_OK;
}

static enum lvn_status read_settings(struct lvn_cli *c, const char *model, unsigned parts)
{
    LVN_LOCAL_ARENA(a);
    const char *dir, *recipe = NULL;
    if (lvn_cli_is_recipe(model) && lvn_path_is_file(model)) return recipe_settings(c, model, parts);
    enum lvn_status status = lvn_model_find_files(&a, model, "best", &dir);
    if (status == LVN_OK) {
        recipe = lvn_path_join(&a, dir, "state/settings.yaml");
        if (!recipe) status = LVN_MEMORY;
    }
    if (status == LVN_OK) {
        c->keys[c->n_keys].key = "model.init";
        c->keys[c->n_keys++].value = lvn_arena_strdup(&c->settings.arena, dir);
        status = lvn_cli_settings(c, lvn_path_is_file(recipe) ? recipe : NULL, parts);
        lvn_settings_begun(&c->settings);
    }
    return status;
}

enum lvn_status lvn_cli_model_settings(struct lvn_cli *c, const char *model, unsigned parts)
{
    LVN_TRY(read_settings(c, model, parts));
    LVN_TRY(check_reads(c, parts));
    return set_strategy(c);
}
