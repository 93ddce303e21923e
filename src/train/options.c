/* options.c - the table of options as data, and finding the option that a word means. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "train/settings.h"

/* The words of each choice. */
#define LVN_X(name, word) word,
#define LVN_CHOICE(part, field, ...)                                                                                   \
    static const char *const words_##part##_##field[] = {LVN_CHOICES_##part##_##field(LVN_X) NULL};
#define LVN_TOP(...)
#define LVN_PART(...)
#define LVN_PART_END(...)
#define LVN_INT(...)
#define LVN_REAL(...)
#define LVN_PAIR(...)
#define LVN_BOOL(...)
#define LVN_WORD(...)
#define LVN_TEXT(...)
#define LVN_TIME(...)
#define LVN_AMOUNT(...)
#include "train/options_each.h"
#undef LVN_X
static const char *const words_model_kind[] = {
#define LVN_MODEL(name) #name,
#include "models/models.def"
    NULL};
static const char *const words_data_kind[] = {
#define LVN_DATASET(name) #name,
#include "data/datasets.def"
    NULL};

/* A field of another type than its row's fails to compile here. */
typedef double pair[2];
#define FIELD(part, field, type)                                                                                       \
    (offsetof(struct lvn_settings, part.field) + 0 * sizeof(_Generic(&((struct lvn_settings *)0)->part.field, type *   \
                                                                     : (char)0)))

const struct lvn_option lvn_options[LVN_OPT_COUNT] = {
// clang-format off
#define LVN_TOP(field, initial_, help_)                                                                                \
    {.key = #field, .part = "", .kind = LVN_KIND_TEXT, .initial = initial_, .help = help_,                             \
     .offset = offsetof(struct lvn_settings, field)},
#define LVN_PART(...)
#define LVN_PART_END(...)
#define ROW(part_, field, kind_, type, initial_, help_, ...)                                                           \
    {.key = #part_ "." #field, .part = #part_, .kind = LVN_KIND_##kind_, .initial = initial_, .help = help_,           \
     .offset = FIELD(part_, field, type), __VA_ARGS__},
#define LVN_INT(part, field, initial, low, high, help)                                                                 \
    ROW(part, field, INT, int64_t, initial, help, .least = low, .most = (double)(high))
#define LVN_REAL(part, field, initial, low, high, help)                                                                \
    ROW(part, field, REAL, double, initial, help, .least = low, .most = high)
#define LVN_PAIR(part, field, initial, low, high, help)                                                                \
    ROW(part, field, PAIR, pair, initial, help, .least = low, .most = high)
#define LVN_BOOL(part, field, initial, help) ROW(part, field, BOOL, bool, initial, help, )
#define LVN_CHOICE(part, field, initial, help)                                                                         \
    ROW(part, field, CHOICE, enum lvn_##part##_##field, initial, help, .choices = words_##part##_##field)
#define LVN_WORD(part, field, initial, help)                                                                           \
    ROW(part, field, WORD, const char *, initial, help, .choices = words_##part##_##field)
#define LVN_TEXT(part, field, initial, help) ROW(part, field, TEXT, const char *, initial, help, )
#define LVN_TIME(part, field, initial, help) ROW(part, field, TIME, double, initial, help, )
#define LVN_AMOUNT(part, field, initial, help) ROW(part, field, AMOUNT, struct lvn_amount, initial, help, )
#include "train/options_each.h"
    // clang-format on
};

static const struct {
    const char *name, *help;
} parts[] = {
#define LVN_PART(name, help) {#name, help},
#define LVN_PART_END(...)
#define LVN_TOP(...)
#define LVN_INT(...)
#define LVN_REAL(...)
#define LVN_PAIR(...)
#define LVN_BOOL(...)
#define LVN_CHOICE(...)
#define LVN_WORD(...)
#define LVN_TEXT(...)
#define LVN_TIME(...)
#define LVN_AMOUNT(...)
#include "train/options_each.h"
};

const char *lvn_part_help(const char *part)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strcmp(parts[i].name, part)) return parts[i].help;
    }
    return NULL;
}

const struct lvn_option *lvn_option_find(const char *key)
{
    for (int i = 0; i < LVN_OPT_COUNT; i++) {
        if (!strcmp(lvn_options[i].key, key)) return &lvn_options[i];
    }
    return NULL;
}

/* The key whose last word is `word` exactly: lr is optimizer.lr. The first one where parts share a word. */
static const char *by_field(const char *word)
{
    for (int i = 0; i < LVN_OPT_COUNT; i++) {
        const char *dot = strchr(lvn_options[i].key, '.');
        if (dot && !strcasecmp(dot + 1, word)) return lvn_options[i].key;
    }
    return NULL;
}

const char *lvn_option_nearest(const char *key)
{
    char word[65];
    size_t n = 0;
    for (; key[n] && n < sizeof word - 1; n++) word[n] = key[n] == '-' ? '_' : key[n];
    word[n] = '\0';
    const char *keys[LVN_OPT_COUNT], *fields[LVN_OPT_COUNT];
    for (int i = 0; i < LVN_OPT_COUNT; i++) {
        const char *dot = strchr(lvn_options[i].key, '.');
        keys[i] = lvn_options[i].key;
        fields[i] = dot ? dot + 1 : NULL;
    }
    const char *dot = strrchr(word, '.'), *field = dot ? dot + 1 : word;
    const char *found = by_field(field);
    /* An exact last word in a wrong part (train.max_steps) tells more than a few equal letters. */
    if (lvn_option_find(word)) return lvn_option_find(word)->key;
    if (dot && found) {
        const char *near = lvn_nearest(word, keys, LVN_OPT_COUNT);
        const char *near_dot = near ? strchr(near, '.') : NULL;
        return near_dot && !strcmp(near_dot + 1, field) ? near : found;
    }
    if (found) return found;
    const char *near = lvn_nearest(word, keys, LVN_OPT_COUNT);
    if (near) return near;
    near = lvn_nearest(field, fields, LVN_OPT_COUNT);
    return near ? by_field(near) : NULL;
}
