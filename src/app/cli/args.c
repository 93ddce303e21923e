/* args.c - parses the command line (operands, flags of the command, keys of recipes), reads the settings of a recipe, a
 * run or data, and joins the other ranks. main.c calls lvn_cli_parse(), commands call the rest.
 *
 * --key=value, --key value, and --flag alone for true; a flag of one letter has one dash, -n 4. A name with a dot,
 * name and run_dir are keys of a recipe; all others are flags of the command. `--` ends them: operands follow, or, for
 * a command that runs others, the command line of the other. */
#include "cli/args.h"

#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/model_arg.h"
#include "data/dataset.h"
#include "data/file_type.h"
#include "engine/devices.h"
#include "formats/json.h"
#include "model_io/model_find.h"
#include "settings/synonyms.h"
#include "stores/store.h"
#include "train/run_dir.h"

const struct lvn_flag lvn_flags[LVN_FLAG_COUNT] = {
#define LVN_FLAG(command_, field, kind_, initial_, low, high, help_)                                                   \
    {.command = #command_,                                                                                             \
     .option = {.key = #field,                                                                                         \
                .part = "",                                                                                            \
                .kind = LVN_KIND_##kind_,                                                                              \
                .default_text = initial_,                                                                              \
                .min = low,                                                                                            \
                .max = (double)(high),                                                                                 \
                .help = help_}},
#include "cli/commands.def"
};

bool lvn_flag_fits(const struct lvn_flag *f, const struct lvn_command *command)
{
    return !strcmp(f->command, "any") || !strcmp(f->command, command->name);
}

static const struct lvn_flag *find_flag(const struct lvn_command *command, const char *word)
{
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        if (lvn_flag_fits(&lvn_flags[i], command) && !strcmp(lvn_flags[i].option.key, word)) return &lvn_flags[i];
    }
    return NULL;
}

/* Replace dashes by underscores, as commands.def names flags: max-new-tokens becomes max_new_tokens. */
static void table_word(const char *arg, size_t n, char *word, size_t capacity)
{
    size_t i = 0;
    for (; i < n && i < capacity - 1; i++) word[i] = arg[i] == '-' ? '_' : arg[i];
    word[i] = '\0';
}

char *lvn_flag_text(const struct lvn_option *o, char text[LVN_FLAG_TEXT])
{
    snprintf(text, LVN_FLAG_TEXT, "%s%s", o->key[1] ? "--" : "-", o->key);
    for (char *p = text; *p; p++) *p = *p == '_' ? '-' : *p;
    return text;
}

static bool has_flag(const void *command, const char *flag)
{
    char word[LVN_FLAG_TEXT];
    flag += strspn(flag, "-");
    table_word(flag, strlen(flag), word, sizeof word);
    return find_flag(command, word) != NULL;
}

/* Is the key (data.path), or its part (data), in the list? NULL: every key is. */
static bool uses_key(const char *list, const char *key)
{
    const size_t whole = strlen(key), part = strcspn(key, ".");
    if (!list) return true;
    for (size_t n; *list; list += n, list += strspn(list, ", ")) {
        n = strcspn(list, ",");
        if ((n == whole || n == part) && !strncmp(list, key, n)) return true;
    }
    return false;
}

enum lvn_status lvn_cli_refuse_keys(const struct lvn_cli *c, const char *list, const char *why)
{
    for (int i = 0; i < c->n_keys; i++) LVN_CHECK(uses_key(list, c->keys[i].key), ARG, "--%s %s", c->keys[i].key, why);
    return LVN_OK;
}

/* ARG for a key that the command does not use. The message names the command's flag of the same name, if it has one. */
static enum lvn_status check_key(const struct lvn_command *k, const char *key)
{
    char text[LVN_FLAG_TEXT];
    const char *field = strrchr(key, '.');
    const struct lvn_flag *f = find_flag(k, field ? field + 1 : key);
    if (uses_key(k->keys, key)) return LVN_OK;
    LVN_CHECK(!f, ARG, "--%s has no effect on `levin %s`: give %s instead", key, k->name,
              lvn_flag_text(&f->option, text));
    LVN_CHECK(*k->keys, ARG, "--%s has no effect on `levin %s`, which uses no keys of recipes: leave it out", key,
              k->name);
    LVN_FAIL(ARG, "--%s has no effect on `levin %s`: leave it out; `levin help %s` lists the keys that it uses", key,
             k->name, k->name);
}

