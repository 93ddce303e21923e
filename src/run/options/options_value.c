/* options_value.c - one option's value from text and back, for settings and commands.
 *
 * The row says what is parsed: an integer, a number, two numbers, a boolean, one of some words, a text, a time, or an
 * amount. What is written parses to the same value. Numbers are in the format of the C locale. */
#include "base/files.h"
#include "base/text.h"
#include "formats/yaml.h"
#include "options/option_maps.h"
#include "options/values.h"

/* The words for zero. */
static bool is_neutral(const char *text)
{
    static const char *const words[] = {"off", "none", "no", "false", "null", "auto", "never", NULL};
    for (int i = 0; words[i]; i++) {
        if (!strcasecmp(text, words[i])) return true;
    }
    return false;
}

/* A finite number and nothing else; false: it is not one. */
static bool number(const char *text, double *out)
{
    char *end;
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text)) return false;
    *out = strtod(text, &end);
    if (*out == 0.0 && strcspn(text, "123456789") < strcspn(text, "eE")) return false; /* 1e-400 is not 0 */
    return !*end && end != text && isfinite(*out);
}

static bool all_digits(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* "must be at least 1", "must be between 0 and 1" */
static enum lvn_status out_of_range(const struct lvn_option *o, const char *text)
{
    if (o->max >= 1e9) LVN_FAIL(ARG, "%s must be at least %.15g, got %s", o->key, o->min, text);
    LVN_FAIL(ARG, "%s must be between %.15g and %.15g, got %s", o->key, o->min, o->max, text);
}

/* ARG for a word that the option refuses by name. */
static enum lvn_status check_refused(const struct lvn_option *o, const char *word)
{
    const char *why = o->refused ? strchr(o->refused, ':') : NULL;
    size_t n = strlen(word);
    for (const char *p = o->refused; why && p < why; p += strcspn(p, " :") + 1)
        LVN_CHECK(strcspn(p, " :") != n || strncasecmp(p, word, n), ARG, "%s %.*s is not supported%s", o->key, (int)n,
                  p, why);
    return LVN_OK;
}

/* ARG for "auto", unless the default is derived (some have no text for it) or 0, and for a word that the option
 * refuses.
 */
static enum lvn_status check_word(const struct lvn_option *o, const char *text)
{
    const char *usual = o->default_text;
    LVN_CHECK(strcasecmp(text, "auto") || !*usual || is_neutral(usual) || !strcmp(usual, "0"), ARG,
              "%s has no automatic value: give a number, or leave it out for %s", o->key, usual);
    return check_refused(o, text);
}

bool lvn_option_is_switch(const struct lvn_option *o)
{
    return o->kind == LVN_KIND_BOOL || !strcmp(o->default_text, "false");
}

static enum lvn_status parse_int(const struct lvn_option *o, const char *text, int64_t *out)
{
    double real;
    if (is_neutral(text) && o->min <= 0) {
        LVN_TRY(check_word(o, text));
        *out = strcasecmp(text, "auto") ? 0 : o->automatic;
        return LVN_OK;
    }
    if (lvn_option_is_switch(o) && (!strcasecmp(text, "true") || !strcasecmp(text, "yes") || !strcasecmp(text, "on"))) {
        *out = 1;
        return LVN_OK;
    }
    LVN_CHECK(number(text, &real) && real == floor(real), ARG, "%s must be a whole number, got '%.60s'", o->key, text);
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (*end) { /* 1e6 */
        LVN_CHECK(fabs(real) <= 0x1p53, ARG, "%s is too large: %.60s", o->key, text);
        whole = (long long)real;
    }
    LVN_CHECK(!errno, ARG, "%s is too large: %.60s", o->key, text);
    if (whole < o->min) return out_of_range(o, text);
    LVN_CHECK((double)whole <= o->max, ARG, "%s must be at most %.15g, got %s", o->key, o->max, text);
    *out = whole;
    return LVN_OK;
}

static enum lvn_status parse_real(const struct lvn_option *o, const char *text, double *out)
{
    double real;
    if (is_neutral(text) && o->min <= 0) {
        LVN_TRY(check_word(o, text));
        *out = 0;
        return LVN_OK;
    }
    LVN_CHECK(number(text, &real), ARG, "%s must be a number, got '%.60s'", o->key, text);
    if (real < o->min || real > o->max) return out_of_range(o, text);
    *out = real;
    return LVN_OK;
}

/* "[0.9, 0.95]", "(0.9, 0.95)", "0.9,0.95" or "0.9 0.95" */
static enum lvn_status parse_pair(const struct lvn_option *o, const char *text, double out[2])
{
    char copy[LVN_VALUE_TEXT];
    int n = 0;
    LVN_CHECK(lvn_fit(copy, sizeof copy, "%s", text), ARG, "%s must be two numbers like %s, got '%.60s...'", o->key,
              o->default_text, text);
    char *rest = NULL;
    for (char *word = strtok_r(copy, "[](), \t", &rest); word; word = strtok_r(NULL, "[](), \t", &rest), n++) {
        double real;
        LVN_CHECK(n < 2 && number(word, &real), ARG, "%s must be two numbers like %s, got '%.60s'", o->key,
                  o->default_text, text);
        if (real < o->min || real > o->max) return out_of_range(o, word);
        out[n] = real;
    }
    LVN_CHECK(n == 2, ARG, "%s must be two numbers like %s, got '%.60s'", o->key, o->default_text, text);
    return LVN_OK;
}

static enum lvn_status parse_bool(const struct lvn_option *o, const char *text, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1", NULL}, *const no[] = {"0", "n", NULL};
    for (int i = 0; yes[i]; i++) {
        if (!strcasecmp(text, yes[i])) {
            *out = true;
            return LVN_OK;
        }
    }
    bool off = is_neutral(text) && strcasecmp(text, "auto");
    for (int i = 0; no[i]; i++) off = off || !strcasecmp(text, no[i]);
    LVN_CHECK(off, ARG, "%s must be true or false, got '%.60s'", o->key, text);
    *out = false;
    return LVN_OK;
}

/* The choice of a word in `aliases` (word=choice ...); *n: its length. */
static const char *choice_of(const struct lvn_option *o, const char *word, size_t *n)
{
    const char *choice;
    for (const char *p = o->aliases ? o->aliases : ""; *p; p = choice + *n + strspn(choice + *n, " ")) {
        size_t letters = strcspn(p, "=");
        choice = p + letters + 1;
        *n = strcspn(choice, " ");
        if (letters == strlen(word) && !strncasecmp(p, word, letters)) return choice;
    }
    *n = strlen(word);
    return word;
}

static enum lvn_status parse_choice(const struct lvn_option *o, const char *text, void *out)
{
    size_t n;
    const char *word = choice_of(o, text, &n);
    char list[512] = ""; /* the kinds of models need 150 */
    for (int i = 0; o->choices[i]; i++) {
        if (strlen(o->choices[i]) == n && !strncasecmp(o->choices[i], word, n)) {
            if (o->kind == LVN_KIND_WORD) {
                *(const char **)out = o->choices[i];
            } else {
                *(unsigned *)out = (unsigned)i; /* enums have the size of unsigned */
            }
            return LVN_OK;
        }
        lvn_print_append(list, sizeof list, "%s%s", !i ? "" : o->choices[i + 1] ? ", " : " or ", o->choices[i]);
    }
    LVN_TRY(check_refused(o, text));
    LVN_FAIL(ARG, "%s must be %s, got '%.60s'", o->key, list, text);
}

static enum lvn_status parse_text(const char *text, struct lvn_arena *a, const char **out)
{
    char *copy = lvn_arena_strdup(a, text);
    if (!copy) return LVN_MEMORY;
    *out = copy;
    return LVN_OK;
}

static enum lvn_status parse_path(const char *text, struct lvn_arena *a, const char **out)
{
    const char *path = lvn_path_home(a, text);
    return path ? parse_text(path, a, out) : LVN_MEMORY;
}

/* Parse the next name of a list, with brackets only in quotes; false: it is not a name. */
static bool next_name(const char **at, const char **name, int *n)
{
    static const char separators[] = " \t\r\n,", brackets[] = "[](){}'\"", quotes[] = "'\"";
    const char quote = **at == '\'' || **at == '"' ? *(*at)++ : '\0';
    *name = *at;
    *n = (int)strcspn(*at, separators);
    if (*n > (int)strcspn(*at, quote ? quotes : brackets)) *n = (int)strcspn(*at, quote ? quotes : brackets);
    *at += *n;
    bool closed = !quote || **at == quote;
    if (quote && closed) ++*at;
    return closed && *n > 0 && (!**at || **at == ']' || strchr(separators, **at));
}

/* "[a, 'b']", "a, b", "a b" or "a,b" into "a, b". */
static enum lvn_status parse_list(const struct lvn_option *o, const char *text, struct lvn_arena *a, const char **out)
{
    static const char blanks[] = " \t\r\n";
    const char *p = text + strspn(text, blanks), *name;
    LVN_LOCAL_TEXT(list);
    bool nothing = is_neutral(text) && strcasecmp(text, "auto"), open = *p == '[', good = true;
    int n;
    p += open;
    for (p += strspn(p, blanks); good && !nothing && *p && *p != ']';) {
        good = next_name(&p, &name, &n);
        if (good) lvn_text_printf(&list, "%s%.*s", list.n ? ", " : "", n, name);
        p += strspn(p, blanks);
        if (*p == ',') p += 1 + strspn(p + 1, blanks);
    }
    if (open && !nothing && *p == ']')
        p += 1 + strspn(p + 1, blanks);
    else if (open)
        good = false;
    enum lvn_status status = lvn_text_status(&list);
    char *copy = status == LVN_OK ? lvn_arena_strdup(a, list.p ? list.p : "") : NULL;
    if (!copy) return LVN_MEMORY;
    LVN_CHECK(nothing || (good && !*p), ARG, "%s must be names separated by commas, as [a, b], got '%.60s'", o->key,
              text);
    *out = copy;
    return LVN_OK;
}

static enum lvn_status parse_maps(const struct lvn_option *o, const char *text, struct lvn_arena *a, const char **out)
{
    LVN_LOCAL_TEXT(maps);
    LVN_TRY(lvn_maps_parse(o, text, &maps));
    *out = lvn_arena_strdup(a, maps.p ? maps.p : "");
    return *out ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status parse_texts(const struct lvn_option *o, const char *text, struct lvn_arena *a,
                                   struct lvn_texts *out)
{
    LVN_CHECK(*text, ARG, "%s must not be empty", o->key);
    const char **grown = lvn_arena_alloc(a, sizeof *grown * (size_t)(out->n + 1));
    if (!grown) return LVN_MEMORY;
    if (out->n) memcpy(grown, out->text, sizeof *grown * (size_t)out->n);
    LVN_TRY(parse_text(text, a, &grown[out->n]));
    *out = (struct lvn_texts){grown, out->n + 1};
    return LVN_OK;
}

/* Seconds; 90s, 10m, 2h, 1d and combinations (1h30m); MM:SS, HH:MM:SS, DD:HH:MM:SS. */
static bool seconds(const char *text, double *out)
{
    static const double unit[] = {1, 60, 3600, 86400};
    double total = 0, value;
    if (number(text, out)) return *out >= 0;
    if (strchr(text, ':')) {
        int places = 0;
        for (const char *p = text; *p; p++) places += *p == ':';
        if (places > 3) return false;
        for (; places >= 0; places--) {
            char *end;
            if (*text < '0' || *text > '9') return false;
            value = strtod(text, &end);
            if (*end != (places ? ':' : '\0')) return false;
            total += value * unit[places];
            text = end + 1;
        }
    } else {
        while (*text) {
            char *end;
            if ((*text < '0' || *text > '9') && *text != '.') return false;
            value = strtod(text, &end);
            const char *letter = *end ? strchr("smhd", *end) : NULL;
            if (end == text || !letter) return false;
            total += value * unit[letter - "smhd"];
            text = end + 1;
        }
    }
    *out = total;
    return isfinite(total);
}

static enum lvn_status parse_time(const struct lvn_option *o, const char *text, double *out)
{
    if (is_neutral(text)) {
        LVN_TRY(check_word(o, text));
        *out = 0;
    } else {
        LVN_CHECK(*text && seconds(text, out), ARG, "%s must be a time like 90s, 10m, 2h or 00:12:00:00, got '%.60s'",
                  o->key, text);
    }
    LVN_CHECK(*out >= o->min, ARG, "%s must be at least %.15g s, got %.60s", o->key, o->min, text);
    return LVN_OK;
}

static enum lvn_status parse_amount(const struct lvn_option *o, const char *text, struct lvn_amount *out)
{
    double real = 0;
    char word[LVN_VALUE_TEXT];
    LVN_CHECK(lvn_fit(word, sizeof word, "%s", text), ARG,
              "%s must be a count (250) or a fraction (1.0, 0.25), got '%.60s...'", o->key, text);
    char *space = strchr(word, ' ');
    bool whole = all_digits(word); /* before "epochs" is removed */
    if (space && (!strcmp(space, " epoch") || !strcmp(space, " epochs"))) *space = '\0';
    *out = (struct lvn_amount){0, 0};
    if (is_neutral(text)) return check_word(o, text);
    if (!strcasecmp(text, "all")) {
        out->fraction = 1;
        return LVN_OK;
    }
    LVN_CHECK(number(word, &real) && real >= 0, ARG, "%s must be a count (250) or a fraction (1.0, 0.25), got '%.60s'",
              o->key, text);
    /* 1e2 is a count, as elsewhere, but 1e0 is 1.0, as programs write it */
    whole = whole || (!space && strpbrk(word, "eE") && real > 1 && real == floor(real));
    if (whole) {
        LVN_CHECK(real <= 1e15, ARG, "%s is too large: %.60s", o->key, text);
        out->count = (int64_t)real;
    } else {
        out->fraction = real;
    }
    return LVN_OK;
}

enum lvn_status lvn_option_parse(const struct lvn_option *o, const char *text, void *field, struct lvn_arena *a)
{
    switch (o->kind) {
    case LVN_KIND_INT:
        return parse_int(o, text, field);
    case LVN_KIND_REAL:
        return parse_real(o, text, field);
    case LVN_KIND_PAIR:
        return parse_pair(o, text, field);
    case LVN_KIND_BOOL:
        return parse_bool(o, text, field);
    case LVN_KIND_CHOICE:
    case LVN_KIND_WORD:
        return parse_choice(o, text, field);
    case LVN_KIND_TEXT:
        return parse_text(text, a, field);
    case LVN_KIND_PATH:
        return parse_path(text, a, field);
    case LVN_KIND_LIST:
        return parse_list(o, text, a, field);
    case LVN_KIND_MAPS:
        return parse_maps(o, text, a, field);
    case LVN_KIND_TIME:
        return parse_time(o, text, field);
    case LVN_KIND_AMOUNT:
        return parse_amount(o, text, field);
    case LVN_KIND_TEXTS:
        return parse_texts(o, text, a, field);
    }
    LVN_FAIL(INTERNAL, "%s has no kind", o->key);
}

/* 30, 0.001, 1e-30: the shortest text that parses to the same value; exponents only for very small or large values. */
static void write_real(double x, bool point, char text[LVN_NUMBER_TEXT])
{
    const bool whole = fabs(x) < 1e7 && x == floor(x);
    lvn_shortest_text(x, 1, text);
    if (whole) snprintf(text, LVN_NUMBER_TEXT, "%.0f", x);
    size_t n = strlen(text);
    if (point && !strpbrk(text, ".e")) memcpy(text + n, ".0", 3);
}

const char *lvn_option_text(const struct lvn_option *o, const void *field, char text[LVN_VALUE_TEXT])
{
    const double *real = field;
    const struct lvn_amount *amount = field;
    char first[LVN_NUMBER_TEXT], second[LVN_NUMBER_TEXT];
    switch (o->kind) {
    case LVN_KIND_INT:
        if (!strcmp(o->default_text, "auto") && *(const int64_t *)field == o->automatic) return "auto";
        if (lvn_option_is_switch(o) && !*(const int64_t *)field) return "false";
        snprintf(text, LVN_VALUE_TEXT, "%" PRId64, *(const int64_t *)field);
        break;
    case LVN_KIND_REAL:
    case LVN_KIND_TIME:
        write_real(*real, false, text);
        break;
    case LVN_KIND_PAIR:
        write_real(real[0], false, first);
        write_real(real[1], false, second);
        snprintf(text, LVN_VALUE_TEXT, "[%s, %s]", first, second);
        break;
    case LVN_KIND_BOOL:
        return *(const bool *)field ? "true" : "false";
    case LVN_KIND_CHOICE:
        return o->choices[*(const unsigned *)field];
    case LVN_KIND_WORD:
    case LVN_KIND_TEXT:
    case LVN_KIND_PATH:
    case LVN_KIND_LIST:
    case LVN_KIND_MAPS:
        return *(const char *const *)field;
    case LVN_KIND_AMOUNT:
        if (amount->fraction > 0) {
            write_real(amount->fraction, true, text);
        } else {
            snprintf(text, LVN_VALUE_TEXT, "%" PRId64, amount->count);
        }
        break;
    case LVN_KIND_TEXTS: /* no key of recipes is one */
        return "";
    }
    return text;
}

void lvn_option_yaml(struct lvn_text *t, const struct lvn_option *o, const char *value)
{
    if (o->kind == LVN_KIND_TEXT || o->kind == LVN_KIND_PATH) {
        lvn_yaml_add_scalar(t, value);
    } else if (o->kind == LVN_KIND_LIST) {
        struct lvn_text one = {0};
        lvn_text_add(t, "[");
        for (size_t n; *value; value += n + strspn(value + n, ", ")) {
            n = strcspn(value, ",");
            lvn_text_clear(&one);
            lvn_text_add_bytes(&one, value, (int64_t)n);
            if (one.p) lvn_yaml_add_scalar(t, one.p);
            if (value[n]) lvn_text_add(t, ", ");
        }
        lvn_text_add(t, "]");
        t->failed |= one.failed;
        lvn_text_release(&one);
    } else if (o->kind == LVN_KIND_MAPS && !*value) {
        lvn_text_add(t, "[]");
    } else {
        lvn_text_add(t, value);
    }
}
