/* options.c - the table of options: rows of options.def and of the families' keys, and finding an option
 * by its key or a similar word. Values are parsed and written in options_value.c. */
#include <pthread.h>

#include "base/text.h"
#include "comm/comm_kind.h"
#include "data/dataset.h"
#include "models/keys.h"
#include "optimizers/optimizer.h"
#include "options/values.h"
#include "schedules/schedule.h"
#include "tasks/task.h"

enum { MAX_KINDS = 40 }; /* names of optimizers, of schedules, of tasks, with the NULL after them */

/* The words of each choice. */
#define LVN_X(name, word) word,
#define LVN_CHOICE(part, field, ...)                                                                                   \
    static const char *const words_##part##_##field[] = {LVN_CHOICES_##part##_##field(LVN_X) NULL};
#include "options/options_each.h"
#undef LVN_X
static const char *words_model_kind[LVN_FAMILY_KEYS]; /* names of families: see gather() */
static const char *const words_data_kind[] = {
#define LVN_DATASET(name) #name,
#include "data/datasets_each.h"
    NULL};
static const char *const words_trainer_accelerator[] = {"auto", "gpu", "xpu",
#define LVN_BACKEND(name) #name,
#include "backend/backends.def"
                                                        NULL};
/* auto, and the kinds that connect processors: see gather_tables(). */
static const char *words_trainer_transport[] = {
#define LVN_COMM_KIND(name) NULL,
#include "comm/comm_kinds_each.h"
    NULL, NULL};
/* Filled from the tables of other folders: see gather_tables(). */
static const char *words_optimizer_kind[MAX_KINDS], *words_schedule_kind[MAX_KINDS], *words_task_kind[MAX_KINDS];

/* A field of another type than its row's fails to compile here. */
typedef double pair[2];
#define FIELD(part, field, type)                                                                                       \
    (offsetof(struct lvn_values, part.field) + 0 * sizeof(_Generic(&((struct lvn_values *)0)->part.field, type *       \
                                                                   : (char)0)))

/* The rows of options.def, then the keys of families: see gather(). If a key is a C++ keyword, its field has another
 * name, and the row sets `.key` after the help. */
