/* show_batch.c - see show_batch.h. The samples come from the loader, as in training; nothing here depends on the kind
 * of the data. */
#include "cli/show_batch.h"

#include <unistd.h>

#include "cli/humanize.h"
#include "setup/setup.h"
#include "train/limits.h"

enum { ROWS = 4, VALUES = 8 };

struct shown {
    struct lvn_cli *c;
    const struct lvn_model_setup *m;
    struct lvn_codec codec;
    const struct lvn_samples *b;
    int ids, labels, segments, length; /* indices of these fields; -1: none */
    const char *dim, *plain;           /* what encloses tokens without a label */
    const char *dim_id, *plain_id;
};

static const int32_t *integers(const struct shown *s, int field, int64_t row)
{
    return field < 0 ? NULL : lvn_samples_at(s->b, field, row);
}

/* Tokens of a row without its padding, which has id 0 and no label. */
static int64_t tokens_of(const struct shown *s, int64_t row)
{
    const int32_t *ids = integers(s, s->ids, row), *labels = integers(s, s->labels, row);
    int64_t n = lvn_field_count(&s->b->fields.field[s->ids]);
    if (s->length >= 0) return *integers(s, s->length, row);
    while (labels && n > 1 && !ids[n - 1] && labels[n - 1] < 0 && labels[n - 2] < 0) n--;
    return n;
}

/* Is token t learned: as the label of the token before it, or, if tokens are hidden, as its own label? */
static bool is_learned(const struct shown *s, const int32_t *labels, int64_t t)
{
    if (!labels) return true; /* the label is not a token */
    if (s->m->task->masks) return labels[t] >= 0;
    return t > 0 && labels[t - 1] >= 0;
}

static void print_text(const struct shown *s, const int32_t *ids, const int32_t *labels, int64_t n)
{
    struct lvn_codec_stream stream = {.started = true};
    LVN_LOCAL_TEXT(text);
    bool learned = true;
    printf("  text: ");
    for (int64_t t = 0; t < n; t++) {
        const bool now = is_learned(s, labels, t);
        if (now != learned) fputs(now ? s->plain : s->dim, stdout);
        learned = now;
        lvn_text_clear(&text);
        lvn_codec_decode(&s->codec, &stream, ids[t], &text);
        for (const char *p = text.n ? text.p : "", *end; *p; p = end) { /* indents the lines of the text */
            char line[256];
            const size_t most = strcspn(p, "\n") < sizeof line - 1 ? strcspn(p, "\n") : sizeof line - 1;
            memcpy(line, p, most);
            line[most] = 0;
            lvn_cli_put(stdout, line);
            end = p + most;
            if (*end == '\n') fputs("\n        ", stdout);
            end += *end == '\n';
        }
    }
    fputs(learned ? "\n" : s->plain, stdout);
    if (!learned) fputs("\n", stdout);
}

static void print_ids(const struct shown *s, const int32_t *ids, const int32_t *labels, int64_t n)
{
    printf("  ids:");
    for (int64_t t = 0; t < n; t++) {
        const bool now = is_learned(s, labels, t);
        printf(" %s%" PRId32 "%s", now ? "" : s->dim_id, ids[t], now ? "" : s->plain_id);
    }
    printf("\n");
}

/* Value i of a field. An int32 is exact in a double. */
static double value_at(const struct lvn_field *f, const void *p, int64_t i)
{
    if (f->dtype == LVN_F32) return (double)((const float *)p)[i];
    return f->dtype == LVN_U8 ? ((const uint8_t *)p)[i] : ((const int32_t *)p)[i];
}

/* A field that is not text: its first values. */
static void print_field(const struct shown *s, const struct lvn_field *f, const void *p)
{
    const int64_t n = lvn_field_count(f);
    printf("  %s:", f->name);
    for (int64_t i = 0; i < n && i < VALUES; i++) printf(f->dtype == LVN_F32 ? " %g" : " %.0f", value_at(f, p, i));
    if (n > VALUES) printf(" ... (%" PRId64 " values)", n);
    const int64_t class = f->label == LVN_LABEL_CLASS ? *(const int32_t *)p : -1;
    const char *name = s->m->data->class_names ? s->m->data->class_names[class < 0 ? 0 : class] : NULL;
    if (class >= 0 && name) fputs(" (", stdout), lvn_cli_put(stdout, name), fputs(")", stdout);
    printf("\n");
}

