/* class_labels.c - see class_labels.h. */
#include "data/class_labels.h"

#include "base/list.h"
#include "base/log.h"
#include "formats/json.h"
#include "tokenizers/unicode/unicode.h"

enum { SHOWN = 48, NUMBER_BYTES = 64, LISTED = 10, FEW_ROWS = 20 };

void lvn_class_labels_release(struct lvn_class_labels *c)
{
    lvn_arena_release(&c->arena);
    lvn_index_release(&c->index);
    lvn_text_release(&c->key);
    free(c->label);
    free(c->names);
    free(c->of_number);
    *c = (struct lvn_class_labels){0};
}

/* --- one label --- */

/* Bytes of the character at p if it is a space of any width, or invisible (U+200B, U+FEFF); else 0. */
static int blank(const char *p, const char *end)
{
    int bytes;
    const int32_t code = lvn_utf8_decode(p, end - p, &bytes);
    const bool wide = code > 0x9f && lvn_char((uint32_t)code)->char_class == LVN_CHAR_SPACE;
    return code == ' ' || code == '\t' || wide || code == 0x200b || code == 0xfeff ? bytes : 0;
}

static void trim(const char **p, int64_t *n)
{
    const char *end = *p + *n, *last;
    lvn_unicode_init();
    for (int k; *p < end && (k = blank(*p, end)); *p += k)
        ;
    for (; *p < end; end = last) {
        for (last = end - 1; last > *p && ((unsigned char)*last & 0xc0) == 0x80;) last--;
        if (blank(last, end) != end - last) break;
    }
    *n = end - *p;
}

bool lvn_class_labels_number(const char *p, int64_t n, double *out)
{
    char text[NUMBER_BYTES], *end;
    trim(&p, &n);
    if (!n || n >= NUMBER_BYTES) return false;
    memcpy(text, p, (size_t)n);
    text[n] = '\0';
    if (text[strspn(text, "0123456789+-.eE")]) return false; /* strtod() reads nan, inf and hexadecimal numbers, too */
    *out = strtod(text, &end);
    return !*end && isfinite(*out);
}

/* Is the number a code, such as 007 or -1e3? Codes are words, so 007 and 7 are different classes. 1e+03 is no code,
 * because programs write it for 1000. */
static bool is_code(const char *p, int64_t n)
{
    int64_t digits = 0;
    if (n && (*p == '-' || *p == '+')) p++, n--;
    while (digits < n && p[digits] >= '0' && p[digits] <= '9') digits++;
    return digits && ((*p == '0' && digits > 1) ||
                      (digits + 1 < n && (p[digits] | 0x20) == 'e' && p[digits + 1] >= '0' && p[digits + 1] <= '9'));
}

enum kind { WORD, WHOLE, FRACTION, EMPTY, CONTROL };

static bool has_control(const char *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if (c < ' ' || c == 0x7f) return true;
        if (c == 0xc2 && i + 1 < n && (unsigned char)p[i + 1] < 0xa0) return true; /* U+0080 to U+009F */
    }
    return false;
}

/* Set c->key to the label's name: without spaces around it, composed (NFC), a whole number in its shortest form. */
static enum lvn_status read_label(struct lvn_class_labels *c, const char *p, int64_t n, enum kind *kind, double *number)
{
    const double exact = 9007199254740992.0; /* 2^53: different digits from here on may be read as one number */
    trim(&p, &n);
    *kind = !n ? EMPTY : has_control(p, n) ? CONTROL : WORD;
    lvn_text_clear(&c->key);
    if (*kind == WORD && lvn_class_labels_number(p, n, number)) {
        if (*number != floor(*number)) *kind = FRACTION;
        if (*kind == WORD && fabs(*number) < exact && !is_code(p, n)) *kind = WHOLE;
        c->codes |= *kind == WORD && is_code(p, n);
    }
    if (*kind == WHOLE)
        lvn_text_printf(&c->key, "%" PRId64, (int64_t)*number);
    else
        lvn_unicode_normalize(LVN_NFC, (const uint8_t *)p, n, &c->key);
    lvn_text_add_bytes(&c->key, "", 0); /* an empty key is "", not NULL */
    return lvn_text_status(&c->key);
}