#pragma GCC diagnostic ignored "-Woverride-init"
static struct lvn_option options[LVN_OPT_ALL] = {
// clang-format off
#define LVN_TOP(field, default_, help_, ...)                                                                           \
    {.key = #field, .part = "", .kind = LVN_KIND_PATH, .default_text = default_, .help = help_,                        \
     .offset = offsetof(struct lvn_values, field), .id = LVN_OPT_##field, __VA_ARGS__},
#define ROW(part_, field, kind_, type, default_, help_, ...)                                                           \
    {.key = #part_ "." #field, .part = #part_, .kind = LVN_KIND_##kind_, .default_text = default_, .help = help_,      \
     .offset = FIELD(part_, field, type), .id = LVN_OPT_##part_##_##field, __VA_ARGS__},
#define LVN_INT(part, field, default_, low, high, help, ...)                                                           \
    ROW(part, field, INT, int64_t, default_, help, .min = low, .max = (double)(high), __VA_ARGS__)
#define LVN_REAL(part, field, default_, low, high, help, ...)                                                          \
    ROW(part, field, REAL, double, default_, help, .min = low, .max = high, __VA_ARGS__)
#define LVN_PAIR(part, field, default_, low, high, help, ...)                                                          \
    ROW(part, field, PAIR, pair, default_, help, .min = low, .max = high, __VA_ARGS__)
#define LVN_BOOL(part, field, default_, help, ...) ROW(part, field, BOOL, bool, default_, help, __VA_ARGS__)
#define LVN_CHOICE(part, field, default_, help, ...)                                                                   \
    ROW(part, field, CHOICE, enum lvn_##part##_##field, default_, help, .choices = words_##part##_##field, __VA_ARGS__)
#define LVN_WORD(part, field, default_, help, ...)                                                                     \
    ROW(part, field, WORD, const char *, default_, help, .choices = words_##part##_##field, __VA_ARGS__)
#define LVN_TEXT(part, field, default_, help, ...) ROW(part, field, TEXT, const char *, default_, help, __VA_ARGS__)
#define LVN_PATH(part, field, default_, help, ...) ROW(part, field, PATH, const char *, default_, help, __VA_ARGS__)
#define LVN_LIST(part, field, default_, help, ...) ROW(part, field, LIST, const char *, default_, help, __VA_ARGS__)
#define LVN_MAPS(part, field, default_, help, ...) ROW(part, field, MAPS, const char *, default_, help, __VA_ARGS__)
#define LVN_TIME(part, field, default_, help, ...) ROW(part, field, TIME, double, default_, help, __VA_ARGS__)
#define LVN_AMOUNT(part, field, default_, help, ...)                                                                   \
    ROW(part, field, AMOUNT, struct lvn_amount, default_, help, __VA_ARGS__)
#include "options/options_each.h"
    // clang-format on
};

static const struct {
    const char *name, *help;
} parts[] = {
#define LVN_PART(name, help) {#name, help},
#include "options/options_each.h"
};

const char *lvn_part_help(const char *part)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strcmp(parts[i].name, part)) return parts[i].help;
    }
    return NULL;
}

/* --- the keys of families --- */

static const struct lvn_option *listed[LVN_OPT_ALL]; /* in the order of help */
static int n_listed, n_family;
static struct {
    char key[48], help[320], default_note[240];
} texts[LVN_FAMILY_KEYS];
static char kinds[2000], data_kinds[800], optimizer_kinds[800], schedule_kinds[600], task_kinds[600],
    transport_kinds[800]; /* their .more */

/* Append `text` followed by `more`; `between` separates it from an earlier entry. */
static void add(char *list, size_t capacity, const char *between, const char *text, const char *more)
{
    lvn_print_append(list, capacity, "%s%s%s", *list ? between : "", text, more);
}

/* Append `text` followed by its families in parentheses, unless all families have it. */
static void add_of(char *list, size_t capacity, const char *text, const char *names, bool all)
{
    char families[220] = "";
    if (!all) snprintf(families, sizeof families, " (%s)", names);
    add(list, capacity, ", ", text, families);
}

/* Append the default: "6", or "0 (one), 0.1 (another, a third)". */
static void add_default(char *list, size_t capacity, const char *recipe)
{
    const struct lvn_model *const *all = lvn_models();
    for (int i = 0; all[i]; i++) {
        const struct lvn_key *k = lvn_key_find(all[i], recipe);
        char names[200] = "", text[LVN_KEY_TEXT];
        int others = 0;
        bool before = !k;
        for (int j = 0; all[j] && k; j++) {
            const struct lvn_key *o = lvn_key_find(all[j], recipe);
            bool same = o && o->default_value == k->default_value;
            before = before || (same && j < i);
            others += o && !same;
            if (same) add(names, sizeof names, ", ", all[j]->name, "");
        }
        if (!before) add_of(list, capacity, lvn_key_text(k, k->default_value, text), names, others == 0);
    }
}

/* Make an option of a key, with the bounds of all families that have it. */
static void add_key(const struct lvn_key *k)
{
    static const enum lvn_option_kind kind[] = {
        [LVN_KEY_INT] = LVN_KIND_INT, [LVN_KEY_REAL] = LVN_KIND_REAL, [LVN_KEY_BOOL] = LVN_KIND_BOOL};
    char names[200] = "";
    struct lvn_option *o = &options[LVN_OPT_COUNT + n_family];
    double min = k->min, max = k->max;
    bool all = true;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        const struct lvn_key *other = lvn_key_find(*m, k->recipe);
        all = all && other;
        if (!other) continue;
        min = other->by_data ? 0 : other->min < min ? other->min : min;
        max = other->max > max ? other->max : max;
        add(names, sizeof names, ", ", (*m)->name, "");
    }
    snprintf(texts[n_family].key, sizeof texts->key, "model.%s", k->recipe);
    add_of(texts[n_family].help, sizeof texts->help, k->help, names, all);
    add_default(texts[n_family].default_note, sizeof texts->default_note, k->recipe);
    *o = (struct lvn_option){.key = texts[n_family].key,
                             .part = "model",
                             .kind = kind[k->kind],
                             .default_text = "",
                             .family_default = texts[n_family].default_note,
                             .min = min,
                             .max = max,
                             .help = texts[n_family].help,
                             .fixed = true,
                             .offset = offsetof(struct lvn_values, family) +
                                       (size_t)n_family * sizeof(union lvn_option_value),
                             .id = (enum lvn_option_id)(LVN_OPT_COUNT + n_family)};
    n_family++;
}