static enum lvn_status unknown_flag(const struct lvn_command *command, const char *arg, const char *word)
{
    const char *words[LVN_FLAG_COUNT];
    char nearest[LVN_FLAG_TEXT], text[LVN_SYNONYM_TEXT];
    int n = 0;
    const struct lvn_synonym *synonym = lvn_synonym_find(word, has_flag, command);
    const bool names_output = synonym && !strcmp(synonym->target, "run_dir"); /* only train writes into run_dir */
    LVN_CHECK(!names_output || !strstr(command->operands, " OUT"), ARG,
              "unknown option '%.60s'; levin %s expects it as an operand: levin %s %s", arg, command->name,
              command->name, command->operands);
    LVN_CHECK(!names_output || !command->collective || !strcmp(command->name, "train"), ARG,
              "unknown option '%.60s'; levin %s prints its results: append `> FILE` to the command to save them", arg,
              command->name);
    if (synonym) LVN_FAIL(ARG, "unknown option '%.60s'; %s", arg, lvn_synonym_text(synonym, true, text));
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        if (lvn_flag_fits(&lvn_flags[i], command)) words[n++] = lvn_flags[i].option.key;
    }
    const char *near = lvn_nearest(word, words, n), *key = near ? NULL : lvn_option_nearest(word);
    if (key && !uses_key(command->keys, key)) key = NULL;
    struct lvn_option o = {.key = near ? near : ""};
    if (near) LVN_FAIL(ARG, "unknown option '%.60s'; did you mean '%s'?", arg, lvn_flag_text(&o, nearest));
    if (key) LVN_FAIL(ARG, "unknown option '%.60s'; did you mean '--%s'?", arg, key);
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        if (strcmp(lvn_flags[i].option.key, word)) continue;
        LVN_FAIL(ARG, "'%.60s' is an option of `levin %s`, not of `levin %s`", arg, lvn_flags[i].command,
                 command->name);
    }
    LVN_FAIL(ARG,
             "unknown option '%.60s'; `levin help %s` lists the options of the command, `levin help options` the "
             "keys of recipes",
             arg, command->name);
}

/* Can `text` be the value of a switch: true, no, 1; of one that also counts (trainer.fast_dev_run=3) any number? */
static bool is_switch_value(const struct lvn_option *o, const char *text)
{
    union lvn_option_value unused;
    bool good = lvn_option_parse(o, text, &unused, NULL) == LVN_OK;
    if (!good) lvn_error_clear();
    return good;
}

/* The value of the option argv[*at]: the text after '=' (inline_value), or else the next argument, past which *at is
 * moved. A switch alone is true. */
static enum lvn_status option_value(const struct lvn_option *o, const char *inline_value, int argc, char **argv,
                                    int *at, const char **value)
{
    const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;
    *value = inline_value;
    if (inline_value) return LVN_OK;
    if (lvn_option_is_switch(o)) {
        *value = "true";
        if (!next || !is_switch_value(o, next)) return LVN_OK;
    }
    LVN_CHECK(next && strncmp(next, "--", 2) != 0, ARG, "%s needs a value, as in %s%sVALUE", argv[*at], argv[*at],
              argv[*at][1] == '-' ? "=" : " ");
    *value = next;
    ++*at;
    return LVN_OK;
}

static enum lvn_status parse_flag(struct lvn_cli *c, const struct lvn_flag *f, const char *value)
{
    int id = (int)(f - lvn_flags);
    struct lvn_option o = f->option;
    char name[LVN_FLAG_TEXT];
    lvn_flag_text(&o, name); /* as messages name it */
    o.key = name;
    LVN_TRY(lvn_option_parse(&o, value, &c->flag[id], &c->settings.arena));
    c->given[id] = true;
    return LVN_OK;
}

