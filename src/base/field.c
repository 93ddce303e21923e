/* field.c - see field.h. */
#include "base/field.h"

#include "base/arena.h"
#include "base/text.h"

bool lvn_label_is_integer(enum lvn_label_kind kind)
{
    return kind == LVN_LABEL_TOKEN || kind == LVN_LABEL_CLASS || kind == LVN_LABEL_TOKEN_CLASS;
}

int64_t lvn_field_count(const struct lvn_field *field)
{
    int64_t n = 1;
    for (int i = 0; i < field->rank; i++) n *= field->dim[i];
    return n;
}

int64_t lvn_field_bytes(const struct lvn_field *field)
{
    return lvn_field_count(field) * lvn_dtype_bytes(field->dtype);
}

int64_t lvn_fields_bytes(const struct lvn_fields *fields)
{
    int64_t bytes = 0;
    for (int k = 0; k < fields->n; k++) bytes += lvn_field_bytes(&fields->field[k]);
    return bytes;
}

int64_t lvn_fields_length(const struct lvn_fields *fields)
{
    for (int k = 0; k < fields->n; k++)
        if (fields->field[k].ragged) return fields->field[k].dim[0];
    return 0;
}

int lvn_fields_lengths(const struct lvn_fields *fields, int64_t length[LVN_LENGTHS])
{
    enum { MIN = 8, EVEN = 64 };
    const int64_t longest = lvn_fields_length(fields);
    int n = 0;
    for (int64_t T = MIN, step = MIN; T < longest && n < LVN_LENGTHS - 1; T += step) {
        length[n++] = T;
        if (T >= EVEN && (T & (T - 1)) == 0) step = T / 4;
    }
    if (longest) length[n++] = longest;
    return n;
}

int lvn_length_find(const int64_t *length, int n, int64_t count)
{
    int i = 0;
    while (i < n - 1 && length[i] < count) i++;
    return i;
}

void lvn_fields_set_length(struct lvn_fields *fields, int64_t length)
{
    for (int k = 0; k < fields->n; k++)
        if (fields->field[k].ragged) fields->field[k].dim[0] = length;
}

struct lvn_desc lvn_field_desc(const struct lvn_field *field, int64_t B)
{
    int64_t dim[LVN_MAX_RANK] = {B};
    for (int i = 0; i < field->rank; i++) dim[i + 1] = field->dim[i];
    return lvn_desc_make(field->dtype, field->rank + 1, dim);
}

int lvn_fields_find(const struct lvn_fields *fields, const char *name)
{
    for (int i = 0; i < fields->n; i++)
        if (strcmp(fields->field[i].name, name) == 0) return i;
    return -1;
}

/* --- matching --- */

/* "'pixels' (784) of uint8", "'ids' (any) of int32", "'label' of int32" */
enum { FIELD_TEXT = 128 };
static const char *describe(const struct lvn_field *field, char text[FIELD_TEXT])
{
    snprintf(text, FIELD_TEXT, "'%.40s'", field->name);
    for (int i = 0; i < field->rank; i++) {
        const char *before = i ? ", " : " (";
        if (field->dim[i])
            lvn_print_append(text, FIELD_TEXT, "%s%lld", before, (long long)field->dim[i]);
        else
            lvn_print_append(text, FIELD_TEXT, "%sany", before);
    }
    lvn_print_append(text, FIELD_TEXT, "%s of %s", field->rank ? ")" : "", lvn_dtype_name(field->dtype));
    return text;
}

static bool matches(const struct lvn_field *have, const struct lvn_field *required)
{
    if (have->dtype != required->dtype || have->rank != required->rank) return false;
    for (int i = 0; i < have->rank; i++)
        if (required->dim[i] && required->dim[i] != have->dim[i]) return false;
    return true;
}

enum lvn_status lvn_fields_check(const struct lvn_fields *fields, const char *has, const struct lvn_field *required,
                                 const char *requires)
{
    char want[FIELD_TEXT], have[FIELD_TEXT], list[LVN_MAX_FIELDS * FIELD_TEXT] = "";
    int k = lvn_fields_find(fields, required->name);
    for (int i = 0; i < fields->n; i++)
        lvn_print_append(list, sizeof list, "%s%s", i ? ", " : "", describe(&fields->field[i], have));
    LVN_CHECK(k >= 0, ARG, "%s the field %s, but %s only %s: use another model or other data", requires,
              describe(required, want), has, list);
    LVN_CHECK(matches(&fields->field[k], required), ARG, "%s the field %s, but %s %s: use another model or other data",
              requires, describe(required, want), has, describe(&fields->field[k], have));
    LVN_CHECK(!required->below || fields->field[k].below <= required->below, ARG,
              "%s the field %s with values below %lld, but %s values up to %lld", requires, describe(required, want),
              (long long)required->below, has, (long long)fields->field[k].below - 1);
    return LVN_OK;
}

/* --- batches --- */

enum lvn_status lvn_samples_init(struct lvn_samples *samples, const struct lvn_fields *fields, int64_t rows)
{
    *samples = (struct lvn_samples){.fields = *fields, .rows = rows, .n_valid = rows};
    for (int k = 0; k < fields->n; k++) {
        samples->p[k] = lvn_calloc((size_t)rows, (size_t)lvn_field_bytes(&fields->field[k]));
        if (samples->p[k]) continue;
        lvn_samples_release(samples);
        return LVN_MEMORY;
    }
    return LVN_OK;
}

void lvn_samples_release(struct lvn_samples *samples)
{
    for (int k = 0; k < samples->fields.n; k++) free(samples->p[k]);
    *samples = (struct lvn_samples){0};
}

void *lvn_samples_at(const struct lvn_samples *samples, int k, int64_t row)
{
    return (char *)samples->p[k] + row * lvn_field_bytes(&samples->fields.field[k]);
}

void lvn_samples_pad(struct lvn_samples *samples, int64_t row)
{
    for (int k = 0; k < samples->fields.n; k++) {
        const struct lvn_field *field = &samples->fields.field[k];
        memset(lvn_samples_at(samples, k, row), lvn_label_is_integer(field->label) ? 0xff : 0,
               (size_t)lvn_field_bytes(field));
    }
}