static void print_row(const struct shown *s, int64_t row)
{
    const struct lvn_fields *f = &s->b->fields;
    const int32_t *ids = integers(s, s->ids, row), *labels = integers(s, s->labels, row),
                  *segments = integers(s, s->segments, row);
    printf("row %" PRId64 ":", row + 1);
    if (ids) {
        const int64_t n = tokens_of(s, row), all = lvn_field_count(&f->field[s->ids]);
        int64_t learned = 0;
        for (int64_t t = 0; labels && t < all; t++) learned += labels[t] >= 0;
        printf(" %" PRId64 " token%s", n, lvn_plural(n));
        if (labels) printf(", %" PRId64 " label%s", learned, lvn_plural(learned));
        if (n < all) printf(", %" PRId64 " token%s of padding", all - n, lvn_plural(all - n));
        printf("\n");
        if (segments) printf("  documents begin at 0");
        for (int64_t t = 1; segments && t < n; t++)
            if (segments[t] == t) printf(", %" PRId64, t);
        if (segments) printf("\n");
        if (lvn_codec_is_text(&s->codec)) print_text(s, ids, labels, n);
        print_ids(s, ids, labels, n);
    } else {
        printf("\n");
    }
    for (int k = 0; k < f->n; k++)
        if (k != s->ids && k != s->labels && k != s->segments)
            print_field(s, &f->field[k], lvn_samples_at(s->b, k, row));
}

static json_t *as_json(const struct shown *s, int64_t row)
{
    json_t *object = json_object();
    for (int k = 0; k < s->b->fields.n; k++) {
        const struct lvn_field *f = &s->b->fields.field[k];
        const void *p = lvn_samples_at(s->b, k, row);
        json_t *values = json_array();
        for (int64_t i = 0; i < lvn_field_count(f); i++)
            json_array_append_new(values, f->dtype == LVN_F32 ? json_real(value_at(f, p, i))
                                                              : json_integer((json_int_t)value_at(f, p, i)));
        json_object_set_new(object, f->name, values);
    }
    return object;
}

static void print_batch(struct shown *s, int64_t rows)
{
    const char *term = getenv("TERM");
    const bool color = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !getenv("NO_COLOR");
    s->dim = s->dim_id = color ? "\x1b[2m" : "[-";
    s->plain = s->plain_id = color ? "\x1b[0m" : "-]";
    if (!color) s->dim_id = "(", s->plain_id = ")";
    printf("the first %" PRId64 " of %" PRId64 " rows of the first batch%s\n", rows,
           s->c->settings.values.trainer.batch_size,
           s->labels < 0 ? ""
           : color       ? "; dimmed tokens have no label"
                         : "; [-text-] and (ids) have no label");
    for (int64_t i = 0; i < rows; i++) print_row(s, i);
}

static enum lvn_status show(struct lvn_cli *c, const struct lvn_model_setup *m)
{
    struct lvn_loader loader;
    struct lvn_samples b;
    LVN_TRY(lvn_limits_loader(&loader, m->data, &c->settings));
    const int64_t rows = loader.batch_size < ROWS ? loader.batch_size : ROWS;
    enum lvn_status status = lvn_samples_init(&b, &m->fields, rows);
    if (status == LVN_OK) status = lvn_loader_batch(&loader, 0, 0, &b);
    const char *labels = m->task->label.label == LVN_LABEL_TOKEN ? m->task->label.name : "";
    struct shown s = {.c = c,
                      .m = m,
                      .codec = lvn_model_setup_codec(m),
                      .b = &b,
                      .ids = lvn_fields_find(&m->fields, "ids"),
                      .labels = lvn_fields_find(&m->fields, labels),
                      .segments = lvn_fields_find(&m->fields, LVN_SEGMENTS),
                      .length = lvn_fields_find(&m->fields, "length")};
    json_t *list = status == LVN_OK && c->json ? json_array() : NULL;
    for (int64_t i = 0; list && i < rows; i++) json_array_append_new(list, as_json(&s, i));
    if (list) lvn_cli_add(c, "rows", list);
    if (status == LVN_OK && !c->json) print_batch(&s, rows);
    lvn_samples_release(&b);
    return status;
}

enum lvn_status lvn_show_batch(struct lvn_cli *c)
{
    struct lvn_model_setup m;
    enum lvn_status status = lvn_model_setup_open(&m, &c->settings, NULL, NULL);
    if (status == LVN_OK) status = show(c, &m);
    lvn_model_setup_close(&m);
    return status;
}