static void gather_keys(const struct lvn_model *m)
{
    for (const struct lvn_key *k = m->keys; k->kind; k++) {
        bool known = !k->recipe || n_family == LVN_FAMILY_KEYS;
        for (int i = 0; i < n_family && !known; i++)
            known = strcmp(options[LVN_OPT_COUNT + i].key + strlen("model."), k->recipe) == 0;
        if (!known) add_key(k);
    }
}

/* Append the line "name: help" to the meanings of an option's choices. */
static void add_meaning(char *list, size_t capacity, const char *name, const char *help)
{
    lvn_print_append(list, capacity, "%s%s: %s", *list ? "\n" : "", name, help);
}

/* Append a name to the choices of an option, and its help to their meanings. */
static void add_kind(const char *words[MAX_KINDS], char *list, size_t capacity, const char *name, const char *help)
{
    int n = 0;
    while (words[n]) n++;
    if (n < MAX_KINDS - 1) words[n] = name;
    add_meaning(list, capacity, name, help);
}

static void gather_tables(void)
{
    const struct lvn_comm_kind *transport;
    int n = 0;
    for (const struct lvn_optimizer_kind *k = lvn_optimizers; k->name; k++)
        add_kind(words_optimizer_kind, optimizer_kinds, sizeof optimizer_kinds, k->name, k->help);
    for (const struct lvn_schedule_kind *k = lvn_schedules; k->name; k++)
        add_kind(words_schedule_kind, schedule_kinds, sizeof schedule_kinds, k->name, k->help);
    for (const struct lvn_dataset_kind *const *k = lvn_dataset_kinds(); *k; k++)
        add_meaning(data_kinds, sizeof data_kinds, (*k)->name, (*k)->help);
    words_task_kind[0] = "auto";
    for (const struct lvn_task *t = lvn_tasks; t->name; t++)
        add_kind(words_task_kind, task_kinds, sizeof task_kinds, t->name, t->help);
    add_meaning(task_kinds, sizeof task_kinds, "auto", "for example classify for a decoder with a table");
    words_trainer_transport[n++] = "auto";
    for (int i = 0; (transport = lvn_comm_kind_at(i)); i++) {
        if (!lvn_comm_kind_connects(transport)) continue;
        words_trainer_transport[n++] = transport->name;
        add_meaning(transport_kinds, sizeof transport_kinds, transport->name, transport->description);
    }
    options[LVN_OPT_data_kind].more = data_kinds;
    options[LVN_OPT_optimizer_kind].more = optimizer_kinds;
    options[LVN_OPT_schedule_kind].more = schedule_kinds;
    options[LVN_OPT_task_kind].more = task_kinds;
    options[LVN_OPT_trainer_transport].more = transport_kinds;
}

/* Called once, by the first access: adds what other tables say about the choices. */
static void gather(void)
{
    const struct lvn_model *const *m = lvn_models();
    for (int i = 0; m[i] && i < LVN_FAMILY_KEYS - 1; i++) {
        words_model_kind[i] = m[i]->name;
        add_meaning(kinds, sizeof kinds, m[i]->name, m[i]->help);
        gather_keys(m[i]);
    }
    options[LVN_OPT_model_kind].default_text = m[0]->name;
    options[LVN_OPT_model_kind].more = kinds;
    gather_tables();
    for (int id = 0; id < LVN_OPT_COUNT; id++) {
        bool ends = id + 1 == LVN_OPT_COUNT || strcmp(options[id].part, options[id + 1].part) != 0;
        listed[n_listed++] = &options[id];
        if (!ends || strcmp(options[id].part, "model") != 0) continue;
        for (int i = 0; i < n_family; i++) listed[n_listed++] = &options[LVN_OPT_COUNT + i];
    }
}

static void gather_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, gather);
}

int lvn_option_count(void)
{
    gather_once();
    return n_listed;
}

const struct lvn_option *lvn_option_at(int i)
{
    gather_once();
    return listed[i];
}