static enum lvn_status parse_option(struct lvn_cli *c, int argc, char **argv, int *at)
{
    const char *arg = argv[*at] + (argv[*at][1] == '-' ? 2 : 1), *equals = strchr(arg, '=');
    size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    char word[128], key[128];
    const char *value;
    table_word(arg, n, word, sizeof word);
    snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : sizeof key - 1), arg);
    const struct lvn_option *o = lvn_option_find(key);
    const struct lvn_flag *f = o ? NULL : find_flag(c->command, word);
    if (f) {
        LVN_TRY(option_value(&f->option, equals ? equals + 1 : NULL, argc, argv, at, &value));
        return parse_flag(c, f, value);
    }
    if (!o && !strchr(key, '.') && !lvn_part_help(key)) {
        char given[160];
        snprintf(given, sizeof given, "--%s", key);
        return unknown_flag(c->command, given, word);
    }
    if (!o) /* fails, and names the nearest key */
        return lvn_settings_set(&c->settings, key, equals ? equals + 1 : "", LVN_SOURCE_COMMAND);
    LVN_TRY(option_value(o, equals ? equals + 1 : NULL, argc, argv, at, &value));
    c->keys[c->n_keys].key = o->key;
    c->keys[c->n_keys++].value = value;
    return check_key(c->command, o->key);
}

/* Is it a flag of one letter that this command has, as -n? */
static bool is_letter(const struct lvn_command *command, const char *arg)
{
    char word[2] = {arg[0] == '-' ? arg[1] : '\0', '\0'};
    return word[0] && (!arg[2] || arg[2] == '=') && find_flag(command, word);
}

/* Refuse an operand such as optimizer.lr=1e-3, which is a key without its two dashes. */
static enum lvn_status check_operand(const char *operand)
{
    char key[128];
    const size_t n = strcspn(operand, "=");
    snprintf(key, sizeof key, "%.*s", (int)(n < sizeof key ? n : sizeof key - 1), operand);
    LVN_CHECK(!operand[n] || !strchr(key, '.') || !lvn_option_find(key) || lvn_path_exists(operand), ARG,
              "'%.100s' needs two dashes: --%.100s", operand, operand);
    return LVN_OK;
}

/* Advice after a superfluous operand: the flag with which the command accepts a text or more files; "": none. */
static const char *text_flag(const struct lvn_command *k)
{
    return find_flag(k, "prompt")  ? "; a text is given as --prompt=TEXT"
           : find_flag(k, "text")  ? "; a text is given as --text=TEXT"
           : find_flag(k, "input") ? "; texts are given as --input=FILE_OR_FOLDER"
           : !strcmp(k->name, "train")
               ? "; several files are given as their folder, or with data.mix (`levin help data.mix`)"
               : "";
}

enum lvn_status lvn_cli_refuse(const struct lvn_cli *c, const enum lvn_flag_id *flags, int n, const char *why)
{
    char name[LVN_FLAG_TEXT];
    for (int i = 0; i < n; i++)
        LVN_CHECK(!c->given[flags[i]], ARG, "%s %s", lvn_flag_text(&lvn_flags[flags[i]].option, name), why);
    return LVN_OK;
}

static enum lvn_status count_operands(const struct lvn_cli *c)
{
    const struct lvn_command *k = c->command;
    for (int i = 0; i < c->n_operands && !k->runs_others; i++) {
        LVN_CHECK(*c->operand[i], ARG, "levin %s was given an empty operand; it accepts %s", k->name, k->operands);
        LVN_TRY(check_operand(c->operand[i]));
    }
    LVN_CHECK(!k->runs_others || c->rest || c->n_operands <= k->max, ARG,
              "put -- before the command that levin %s runs: levin %s -- %s%s%s", k->name, k->name, c->operand[0],
              c->n_operands > 1 ? " " : "", c->n_operands > 1 ? c->operand[1] : "");
    char most[16];
    snprintf(most, sizeof most, "%d", k->max);
    LVN_CHECK(c->n_operands <= k->max, ARG, "levin %s accepts %s operand%s, but '%.100s' was also given%s", k->name,
              k->max == 0   ? "no"
              : k->max == 1 ? "one"
              : k->max == 2 ? "two"
                            : most,
              lvn_plural(k->max), c->operand[k->max], text_flag(k));
    LVN_CHECK(c->n_operands >= k->min, ARG, "levin %s needs %s; `levin help %s` explains them", k->name, k->operands,
              k->name);
    return LVN_OK;
}

