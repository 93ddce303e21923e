/* config_questions.c - the questions of levin config, on the terminal, for settings that are not given; called by
 * config.c.
 *
 * A question shows the value that an empty answer selects. An invalid answer is refused with the message of the command
 * line, and the question is repeated. With cf->ask false nothing is asked. */

#include "base/files.h"
#include "cli/config/config.h"
#include "host/isa.h"
#include "model_io/model_find.h"
#include "models/model.h"
#include "stores/store.h"

enum { ANSWER = 1024 };

/* Read a line without its newline and the blanks around it; false at the end of the input. */
static bool read_answer(char line[ANSWER])
{
    fputs("> ", stderr);
    fflush(stderr);
    if (!fgets(line, ANSWER, stdin)) return false;
    while (strlen(line) == ANSWER - 1 &&
           line[ANSWER - 2] != '\n') { /* the rest of the line must not answer the next question */
        for (int c = getchar(); c != '\n' && c != EOF;) c = getchar();
        fprintf(stderr, "Please answer with at most %d bytes.\n> ", ANSWER - 2);
        if (!fgets(line, ANSWER, stdin)) return false;
    }
    size_t begin = strspn(line, " \t"), n = strlen(line);
    while (n > begin && strchr(" \t\r\n", line[n - 1])) n--;
    line[n] = '\0';
    memmove(line, line + begin, n - begin + 1);
    return true;
}

static enum lvn_status no_answer(void)
{
    LVN_FAIL(ARG, "standard input ended before all questions were answered; --ask=never uses the defaults");
}

/* Ask for one of some words, which may be answered by its number. */
static enum lvn_status choose(const char *question, const char *const *words, const char *const *texts, int *chosen)
{
    char line[ANSWER];
    fprintf(stderr, "\n%s\n", question);
    for (int i = 0; words[i]; i++) fprintf(stderr, "  %d) %s: %s\n", i + 1, words[i], texts[i]);
    for (;;) {
        fprintf(stderr, "[%d] ", *chosen + 1);
        if (!read_answer(line)) return no_answer();
        if (!*line) return LVN_OK;
        for (int i = 0; words[i]; i++) {
            char *end;
            long number = strtol(line, &end, 10);
            if (strcmp(line, words[i]) != 0 && (*end || number != i + 1)) continue;
            *chosen = i;
            return LVN_OK;
        }
        fprintf(stderr, "Please answer with one of the numbers or words.\n");
    }
}

static enum lvn_status ask_number(const char *question, int64_t *n)
{
    char line[ANSWER];
    fprintf(stderr, "\n%s\n", question);
    for (;;) {
        fprintf(stderr, "[%" PRId64 "] ", *n);
        if (!read_answer(line)) return no_answer();
        if (!*line) return LVN_OK;
        char *end;
        errno = 0;
        long long value = strtoll(line, &end, 10);
        if (!*end && !errno && value >= 1 && value <= 1000000) {
            *n = value;
            return LVN_OK;
        }
        fprintf(stderr, "Please answer with a whole number from 1.\n");
    }
}

/* Is the answer a text that neither exists nor can be downloaded, so that the recipe could not run? Token files may be
 * made later. */
static bool is_missing(const struct lvn_config *cf, enum lvn_option_id id, const char *given)
{
    if (id != LVN_OPT_data_path || !lvn_recipe_templates[cf->kind].form || lvn_store_is_url(given)) return false;
    const char *path = lvn_path_home(&cf->s->arena, given);
    bool downloads = *cf->s->values.data.url && !strcmp(given, cf->s->values.data.path);
    return path && !downloads && !lvn_path_exists(path);
}

/* ARG: the answer names a model or a size that does not exist. */
static enum lvn_status check_name(const struct lvn_config *cf, enum lvn_option_id id, const char *given)
{
    if (id == LVN_OPT_model_init) return lvn_model_check_name(&cf->s->arena, given);
    if (id != LVN_OPT_model_size) return LVN_OK;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++)
        if (lvn_size_find(*m, given)) return LVN_OK;
    LVN_FAIL(ARG, "There is no size '%s': `levin help model` lists them", given);
}

/* Ask for a key of the recipe, unless it is given. */
static enum lvn_status ask_key(struct lvn_config *cf, enum lvn_option_id id, const char *question)
{
    char line[ANSWER], text[LVN_VALUE_TEXT];
    bool given = cf->s->origin[id].source >= LVN_SOURCE_COMMAND ||
                 (cf->s->origin[id].source == LVN_SOURCE_RECIPE && cf->s->origin[id].line);
    if (given || !cf->ask) return LVN_OK;
    fprintf(stderr, "\n%s\n", question);
    for (;;) {
        fprintf(stderr, "[%s] ", lvn_settings_value(cf->s, id, text));
        if (!read_answer(line)) return no_answer();
        if (!*line) return LVN_OK;
        if (is_missing(cf, id, line)) {
            fprintf(stderr, "There is no '%s'. Please answer with the path of a %s, or its address.\n", line,
                    lvn_recipe_templates[cf->kind].form);
            continue;
        }
        enum lvn_status status = check_name(cf, id, line);
        if (status == LVN_OK) status = lvn_settings_set(cf->s, lvn_option_by_id(id)->key, line, LVN_SOURCE_PROGRAM);
        if (status == LVN_OK) return LVN_OK;
        fprintf(stderr, "%s.\n", levin_error_text());
        lvn_error_clear();
    }
}