const struct lvn_option *lvn_option_by_id(enum lvn_option_id id)
{
    gather_once();
    return (int)id < LVN_OPT_COUNT + n_family ? &options[id] : NULL;
}

const struct lvn_option *lvn_option_family_key(int i)
{
    return lvn_option_by_id((enum lvn_option_id)(LVN_OPT_COUNT + i));
}

bool lvn_option_is_for(const struct lvn_option *o, const char *kind)
{
    const size_t n = strlen(kind);
    for (const char *one = o->for_kind; one && *one; one += strcspn(one, ","), one += strspn(one, ", "))
        if (strcspn(one, ",") == n && !strncmp(one, kind, n)) return true;
    return !o->for_kind;
}

const char *lvn_option_help(const struct lvn_option *o, char text[LVN_HELP_TEXT])
{
    snprintf(text, LVN_HELP_TEXT, "%s%s%s", o->for_kind ? o->for_kind : "", o->for_kind ? ": " : "", o->help);
    for (int i = 0; o->more && o->choices && o->choices[i]; i++)
        lvn_print_append(text, LVN_HELP_TEXT, "%s%s", i ? ", " : ": ", o->choices[i]);
    return text;
}

/* --- finding one --- */

const struct lvn_option *lvn_option_find(const char *key)
{
    for (int i = 0; i < lvn_option_count(); i++) {
        if (!strcmp(listed[i]->key, key)) return listed[i];
    }
    return NULL;
}

/* The first key whose last word is `word`: lr is optimizer.lr. */
static const char *by_field(const char *word)
{
    for (int i = 0; i < lvn_option_count(); i++) {
        const char *dot = strchr(listed[i]->key, '.');
        if (dot && !strcasecmp(dot + 1, word)) return listed[i]->key;
    }
    return NULL;
}

static const char *field_of(const struct lvn_option *o)
{
    return *o->part ? o->key + strlen(o->part) + 1 : o->key;
}

/* The key nearest to `word`, within `limit` edits: by its last word, of one part (NULL: of any), or by all of it. */
static const char *within(const char *word, const char *part, bool whole, int limit)
{
    const char *nearest = NULL;
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (part && strcmp(o->part, part) != 0) continue;
        int distance = lvn_edit_distance(word, whole ? o->key : field_of(o));
        if (distance > limit) continue;
        nearest = o->key;
        limit = distance - 1; /* later keys must be nearer */
    }
    return nearest;
}

/* The only key of a part that begins with `field`: lora.r is lora.rank. */
static const char *completed(const char *field, const char *part)
{
    const char *only = NULL;
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        if (!*field || strcmp(o->part, part) != 0 || strncmp(field_of(o), field, strlen(field)) != 0) continue;
        if (only) return NULL;
        only = o->key;
    }
    return only;
}

/* A wrong suggestion is worse than none. So a key with an existing part is compared with keys of that part only; a word
 * without a part (other programs' --device, --eval_steps) must be long, and differ in one letter only. */
const char *lvn_option_nearest(const char *key)
{
    enum { LETTERS = 64, LONG = 8 };
    char word[LETTERS + 1], part[LETTERS + 1];
    size_t n = 0;
    for (; key[n] && n < LETTERS; n++) word[n] = key[n] == '-' ? '_' : key[n];
    word[n] = '\0';
    if (lvn_option_find(word)) return lvn_option_find(word)->key;
    const char *dot = strrchr(word, '.'), *field = dot ? dot + 1 : word, *exact = by_field(field);
    int letters = (int)strlen(field);
    if (!dot) return exact ? exact : letters >= LONG ? within(word, NULL, false, 1) : NULL;
    snprintf(part, sizeof part, "%.*s", (int)(dot - word), word);
    if (lvn_part_help(part)) {
        const char *near = completed(field, part);
        if (!near) near = within(field, part, false, letters < 3 ? 0 : letters < LONG ? 1 : 2);
        return near ? near : exact;
    }
    /* An exact last word in a wrong part (train.max_steps) is a better match than a few equal letters. */
    const char *near = within(word, NULL, true, (int)strlen(word) / 4);
    return exact && (!near || strcmp(strchr(near, '.') ? strchr(near, '.') + 1 : near, field) != 0) ? exact : near;
}