static enum lvn_status parse_all(struct lvn_cli *c, int argc, char **argv, struct lvn_text *wrong)
{
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        if (!only_operands && !strcmp(argv[i], "--") && c->command->runs_others) {
            c->rest = argv + i + 1;
            c->n_rest = argc - i - 1;
            break;
        } else if (!only_operands && !strcmp(argv[i], "--")) {
            only_operands = true;
        } else if (!only_operands && !strcmp(argv[i], "-h")) {
            c->flag[LVN_FLAG_any_help].b = true;
        } else if (!only_operands && (!strncmp(argv[i], "--", 2) || is_letter(c->command, argv[i]))) {
            LVN_TRY(lvn_collect_error(wrong, parse_option(c, argc, argv, &i)));
        } else {
            const char letter[3] = {argv[i][0], argv[i][0] ? argv[i][1] : '\0', '\0'};
            LVN_CHECK(only_operands || argv[i][0] != '-' || !is_letter(c->command, letter), ARG,
                      "unknown option '%.60s'; did you mean '%s'?", argv[i], letter);
            LVN_CHECK(only_operands || argv[i][0] != '-' || !argv[i][1], ARG,
                      "unknown option '%.60s'; options start with two dashes", argv[i]);
            const char *operand = lvn_path_home(&c->settings.arena, argv[i]);
            if (!operand) return LVN_MEMORY;
            if (c->n_operands < LVN_OPERANDS) c->operand[c->n_operands++] = operand;
        }
    }
    return LVN_OK;
}

enum lvn_status lvn_cli_parse(struct lvn_cli *c, int argc, char **argv)
{
    struct lvn_text wrong = {0};
    LVN_TRY(lvn_settings_init(&c->settings));
    for (int i = 0; i < LVN_FLAG_COUNT; i++) {
        const struct lvn_option *o = &lvn_flags[i].option;
        if (o->kind == LVN_KIND_TEXTS) continue; /* none yet */
        LVN_TRY(lvn_option_parse(o, o->default_text, &c->flag[i], &c->settings.arena));
    }
    c->keys = lvn_arena_alloc(&c->settings.arena, sizeof *c->keys * (size_t)(argc + 2));
    if (!c->keys) return LVN_MEMORY;
    enum lvn_status status = parse_all(c, argc, argv, &wrong);
    LVN_TRY(lvn_collected_errors(&wrong, status));
    LVN_CHECK(!lvn_cli_on(c, LVN_FLAG_any_quiet) || !lvn_cli_on(c, LVN_FLAG_any_verbose), ARG,
              "--quiet prints less and --verbose more: leave one of them out");
    return lvn_cli_on(c, LVN_FLAG_any_help) ? LVN_OK : count_operands(c);
}

/* The path of a recipe. If recipes/NAME is not in the current folder, it may be one of levin's own recipes, which are
 * in ../share/levin relative to the program's folder, or in the checkout whose build folder contains the program. */
static const char *find_recipe(struct lvn_cli *c, const char *path)
{
    static const char *const places[] = {"../share/levin", ".."};
    struct lvn_arena *a = &c->settings.arena;
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || strncmp(path, "recipes/", 8) != 0 || lvn_path_exists(path)) return path;
    self[n] = '\0';
    char *name = strrchr(self, '/');
    if (name) *name = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *found = lvn_arena_printf(a, "%s/%s/%s", self, places[i], path);
        if (found && lvn_path_is_file(found)) return found;
    }
    return path;
}

/* Report a recipe that comes with levin, once for all ranks. */
static void log_recipe(const char *named, const char *found)
{
    struct lvn_identity identity;
    if (lvn_identity_find(&identity) == LVN_OK && identity.rank) return;
    lvn_log(LVN_LOG_INFO, "'%s' is not in the current folder: using the recipe that comes with levin, '%s'", named,
            found);
}

/* True if the name is that of a data file, which need not exist. */
static bool is_data_name(const char *path)
{
    return !lvn_cli_is_recipe(path) && lvn_file_type(path, (int64_t)strlen(path)) != LVN_FILE_TYPE_UNKNOWN;
}

