/* config_write.c - the text of the recipe with its comments, of the hosts file, and the command that starts the run.
 * config.c writes the files. */

#include "base/files.h"
#include "base/redact.h"
#include "cli/config/config.h"
#include "cli/humanize.h"
#include "cli/process.h"

enum { WIDTH = 110 };

/* Add a comment in lines of at most WIDTH letters, each after `prefix`. */
static void add_comment(struct lvn_text *t, const char *prefix, const char *text)
{
    while (*text) {
        size_t n = strlen(text), capacity = WIDTH - strlen(prefix);
        if (n > capacity) {
            n = capacity;
            while (n && text[n] != ' ') n--;
            if (!n) n = strcspn(text, " ");
        }
        lvn_text_printf(t, "%s%.*s\n", prefix, (int)n, text);
        text += n + strspn(text + n, " ");
    }
}

/* --- paths, and the command --- */

/* x.yaml -> x.hosts */
static const char *with_extension(struct lvn_config *cf, const char *recipe, const char *extension)
{
    return lvn_arena_printf(&cf->s->arena, "%.*s.%s", (int)lvn_path_stem(recipe), recipe, extension);
}

/* RECIPE as given, or by the run's name, nanoGPT's file, or the kind of recipe. */
static enum lvn_status name_recipe(struct lvn_config *cf, struct lvn_config_paths *p)
{
    struct lvn_arena *a = &cf->s->arena;
    const char *nanogpt = lvn_path_name(cf->c->flag[LVN_FLAG_config_from_nanogpt].t);
    bool named = lvn_settings_given(cf->s, LVN_OPT_name);
    const char *name = named      ? cf->s->values.name
                       : *nanogpt ? lvn_arena_printf(a, "%.*s", (int)lvn_path_stem(nanogpt), nanogpt)
                                  : lvn_recipe_kind_words[cf->kind];
    if (!name) return LVN_MEMORY;
    p->recipe = cf->c->n_operands ? cf->c->operand[0] : lvn_arena_printf(a, "%s.yaml", name);
    if (!p->recipe) return LVN_MEMORY;
    LVN_CHECK(!lvn_path_is_dir(p->recipe), ARG, "'%s' is a folder: give the name of the recipe's file", p->recipe);
    if (named) return LVN_OK;
    const char *file = lvn_path_name(p->recipe);
    cf->s->values.name = lvn_arena_printf(a, "%.*s", (int)lvn_path_stem(file), file);
    return cf->s->values.name ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_config_paths(struct lvn_config *cf, struct lvn_config_paths *p)
{
    struct lvn_arena *a = &cf->s->arena;
    int64_t ranks = cf->machines * cf->per_machine;
    *p = (struct lvn_config_paths){0};
    LVN_TRY(name_recipe(cf, p));
    const char *recipe = lvn_word_quoted(a, p->recipe); /* a shell reads p->launch */
    if (!recipe) return LVN_MEMORY;
    if (cf->location == LVN_CONFIG_HOSTS) {
        const char *hosts = cf->hostfile;
        if (!hosts) hosts = p->hosts = with_extension(cf, p->recipe, "hosts");
        if (hosts) hosts = lvn_word_quoted(a, hosts);
        if (!hosts) return LVN_MEMORY;
        p->launch = lvn_arena_printf(a, "levin launch --hostfile %s -n %" PRId64 " -- train %s", hosts, ranks, recipe);
    } else if (cf->location == LVN_CONFIG_SLURM) {
        const char *script = with_extension(cf, p->recipe, "sbatch");
        if (script) script = lvn_word_quoted(a, script);
        if (!script) return LVN_MEMORY;
        p->launch = lvn_arena_printf(
            a, "levin launch --slurm %s --nodes %" PRId64 " --ntasks-per-node %" PRId64 " --out %s && sbatch %s",
            recipe, cf->machines, cf->per_machine, script, script);
    } else if (ranks > 1) {
        p->launch = lvn_arena_printf(a, "levin launch -n %" PRId64 " -- train %s", ranks, recipe);
    } else {
        p->launch = lvn_arena_printf(a, "levin train %s", recipe);
    }
    return p->launch ? LVN_OK : LVN_MEMORY;
}

void lvn_config_hosts(const struct lvn_config *cf, struct lvn_text *t)
{
    lvn_text_printf(t,
                    "# The machines of %s: a name per line, with its number of ranks. Each must be reached by\n"
                    "# `ssh NAME true` without a password, and have levin under the same path.\n",
                    cf->s->values.name);
    if (!*cf->hosts) lvn_text_add(t, "# Put the names of yours here.\n");
    const char *p = cf->hosts;
    for (int64_t i = 0; i < cf->machines; i++) {
        size_t n = strcspn(p, ",");
        if (*cf->hosts)
            lvn_text_printf(t, "%.*s slots=%" PRId64 "\n", (int)n, p, cf->per_machine);
        else
            lvn_text_printf(t, "node%" PRId64 " slots=%" PRId64 "\n", i + 1, cf->per_machine);
        p += n + (p[n] == ',');
    }
}

/* --- the recipe --- */

static void add_head(const struct lvn_config *cf, const struct lvn_config_paths *p, struct lvn_text *t)
{
    const struct lvn_recipe_template *template = &lvn_recipe_templates[cf->kind];
    char bytes[LVN_NUMBER_TEXT], count[LVN_NUMBER_TEXT];
    char launch[3000], generate[3000], sources[1000]; /* a newline would end the comment */
    lvn_text_printf(t, "# %s%s%s. Written by levin config; change what you like.\n#\n", template->title,
                    *cf->sources ? ", from " : "", lvn_redacted(sources, sizeof sources, cf->sources));
    const char *run =
        *cf->s->values.run_dir ? cf->s->values.run_dir : lvn_arena_printf(&cf->s->arena, "runs/%s", cf->s->values.name);
    if (run) run = lvn_word_quoted(&cf->s->arena, run);
    t->failed |= !run;
    lvn_text_printf(t, "#     %s\n#     levin %s %s%s\n#\n", lvn_redacted(launch, sizeof launch, p->launch),
                    template->use, lvn_redacted(generate, sizeof generate, run ? run : ""), template->use_option);
    lvn_text_add(t,
                 "# `levin help KEY` explains a key, `levin plan` shows memory and arithmetic before anything runs.\n");
    if (cf->planned)
        lvn_text_printf(t,
                        "# %s parameters; each rank runs micro-batches of %" PRId64 " sequences, %" PRId64
                        " per step, and needs %s.\n",
                        lvn_count_text(cf->parameters, count), cf->micro, cf->accumulation,
                        lvn_bytes_text(cf->rank_bytes, bytes));
    if (cf->n_notes)
        lvn_text_printf(t, "#\n# These settings of %s have no equivalent in levin, or a different one:\n", sources);
    for (int i = 0; i < cf->n_notes; i++) {
        char text[700], line[700];
        snprintf(text, sizeof text, "%s: %s", cf->note[i].key, cf->note[i].text);
        add_comment(t, "#   ", lvn_redacted(line, sizeof line, text));
    }
}

/* Add a comment on the value that a user chose or will choose, below the key's help. */
static void add_remark(const struct lvn_config *cf, int id, struct lvn_text *t)
{
    const struct lvn_origin *origin = &cf->s->origin[id];
    char text[300] = "";
    int64_t ranks = cf->machines * cf->per_machine;
    if (id == LVN_OPT_trainer_precision) snprintf(text, sizeof text, "%s", lvn_config_precision_text());
    if (id == LVN_OPT_trainer_batch_size && ranks > 1)
        snprintf(text, sizeof text, "%" PRId64 " ranks: about %" PRId64 " on each", ranks,
                 cf->s->values.trainer.batch_size / ranks);
    if (id == LVN_OPT_optimizer_lr && !origin->line &&
        (cf->kind == LVN_RECIPE_FINETUNE || cf->kind == LVN_RECIPE_CLASSIFY))
        snprintf(text, sizeof text, "rates for training from scratch (6e-4) destroy what the model knows");
    if (id == LVN_OPT_data_path && cf->kind != LVN_RECIPE_CHARS && !lvn_path_exists(cf->s->values.data.path))
        snprintf(text, sizeof text, "%s",
                 lvn_recipe_templates[cf->kind].form ? "does not exist yet"
                                                     : "not there yet: see `levin help prepare`");
    if (*text) add_comment(t, "  # ", text);
    if (origin->source == LVN_SOURCE_RECIPE && origin->line)
        lvn_text_printf(t, "  # from %s:%d\n", lvn_redacted(text, sizeof text, origin->where), origin->line);
    if (origin->source == LVN_SOURCE_RECIPE && !origin->line && *cf->c->flag[LVN_FLAG_config_from_nanogpt].t)
        lvn_text_add(t, "  # nanoGPT's default\n");
}

static void add_key(const struct lvn_config *cf, int id, struct lvn_text *t)
{
    const struct lvn_option *o = lvn_option_by_id((enum lvn_option_id)id);
    char text[LVN_VALUE_TEXT], help[LVN_HELP_TEXT];
    const char *dot = strchr(o->key, '.');
    add_comment(t, *o->part ? "  # " : "# ", lvn_option_help(o, help));
    if (*o->part) add_remark(cf, id, t);
    lvn_text_printf(t, "%s%s: ", *o->part ? "  " : "", dot ? dot + 1 : o->key);
    lvn_option_yaml(t, o, lvn_settings_value(cf->s, (enum lvn_option_id)id, text));
    lvn_text_add(t, "\n");
}

enum lvn_status lvn_config_recipe(const struct lvn_config *cf, const struct lvn_config_paths *p, struct lvn_text *t)
{
    const char *part = "";
    add_head(cf, p, t);
    if (lvn_settings_given(cf->s, LVN_OPT_name) || lvn_settings_given(cf->s, LVN_OPT_run_dir)) lvn_text_add(t, "\n");
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (!lvn_settings_given(cf->s, o->id)) continue;
        if (strcmp(part, o->part) != 0) lvn_text_printf(t, "\n%s: # %s\n", o->part, lvn_part_help(o->part));
        part = o->part;
        add_key(cf, (int)o->id, t);
    }
    return lvn_text_status(t);
}