/* A label in a message: its beginning, without controls. */
static const char *shown(const char *name, char text[SHOWN])
{
    size_t n = strlen(name), limit = SHOWN - 4;
    if (n > limit)
        for (n = limit; n && ((unsigned char)name[n] & 0xc0) == 0x80;) n--;
    snprintf(text, SHOWN, "%.*s%s", (int)n, name, name[n] ? "..." : "");
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
    return text;
}

/* --- the classes --- */

/* Give the classes their names, in the order of c->label. */
static enum lvn_status set_names(struct lvn_class_labels *c)
{
    lvn_index_release(&c->index);
    c->names = lvn_malloc(sizeof *c->names * (size_t)c->n);
    if (!c->names) return LVN_MEMORY;
    for (int64_t k = 0; k < c->n; k++) {
        double number;
        enum kind kind;
        c->names[k] = c->label[k].name;
        LVN_TRY(read_label(c, c->names[k], (int64_t)strlen(c->names[k]), &kind, &number));
        c->names_are_numbers |= kind == WHOLE;
        const char *key = lvn_arena_strdup(&c->arena, c->key.n ? c->key.p : "");
        if (!key || !lvn_index_add(&c->index, key, (int)k)) return LVN_MEMORY;
    }
    return LVN_OK;
}

static enum lvn_status append(struct lvn_class_labels *c, const char *name, struct lvn_class_label **out)
{
    if (!lvn_list_reserve(&c->label, &c->capacity, c->n_labels + 1, sizeof *c->label)) return LVN_MEMORY;
    *out = &c->label[c->n_labels];
    **out = (struct lvn_class_label){.name = lvn_arena_strdup(&c->arena, name)};
    if (!(*out)->name || !lvn_index_add(&c->index, (*out)->name, (int)c->n_labels)) return LVN_MEMORY;
    c->n_labels++;
    return LVN_OK;
}

enum lvn_status lvn_class_labels_of_model(struct lvn_class_labels *c, int64_t n, const char *names)
{
    struct lvn_class_label *one;
    c->n = n;
    for (int64_t k = 0; names && k < n; k++, names += strlen(names) + 1) LVN_TRY(append(c, names, &one));
    return names ? set_names(c) : LVN_OK;
}

/* The class of a name that a file gives to a number; -1: none. */
static enum lvn_status find_name(struct lvn_class_labels *c, const char *name, int *found)
{
    enum kind kind;
    double number;
    LVN_TRY(read_label(c, name, (int64_t)strlen(name), &kind, &number));
    const int *same = lvn_index_find(&c->index, c->key.p);
    *found = same ? *same : -1;
    for (int64_t k = 0; k < c->n && *found < 0; k++)
        if (!strcasecmp(c->names[k], c->key.p)) *found = (int)k;
    return LVN_OK;
}

/* Set *good: are these at least two names, all different, none of them empty or with a control character? */
static enum lvn_status check_names(struct lvn_class_labels *c, const json_t *names, bool *good)
{
    struct lvn_index seen = {0};
    const size_t n = json_array_size(names);
    const bool codes = c->codes; /* of labels; read_label() also sets it for names */
    enum lvn_status status = LVN_OK;
    *good = n > 1 && n <= LVN_CLASSES_MAX;
    for (size_t k = 0; k < n && *good && status == LVN_OK; k++) {
        const char *name = json_string_value(json_array_get(names, k)), *key = NULL;
        enum kind kind = EMPTY;
        double number;
        if (name) status = read_label(c, name, (int64_t)strlen(name), &kind, &number);
        if (status == LVN_OK && !(key = lvn_arena_strdup(&c->arena, c->key.p ? c->key.p : ""))) status = LVN_MEMORY;
        *good = status == LVN_OK && name && kind != EMPTY && kind != CONTROL && !lvn_index_find(&seen, key);
        if (*good && !lvn_index_add(&seen, key, 0)) status = LVN_MEMORY;
    }
    lvn_index_release(&seen);
    c->codes = codes;
    return status;
}

static void list_classes(const struct lvn_class_labels *c, char *text, size_t capacity);