/* Does the recipe exist? If not, ARG with what the user may have meant. */
static enum lvn_status check_recipe(struct lvn_cli *c, const char *path)
{
    char guess[512];
    bool resume = lvn_cli_on(c, LVN_FLAG_train_resume), run = false, checkpoint = false;
    if (lvn_path_is_dir(path)) {
        const char *settings = lvn_path_join(&c->settings.arena, path, "settings.yaml"),
                   *state = lvn_path_join(&c->settings.arena, path, "state/settings.yaml");
        if (!settings || !state) return LVN_MEMORY;
        run = lvn_path_is_file(settings);
        checkpoint = lvn_path_is_file(state);
    }
    LVN_CHECK(!run, ARG, "'%s' is a folder, not a recipe: `levin train %s --resume` continues the run in it", path,
              path);
    LVN_CHECK(
        !checkpoint, ARG,
        "'%s' is a checkpoint, and a run continues from its newest one: to continue from this one, move the later "
        "ones out of the run's folder and name the run (`levin train RUN --resume`); --model.init=%s starts a new "
        "run from these weights",
        path, path);
    LVN_CHECK(!lvn_path_is_dir(path), ARG, "'%s' is a folder, not a recipe%s", path,
              resume
                  ? ", and holds no run to continue (settings.yaml is missing)"
                  : ", and no data to train on: it has no train.bin, no text files and not the files of MNIST; give a "
                    "table (.csv, .tsv) by its own name");
    if (lvn_path_exists(path)) return LVN_OK;
    snprintf(guess, sizeof guess, "recipes/%s%s", path, strstr(path, ".y") ? "" : ".yaml");
    LVN_CHECK(!lvn_path_is_file(find_recipe(c, guess)), ARG, "there is no recipe '%s'; did you mean '%s'?", path,
              guess);
    const bool recipe = lvn_ends_with(path, ".yaml") || lvn_ends_with(path, ".yml");
    LVN_CHECK(!resume || recipe, ARG, "%s", lvn_run_missing(&c->settings.arena, path));
    LVN_CHECK(!recipe, ARG, "there is no recipe '%s'", path);
    LVN_CHECK(!is_data_name(path), ARG, "there is no file '%s' to train on", path);
    LVN_FAIL(ARG, "there is no recipe '%s', and no such file or folder to train on", path);
}

/* --- data in place of a recipe --- */

/* A file whose name shows that it is data, or a folder that a data kind recognizes? */
static bool is_data(const char *path)
{
    const struct lvn_dataset_kind *kind = NULL;
    if (lvn_cli_is_recipe(path)) return false;
    if (!is_data_name(path)) {
        if (!lvn_path_is_dir(path)) return false;
        if (lvn_dataset_guess(path, &kind) != LVN_OK) lvn_error_clear();
        return kind != NULL;
    }
    return lvn_path_exists(path) || lvn_store_is_url(path);
}

static enum lvn_status load_data(struct lvn_cli *c, const char *path)
{
    struct levin_settings *s = &c->settings;
    for (int i = 0; i < c->n_keys; i++)
        LVN_CHECK(strcmp(c->keys[i].key, "data.path") != 0, ARG,
                  "'%s' and --data.path both name the data to train on; leave one out", path);
    LVN_TRY(lvn_settings_set(s, "data.path", path, LVN_SOURCE_COMMAND));
    return lvn_settings_name_by(s, path, "the data's name");
}

/* --- resuming a run: its own settings, overridden by the command line --- */

/* *run: the run that the operand names, NULL: it names none; *settings: path of the run's settings.yaml. */
static enum lvn_status find_run(struct lvn_cli *c, const char *operand, const char **run, const char **settings)
{
    struct lvn_arena *a = &c->settings.arena;
    *run = *settings = NULL;
    if (!operand || !lvn_cli_on(c, LVN_FLAG_train_resume) || lvn_path_is_file(operand)) return LVN_OK;
    *run = lvn_store_is_url(operand) ? operand : lvn_run_dir_find(a, operand);
    if (!*run) return LVN_OK;
    *settings = lvn_store_join(a, *run, "settings.yaml");
    if (!*settings) return LVN_MEMORY;
    if (!lvn_store_is_url(operand) && !lvn_path_is_file(*settings)) *run = NULL;
    return LVN_OK;
}

static enum lvn_status load_run(struct lvn_cli *c, const char *run, const char *settings)
{
    char *text;
    int64_t bytes;
    for (int i = 0; i < c->n_keys; i++)
        LVN_CHECK(strcmp(c->keys[i].key, "run_dir") != 0, ARG,
                  "'%s' is the run to continue, and --run_dir names another folder; leave one out", run);
    LVN_TRY_WHILE(lvn_store_read(settings, 1 << 20, &text, &bytes), "looking for the run '%s'", run);
    enum lvn_status status = lvn_settings_read(&c->settings, text, (size_t)bytes, settings);
    free(text);
    LVN_TRY(status);
    c->resuming = true;
    return lvn_settings_set(&c->settings, "run_dir", run, LVN_SOURCE_COMMAND);
}