/* --- the questions --- */

enum lvn_status lvn_config_ask_kind(struct lvn_config *cf)
{
    const char *texts[LVN_RECIPE_COUNT];
    for (int i = 0; i < LVN_RECIPE_COUNT; i++) texts[i] = lvn_recipe_templates[i].help;
    /* Pressing Enter alone must lead to a recipe that runs: without token files the kind whose text is downloaded. */
    int n = cf->ask && !lvn_path_exists("data/openwebtext") ? LVN_RECIPE_CHARS : LVN_RECIPE_FINETUNE;
    if (cf->ask) LVN_TRY(choose("What do you want to do?", lvn_recipe_kind_words, texts, &n));
    cf->kind = (enum lvn_recipe_kind)n;
    return LVN_OK;
}

const char *lvn_config_precision_text(void)
{
    switch (lvn_isa_processor()) {
    case LVN_ISA_AMX:
        return "this CPU multiplies bf16 in tiles (AMX): bf16-mixed is the faster one";
    case LVN_ISA_AVX512_BF16:
        return "this CPU multiplies bf16 (AVX512-BF16): bf16-mixed is the faster one";
    default:
        return "this CPU has no fast instructions for bf16: bf16-mixed saves memory, and computes in fp32";
    }
}

static enum lvn_status ask_hosts(struct lvn_config *cf)
{
    char line[ANSWER];
    fprintf(stderr, "\nWhat are the machines called?\n(Names separated by commas; the first one is this machine's.)\n");
    for (;;) {
        if (!read_answer(line)) return no_answer();
        int64_t names = 1;
        size_t used = 0;
        for (const char *p = line; *p; p++) {
            if (*p == ' ') continue;
            line[used++] = *p;
            names += *p == ',';
        }
        line[used] = '\0';
        if (!*line || strstr(line, ",,") || *line == ',' || line[used - 1] == ',') {
            fprintf(stderr, "Please answer with names, as node1,node2,node3.\n");
            continue;
        }
        cf->hosts = lvn_arena_strdup(&cf->s->arena, line);
        cf->machines = names;
        return cf->hosts ? LVN_OK : LVN_MEMORY;
    }
}

static enum lvn_status ask_location(struct lvn_config *cf)
{
    static const char *const texts[] = {"this machine", "several machines that are reached by ssh",
                                        "a cluster with Slurm"};
    int n = (int)cf->location;
    if (!cf->ask) return LVN_OK;
    if (!cf->has_location) LVN_TRY(choose("Where should it run?", lvn_config_location_words, texts, &n));
    cf->location = (enum lvn_config_location)n;
    if (cf->location == LVN_CONFIG_HOSTS && !*cf->hosts && !cf->hostfile) LVN_TRY(ask_hosts(cf));
    if (cf->location == LVN_CONFIG_SLURM && !cf->has_machines) LVN_TRY(ask_number("On how many nodes?", &cf->machines));
    if (cf->location != LVN_CONFIG_LOCAL && !cf->has_per_machine)
        LVN_TRY(
            ask_number("How many ranks (processes) on each of them?\n(One uses all cores; one for each socket or NUMA "
                       "node can be faster.)",
                       &cf->per_machine));
    if (cf->location == LVN_CONFIG_LOCAL || cf->c->given[LVN_FLAG_config_memory]) return LVN_OK;
    int64_t gib = cf->memory >> 30;
    LVN_TRY(ask_number("How much free memory does each of them have, in GiB?", &gib));
    cf->memory = gib << 30;
    return LVN_OK;
}

enum lvn_status lvn_config_ask(struct lvn_config *cf)
{
    char question[400];
    const struct lvn_recipe_template *template = &lvn_recipe_templates[cf->kind];
    if (template->tunes)
        LVN_TRY(ask_key(cf, LVN_OPT_model_init,
                        "Which model? A published one (`levin help model` lists them), or a folder."));
    if (cf->kind == LVN_RECIPE_SCRATCH)
        LVN_TRY(ask_key(cf, LVN_OPT_model_size, "Which size? (`levin help model` lists them)"));
    LVN_TRY(ask_key(cf, LVN_OPT_data_path, template->data));
    LVN_TRY(ask_location(cf));
    snprintf(question, sizeof question, "Which precision: 32-true, bf16-mixed or bf16-true?\n(%s)",
             lvn_config_precision_text());
    if (cf->kind != LVN_RECIPE_CHARS) LVN_TRY(ask_key(cf, LVN_OPT_trainer_precision, question));
    LVN_TRY(ask_key(cf, LVN_OPT_trainer_batch_size, "How many sequences make a step, over all machines?"));
    LVN_TRY(template->by_epochs ? ask_key(cf, LVN_OPT_trainer_max_epochs, "How many epochs?")
                                : ask_key(cf, LVN_OPT_trainer_max_steps, "How many steps?"));
    LVN_TRY(ask_key(cf, LVN_OPT_optimizer_lr, "What is the peak learning rate?"));
    return LVN_OK;
}