static enum lvn_status use_names(struct lvn_class_labels *c, const char *path, const json_t *names)
{
    char list[240], x[SHOWN];
    struct lvn_class_label *one;
    const size_t n = json_array_size(names);
    const bool first = !c->n;
    for (size_t k = 0; first && k < n; k++) LVN_TRY(append(c, json_string_value(json_array_get(names, k)), &one));
    if (first) {
        c->n = c->n_labels;
        c->source = path;
        c->counted = true;
        LVN_TRY(set_names(c));
    }
    if (!c->names) return LVN_OK; /* the numbers count the classes */
    list_classes(c, list, sizeof list);
    if (first) lvn_log(LVN_LOG_INFO, "'%s' names its %zu classes, from 0: %s", path, n, list);
    c->of_number = lvn_malloc(sizeof *c->of_number * n);
    if (!c->of_number) return LVN_MEMORY;
    for (c->n_numbers = 0; c->n_numbers < (int64_t)n; c->n_numbers++) {
        const char *name = json_string_value(json_array_get(names, (size_t)c->n_numbers));
        LVN_TRY(find_name(c, name, &c->of_number[c->n_numbers]));
        if (c->of_number[c->n_numbers] >= 0) continue;
        lvn_log(LVN_LOG_WARN,
                "'%s' names class %" PRId64 " '%s', which is not a class of the model (%s): the numbers of the file "
                "are used as indices of the model's classes; check that the order is the same",
                path, c->n_numbers, shown(name, x), list);
        c->n_numbers = 0;
        return LVN_OK;
    }
    return LVN_OK;
}

enum lvn_status lvn_class_labels_of_features(struct lvn_class_labels *c, const char *path, const char *features,
                                             const char *column)
{
    json_t *root;
    bool good;
    free(c->of_number);
    c->of_number = NULL;
    c->n_numbers = 0;
    if (!features) return LVN_OK;
    enum lvn_status status = lvn_json_parse(path, features, (int64_t)strlen(features), &root);
    if (status == LVN_FORMAT) lvn_error_clear();
    if (status != LVN_OK) return status == LVN_FORMAT ? LVN_OK : status;
    const json_t *all = json_object_get(json_object_get(root, "info"), "features"),
                 *names = json_object_get(json_object_get(all, column), "names");
    status = check_names(c, names, &good);
    if (status == LVN_OK && good) status = use_names(c, path, names);
    json_decref(root);
    return status;
}

enum lvn_status lvn_class_labels_add(struct lvn_class_labels *c, const char *p, int64_t n)
{
    struct lvn_class_label *one;
    enum kind kind;
    double number = 0.0;
    LVN_TRY(read_label(c, p, n, &kind, &number));
    if (kind != WORD && kind != WHOLE) return LVN_OK;
    const int *known = lvn_index_find(&c->index, c->key.p);
    if (!known && c->n_labels > LVN_CLASSES_MAX) return LVN_OK; /* too many, as the end of the file reports */
    if (!known) {
        LVN_TRY(append(c, c->key.p, &one));
        one->is_number = kind == WHOLE;
        one->number = number;
    }
    c->label[known ? *known : c->n_labels - 1].rows++;
    return LVN_OK;
}

static int by_number(const void *a, const void *b)
{
    const double x = ((const struct lvn_class_label *)a)->number, y = ((const struct lvn_class_label *)b)->number;
    return x < y ? -1 : x > y;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lvn_class_label *)a)->name, ((const struct lvn_class_label *)b)->name);
}

/* Warn of classes without rows: gaps between numbers are mostly mistakes. */
static void warn_gaps(const struct lvn_class_labels *c)
{
    int64_t missing = c->n, first = 0;
    for (int64_t i = 0; i < c->n_labels; i++) missing -= c->label[i].number < (double)c->n;
    while (first < c->n_labels && c->label[first].number == (double)first) first++;
    if (missing && c->n_labels)
        lvn_log(LVN_LOG_WARN,
                "'%s': no row has the label %" PRId64 "%s of the classes 0 to %" PRId64
                ": classes are counted from 0, so check the labels",
                c->source, first, missing > 1 ? " (and others)" : "", c->n - 1);
}

/* Classes that are counted from 0; numbers that are too large for a class are wrong labels. */
static void count_from_0(struct lvn_class_labels *c)
{
    c->n = 2;
    for (int64_t i = 0; i < c->n_labels; i++)
        if (c->label[i].number < LVN_CLASSES_MAX && c->label[i].number >= (double)c->n)
            c->n = (int64_t)c->label[i].number + 1;
    warn_gaps(c);
}

