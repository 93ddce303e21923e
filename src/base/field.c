/* field.c - see field.h. */
#include "base/field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

bool lvn_label_is_integer(enum lvn_label_kind kind)
{
    return kind == LVN_LABEL_TOKEN || kind == LVN_LABEL_CLASS || kind == LVN_LABEL_TOKEN_CLASS;
}

int64_t lvn_field_count(const struct lvn_field *f)
{
    int64_t n = 1;
    for (int i = 0; i < f->rank; i++) n *= f->dim[i];
    return n;
}

int64_t lvn_field_bytes(const struct lvn_field *f)
{
    return lvn_field_count(f) * lvn_dtype_bytes(f->dtype);
}

int64_t lvn_fields_bytes(const struct lvn_fields *f)
{
    int64_t bytes = 0;
    for (int k = 0; k < f->n; k++) bytes += lvn_field_bytes(&f->field[k]);
    return bytes;
}

int64_t lvn_fields_length(const struct lvn_fields *f)
{
    for (int k = 0; k < f->n; k++)
        if (f->field[k].ragged) return f->field[k].dim[0];
    return 0;
}

int lvn_fields_lengths(const struct lvn_fields *f, int64_t length[LVN_LENGTHS])
{
    enum { MIN = 8, EVEN = 64 };
    const int64_t longest = lvn_fields_length(f);
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

void lvn_fields_set_length(struct lvn_fields *f, int64_t length)
{
    for (int k = 0; k < f->n; k++)
        if (f->field[k].ragged) f->field[k].dim[0] = length;
}

struct lvn_desc lvn_field_desc(const struct lvn_field *f, int64_t B)
{
    int64_t dim[LVN_MAX_RANK] = {B};
    for (int i = 0; i < f->rank; i++) dim[i + 1] = f->dim[i];
    return lvn_desc_make(f->dtype, f->rank + 1, dim);
}

int lvn_fields_find(const struct lvn_fields *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->field[i].name, name) == 0) return i;
    return -1;
}

/* --- matching --- */

/* "'pixels' (784) of uint8", "'ids' (any) of int32", "'label' of int32" */
enum { FIELD_TEXT = 128 };
static const char *describe(const struct lvn_field *f, char text[FIELD_TEXT])
{
    snprintf(text, FIELD_TEXT, "'%.40s'", f->name);
    for (int i = 0; i < f->rank; i++) {
        const char *before = i ? ", " : " (";
        if (f->dim[i])
            lvn_print_append(text, FIELD_TEXT, "%s%lld", before, (long long)f->dim[i]);
        else
            lvn_print_append(text, FIELD_TEXT, "%sany", before);
    }
    lvn_print_append(text, FIELD_TEXT, "%s of %s", f->rank ? ")" : "", lvn_dtype_name(f->dtype));
    return text;
}

static bool matches(const struct lvn_field *have, const struct lvn_field *want)
{
    if (have->dtype != want->dtype || have->rank != want->rank) return false;
    for (int i = 0; i < have->rank; i++)
        if (want->dim[i] && want->dim[i] != have->dim[i]) return false;
    return true;
}

enum lvn_status lvn_fields_check(const struct lvn_fields *f, const char *has, const struct lvn_field *wanted,
                                 const char *wants)
{
    char want[FIELD_TEXT], have[FIELD_TEXT], list[LVN_MAX_FIELDS * FIELD_TEXT] = "";
    int k = lvn_fields_find(f, wanted->name);
    for (int i = 0; i < f->n; i++)
        lvn_print_append(list, sizeof list, "%s%s", i ? ", " : "", describe(&f->field[i], have));
    LVN_CHECK(k >= 0, ARG, "%s the field %s, and %s no such field but %s: take another model or other data", wants,
              describe(wanted, want), has, list);
    LVN_CHECK(matches(&f->field[k], wanted), ARG, "%s the field %s, and %s %s: take another model or other data", wants,
              describe(wanted, want), has, describe(&f->field[k], have));
    LVN_CHECK(!wanted->below || f->field[k].below <= wanted->below, ARG,
              "%s the field %s with values below %lld, and %s values up to %lld there", wants, describe(wanted, want),
              (long long)wanted->below, has, (long long)f->field[k].below - 1);
    return LVN_OK;
}

/* --- batches --- */

enum lvn_status lvn_samples_init(struct lvn_samples *b, const struct lvn_fields *f, int64_t rows)
{
    *b = (struct lvn_samples){.fields = *f, .rows = rows, .n_valid = rows};
    for (int k = 0; k < f->n; k++) {
        b->p[k] = lvn_calloc((size_t)rows, (size_t)lvn_field_bytes(&f->field[k]));
        if (b->p[k]) continue;
        lvn_samples_release(b);
        return LVN_MEMORY;
    }
    return LVN_OK;
}

void lvn_samples_release(struct lvn_samples *b)
{
    for (int k = 0; k < b->fields.n; k++) free(b->p[k]);
    *b = (struct lvn_samples){0};
}

void *lvn_samples_at(const struct lvn_samples *b, int k, int64_t row)
{
    return (char *)b->p[k] + row * lvn_field_bytes(&b->fields.field[k]);
}

void lvn_samples_pad(struct lvn_samples *b, int64_t row)
{
    for (int k = 0; k < b->fields.n; k++) {
        const struct lvn_field *f = &b->fields.field[k];
        memset(lvn_samples_at(b, k, row), lvn_label_is_integer(f->label) ? 0xff : 0, (size_t)lvn_field_bytes(f));
    }
}