void lvn_cli_warn_ignored_variables(const struct lvn_cli *c)
{
    char name[LVN_VALUE_TEXT];
    for (int i = 0; i < lvn_option_count() && c->resuming; i++) {
        const char *key = lvn_option_at(i)->key, *value = lvn_getenv(lvn_settings_variable(key, name));
        if (!value) continue;
        lvn_log(LVN_LOG_WARN, "%s is ignored, because a run continues with its own settings; give --%s instead", name,
                key);
    }
}

enum lvn_status lvn_cli_settings(struct lvn_cli *c, const char *recipe, unsigned parts)
{
    const char *run, *settings;
    LVN_TRY(find_run(c, recipe, &run, &settings));
    if (run) {
        LVN_TRY(load_run(c, run, settings));
    } else {
        c->from_data = recipe && is_data(recipe);
        if (c->from_data) LVN_TRY(load_data(c, recipe));
        const char *file = recipe && !c->from_data ? find_recipe(c, recipe) : NULL;
        if (file) LVN_TRY(check_recipe(c, file));
        if (file && file != recipe) log_recipe(recipe, file);
        if (file) LVN_TRY(lvn_settings_load(&c->settings, file));
        LVN_TRY(lvn_settings_environment(&c->settings));
    }
    struct lvn_text wrong = {0};
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < c->n_keys && status == LVN_OK; i++)
        status = lvn_collect_error(
            &wrong, lvn_settings_set(&c->settings, c->keys[i].key, c->keys[i].value, LVN_SOURCE_COMMAND));
    LVN_TRY(lvn_collected_errors(&wrong, status));
    const char *init = c->settings.values.model.init;
    if (c->from_data && (!*init || !lvn_model_has_characters(&c->settings.arena, init)))
        LVN_TRY(lvn_settings_fit_text(&c->settings));
    return lvn_settings_finish(&c->settings, parts);
}

void lvn_cli_release(struct lvn_cli *c)
{
    lvn_ranks_close(c->ranks);
    c->ranks = NULL;
    lvn_settings_release(&c->settings);
    json_decref(c->json);
    c->json = NULL;
}

/* --- --show-settings: prints every key, its value and where the value came from --- */

/* The text on one line, with newlines and tabs escaped. */
static const char *one_line(const char *value, struct lvn_text *t)
{
    lvn_text_clear(t);
    for (; *value; value++) {
        if (*value == '\n' || *value == '\t')
            lvn_text_add(t, *value == '\n' ? "\\n" : "\\t");
        else
            lvn_text_add_bytes(t, value, 1);
    }
    return t->p ? t->p : "";
}

static json_t *as_json(const struct lvn_option *o, const char *value)
{
    json_t *parsed = NULL;
    if (o->kind == LVN_KIND_INT || o->kind == LVN_KIND_REAL || o->kind == LVN_KIND_PAIR || o->kind == LVN_KIND_BOOL ||
        o->kind == LVN_KIND_TIME || o->kind == LVN_KIND_AMOUNT) {
        json_error_t error;
        if (lvn_json_load(value, (int64_t)strlen(value), JSON_DECODE_ANY, &parsed, &error) != LVN_OK)
            lvn_error_clear(); /* main.c reports incomplete results */
    }
    return parsed ? parsed : lvn_json_text(value, INT64_MAX);
}

bool lvn_cli_shows_settings(struct lvn_cli *c)
{
    struct lvn_identity identity;
    if (!lvn_cli_on(c, LVN_FLAG_any_show_settings)) return false;
    if (lvn_identity_find(&identity) == LVN_OK && identity.rank) { /* rank 0 prints them */
        json_decref(c->json);
        c->json = NULL;
        return true;
    }
    json_t *all = c->json ? json_object() : NULL;
    LVN_LOCAL_TEXT(line);
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        char text[LVN_VALUE_TEXT], from[LVN_VALUE_TEXT];
        const char *value = lvn_settings_value(&c->settings, o->id, text);
        const char *origin = lvn_settings_origin(&c->settings, o->id, from);
        bool open = !*o->default_text && c->settings.origin[o->id].source == LVN_SOURCE_DEFAULT;
        if (all) {
            json_t *one = json_object();
            json_object_set_new(one, "value", open ? json_null() : as_json(o, value));
            json_object_set_new(one, "from", lvn_json_text(origin, INT64_MAX));
            json_object_set_new(all, o->key, one);
        }
        lvn_cli_print(c, "%-34s %-28s %s\n", o->key, one_line(open ? "" : value, &line), origin);
    }
    lvn_cli_add(c, "settings", all);
    return true;
}