/* Note names that differ in case alone. */
static enum lvn_status note_cases(const struct lvn_class_labels *c)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(low);
    struct lvn_index seen = {0};
    enum lvn_status status = LVN_OK;
    char x[SHOWN], y[SHOWN], utf8[4];
    for (int64_t k = 0; k < c->n && status == LVN_OK; k++) {
        lvn_text_clear(&low);
        int used;
        for (const char *p = c->names[k], *end = p + strlen(p); p < end; p += used) {
            const int32_t code = lvn_utf8_decode(p, end - p, &used);
            uint32_t lower[2];
            const int n = lvn_unicode_lower((uint32_t)code, lower);
            for (int i = 0; i < (n ? n : 1); i++)
                lvn_text_add_bytes(&low, utf8, lvn_utf8_encode(n ? (int32_t)lower[i] : code, utf8));
        }
        const char *name = lvn_text_string(&low);
        const int *first = name ? lvn_index_find(&seen, name) : NULL;
        if (first)
            lvn_log(LVN_LOG_WARN, "'%s': the labels '%s' and '%s' differ only in case, and are two classes", c->source,
                    shown(c->names[*first], x), shown(c->names[k], y));
        else if (!name || !(name = lvn_arena_strdup(&a, name)) || !lvn_index_add(&seen, name, (int)k))
            status = LVN_MEMORY;
    }
    lvn_index_release(&seen);
    return status;
}

static enum lvn_status name_classes(struct lvn_class_labels *c, int64_t rows)
{
    LVN_LOCAL_TEXT(list);
    char x[SHOWN];
    c->n = c->n_labels;
    LVN_CHECK(c->n > 1, FORMAT,
              "'%s': all rows have the label '%s'; a classifier needs rows of at least two classes, in the column that "
              "data.label_column names",
              c->source, shown(c->label[0].name, x));
    LVN_CHECK(c->n < rows || rows < FEW_ROWS, FORMAT,
              "'%s': each of the %" PRId64
              " rows has a different label, such as '%s': name the column of the class with "
              "data.label_column%s",
              c->source, rows, shown(c->label[0].name, x),
              c->label[0].is_number ? ", or learn the numbers with task.kind=regress" : "");
    LVN_TRY(set_names(c));
    for (int64_t k = 0; k < c->n && k < LISTED; k++)
        lvn_text_printf(&list, "%sclass %" PRId64 " is the label %s (%" PRId64 " row%s)", k ? ", " : "", k,
                        shown(c->names[k], x), c->label[k].rows, c->label[k].rows == 1 ? "" : "s");
    if (c->n > LISTED) lvn_text_printf(&list, " and %" PRId64 " more", c->n - LISTED);
    const char *text = lvn_text_string(&list);
    if (!text) return LVN_MEMORY;
    lvn_log(LVN_LOG_INFO, "'%s' has %" PRId64 " classes: %s", c->source, c->n, text);
    return note_cases(c);
}

enum lvn_status lvn_class_labels_end(struct lvn_class_labels *c, const char *path)
{
    int64_t rows = 0, of_numbers = 0, kept = 0;
    double min = INFINITY;
    char x[SHOWN];
    c->source = path;
    LVN_CHECK(
        c->n_labels <= LVN_CLASSES_MAX, FORMAT,
        "'%s' has more than %d different labels, as '%s': name the column of the class with data.label_column, or "
        "learn numbers with task.kind=regress",
        path, LVN_CLASSES_MAX, shown(c->label[0].name, x));
    for (int64_t i = 0; i < c->n_labels; i++) {
        rows += c->label[i].rows;
        if (c->label[i].is_number) of_numbers += c->label[i].rows;
    }
    const bool numbers = 2 * of_numbers >= rows && !c->codes;
    if (numbers) rows = of_numbers;
    for (int64_t i = 0; i < c->n_labels; i++) {
        if (numbers && !c->label[i].is_number) continue;
        if (c->label[i].is_number) min = fmin(min, c->label[i].number);
        c->label[kept++] = c->label[i];
    }
    c->n_labels = kept;
    if (kept) qsort(c->label, (size_t)kept, sizeof *c->label, numbers ? by_number : by_name);
    if (!numbers || (kept > 1 && min != 0.0)) return name_classes(c, rows);
    if (kept == 1 && (min < 0.0 || min >= LVN_CLASSES_MAX)) return name_classes(c, rows); /* which refuses one class */
    count_from_0(c);
    if (kept == rows && rows >= FEW_ROWS)
        lvn_log(LVN_LOG_WARN, "'%s': each row has a different label: to learn numbers, set task.kind=regress", path);
    return LVN_OK;
}

