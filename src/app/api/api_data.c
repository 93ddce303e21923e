/* api_data.c - samples from a user program, as data.kind=program (data/program/program_data.h). */

#include "api/api.h"

/* Read one sample from the program; called by the threads that read batches. */
static bool read_sample(void *context, enum lvn_split_id split, int64_t i, void *const *out, char error[400])
{
    const struct levin_run_data *d = context;
    const char *before = lvn_api_call_back("sample");
    const bool done = d->sample(d->context, (int64_t)split, i, out, error) == 0;
    lvn_api_call_back(before);
    return done;
}

/* Return the label kind of a field named `label` or `labels`. */
static enum lvn_label_kind label_kind(const struct levin_run_field *f)
{
    const bool reals = f->dtype == 1;
    if (f->rank == 0) return reals ? LVN_LABEL_NUMBER : LVN_LABEL_CLASS;
    return reals ? LVN_LABEL_VECTOR : LVN_LABEL_TOKEN;
}

static enum lvn_status convert_field(const struct levin_run_field *f, struct lvn_field *out)
{
    LVN_CHECK(f->name && *f->name && f->dtype >= 0 && f->dtype <= 2 && f->rank >= 0 && f->rank <= LVN_FIELD_RANK, ARG,
              "the field '%s' of the program's data has dtype %lld and rank %lld: dtype is 0 (int32), 1 (float32) or 2 "
              "(uint8), rank at most %d",
              f->name ? f->name : "", (long long)f->dtype, (long long)f->rank, LVN_FIELD_RANK);
    const bool is_label = !strcmp(f->name, "label") || !strcmp(f->name, "labels");
    static const enum lvn_dtype types[] = {LVN_I32, LVN_F32, LVN_U8};
    *out = (struct lvn_field){.name = f->name,
                              .dtype = types[f->dtype],
                              .rank = (int)f->rank,
                              .below = f->below,
                              .label = is_label ? label_kind(f) : LVN_LABEL_NONE,
                              .tokens = !strcmp(f->name, "ids") || (is_label && f->rank == 1 && !f->dtype)};
    LVN_CHECK(
        f->below >= 0 && f->below <= (int64_t)INT32_MAX + 1, ARG,
        "the field '%s' of the program's data has integers below %lld: give 1 to 2147483648, or 0 if it is not known",
        f->name, (long long)f->below);
    int64_t count = 1;
    for (int k = 0; k < out->rank; k++) {
        LVN_CHECK(f->dim[k] > 0 && f->dim[k] <= INT32_MAX / count, ARG,
                  "the field '%s' of the program's data has size %lld in dimension %d; sizes must be at least 1, and a "
                  "sample may have at most 2147483647 elements",
                  f->name, (long long)f->dim[k], k);
        count *= out->dim[k] = f->dim[k];
    }
    return LVN_OK;
}

static enum lvn_status set_classes(struct lvn_program_data *out, const struct levin_run_data *d)
{
    const int k = lvn_fields_find(&out->fields, "label");
    struct lvn_field *f = k < 0 ? NULL : &out->fields.field[k];
    LVN_CHECK(f && f->label == LVN_LABEL_CLASS, ARG,
              "the program names %lld classes, but its samples have no integer field 'label' of rank 0",
              (long long)d->n_classes);
    LVN_CHECK(f->below <= d->n_classes, ARG,
              "the field 'label' of the program's data has values up to %lld, but the program names %lld classes",
              (long long)f->below - 1, (long long)d->n_classes);
    for (int64_t i = 0; i < d->n_classes; i++)
        LVN_CHECK(d->classes && d->classes[i] && *d->classes[i], ARG, "class %lld of the program's data has no name",
                  (long long)i);
    f->below = d->n_classes;
    out->class_names = d->classes;
    return LVN_OK;
}

enum lvn_status lvn_api_data(struct lvn_program_data *out, const struct levin_run_data *given, struct levin_settings *s)
{
    struct levin_run_data known;
    LVN_TRY(LVN_API_READ(&known, given, classes, levin_run_data));
    const struct levin_run_data *d = &known;
    LVN_CHECK(d->field && d->sample, ARG, "levin_run_data.%s is NULL; set it", d->field ? "sample" : "field");
    LVN_CHECK(d->n_fields >= 1 && d->n_fields <= LVN_MAX_FIELDS, ARG,
              "samples of the program's data have %lld fields: give 1 to %d", (long long)d->n_fields, LVN_MAX_FIELDS);
    LVN_CHECK(d->samples[0] > 0, ARG, "the program's data have no training samples");
    LVN_CHECK(
        d->samples[1] >= 0 && d->samples[2] >= 0 && d->vocab_size >= 0 && d->vocab_size <= INT32_MAX, ARG,
        "the program's data have %lld samples of val, %lld of test and a vocabulary of %lld: the numbers must be at "
        "least 0, and the vocabulary below 2147483648",
        (long long)d->samples[1], (long long)d->samples[2], (long long)d->vocab_size);
    *out = (struct lvn_program_data){.fields = {.n = (int)d->n_fields},
                                     .vocab_size = d->vocab_size,
                                     .is_iterable = d->is_stream != 0,
                                     .sample = read_sample,
                                     .context = (void *)(uintptr_t)given};
    for (int k = 0; k < (int)d->n_fields; k++) {
        struct levin_run_field f;
        LVN_TRY(LVN_API_READ(&f, (const char *)d->field + k * d->field->size, below, levin_run_field));
        LVN_TRY(convert_field(&f, &out->fields.field[k]));
        for (int j = 0; j < k; j++)
            LVN_CHECK(strcmp(out->fields.field[j].name, f.name) != 0, ARG, "the program's data have two fields '%s'",
                      f.name);
    }
    for (int i = 0; i < LVN_SPLIT_ALL; i++) out->samples[i] = d->samples[i];
    if (d->n_classes) LVN_TRY(set_classes(out, d));
    LVN_TRY(lvn_settings_set(s, "data.kind", "program", LVN_SOURCE_PROGRAM));
    if (d->is_stream) LVN_TRY(lvn_settings_set(s, "data.sampling", "sequential", LVN_SOURCE_PROGRAM));
    return LVN_OK;
}