/* --- the class of a label --- */

/* The classes, in a message. */
static void list_classes(const struct lvn_class_labels *c, char *text, size_t capacity)
{
    char x[SHOWN];
    text[0] = '\0';
    if (!c->names) lvn_print_append(text, capacity, "0 to %" PRId64, c->n - 1);
    for (int64_t k = 0; c->names && k < c->n && k < 4; k++)
        lvn_print_append(text, capacity, "%s'%s'", k ? ", " : "", shown(c->names[k], x));
    if (c->names && c->n > 4) lvn_print_append(text, capacity, " and %" PRId64 " more", c->n - 4);
}

static void explain(const struct lvn_class_labels *c, enum kind kind, double number, char *why, size_t capacity)
{
    char x[SHOWN], list[240];
    const char *label = shown(c->key.n ? c->key.p : "", x);
    list_classes(c, list, sizeof list);
    if (kind == EMPTY)
        snprintf(why, capacity, "the label is empty");
    else if (kind == CONTROL)
        snprintf(why, capacity, "the label '%s' holds a line end or a control character", label);
    else if (kind == FRACTION)
        snprintf(why, capacity,
                 "the label is %s, and a class is a word or a whole number; to learn numbers, set task.kind=regress",
                 label);
    else if (kind == WHOLE && !c->names && number >= LVN_CLASSES_MAX)
        snprintf(why, capacity,
                 "the label is %s; the classes are the whole numbers %s, and there may be %d; to learn numbers, set "
                 "task.kind=regress",
                 label, list, LVN_CLASSES_MAX);
    else if (kind == WHOLE && number == -1.0)
        snprintf(why, capacity,
                 "the label is -1, with which data sets mark rows without a label, as in their test data; the classes "
                 "are %s",
                 list);
    else if (c->source)
        snprintf(why, capacity, "the label is '%s'; the classes, from '%s', are %s", label, c->source, list);
    else
        snprintf(why, capacity,
                 kind == WHOLE ? "the label is %s; the model knows %s" : "the label is '%s'; the model knows %s", label,
                 list);
}

/* The class of a model without names that has its usual name, LABEL_1; -1: none. */
static int64_t default_name(const struct lvn_class_labels *c)
{
    double number;
    if (c->names || c->source || strncmp(c->key.p, "LABEL_", 6) != 0 ||
        !lvn_class_labels_number(c->key.p + 6, c->key.n - 6, &number) || number != floor(number))
        return -1;
    return number >= 0.0 && number < (double)c->n ? (int64_t)number : -1;
}

enum lvn_status lvn_class_labels_find(struct lvn_class_labels *c, const char *p, int64_t n, int64_t *found, char *why,
                                      size_t capacity)
{
    enum kind kind;
    double number = -1.0;
    LVN_TRY(read_label(c, p, n, &kind, &number));
    if (kind == WORD && !c->names && is_code(c->key.p, c->key.n) &&
        lvn_class_labels_number(c->key.p, c->key.n, &number) && number == floor(number))
        kind = WHOLE; /* the classes have no names, so 03 is class 3 */
    *found = kind == WHOLE && number >= 0.0 && number < (double)c->n_numbers ? c->of_number[(int64_t)number] : -1;
    if (*found >= 0) return LVN_OK;
    const int *named = c->names && kind != EMPTY ? lvn_index_find(&c->index, c->key.p) : NULL;
    *found = named ? *named : -1;
    if (named) return LVN_OK;
    if (kind == WHOLE && number >= 0.0 && number < (double)c->n && !c->names_are_numbers &&
        (!c->names || !c->source || c->counted)) {
        *found = (int64_t)number;
        c->numbered = c->names && !c->source;
    } else if (kind == WORD) {
        *found = default_name(c);
    }
    if (*found < 0) explain(c, kind, number, why, capacity);
    return LVN_OK;
}
