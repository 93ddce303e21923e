/* api_data.c - samples that a program gives, as data.kind=program (data/program/program_data.h). */
#include <string.h>

#include "api/api.h"

/* Called by the threads that read batches. */
static bool read_sample(void *context, enum lvn_split_id split, int64_t i, void *const *out, char error[400])
{
    const struct lvn_run_data *d = context;
    return d->sample(d->context, (int64_t)split, i, out, error) == 0;
}

/* Of a field whose name says that it is a label. */
static enum lvn_label_kind label_kind(const struct lvn_run_field *f)
{
    const bool reals = f->dtype == 1;
    if (f->rank == 0) return reals ? LVN_LABEL_NUMBER : LVN_LABEL_CLASS;
    return reals ? LVN_LABEL_VECTOR : LVN_LABEL_TOKEN;
}

static enum lvn_status convert_field(const struct lvn_run_field *f, struct lvn_field *out)
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
    for (int k = 0; k < out->rank; k++) {
        LVN_CHECK(f->dim[k] > 0, ARG, "the field '%s' of the program's data has the size %lld in dimension %d", f->name,
                  (long long)f->dim[k], k);
        out->dim[k] = f->dim[k];
    }
    return LVN_OK;
}

enum lvn_status lvn_api_data(struct lvn_program_data *out, const struct lvn_run_data *d, struct lvn_settings *s)
{
    LVN_CHECK(d->size == (int64_t)sizeof *d, ARG, "lvn_run_data.size is %lld, and this library (ABI %d) wants %lld",
              (long long)d->size, LVN_ABI_VERSION, (long long)sizeof *d);
    LVN_CHECK(d->n_fields >= 1 && d->n_fields <= LVN_MAX_FIELDS, ARG,
              "samples of the program's data have %lld fields: give 1 to %d", (long long)d->n_fields, LVN_MAX_FIELDS);
    LVN_CHECK(d->samples[0] > 0, ARG, "the program's data have no training samples");
    *out = (struct lvn_program_data){.fields = {.n = (int)d->n_fields},
                                     .vocab_size = d->vocab_size,
                                     .is_stream = d->is_stream != 0,
                                     .sample = read_sample,
                                     .context = (void *)(uintptr_t)d};
    for (int k = 0; k < (int)d->n_fields; k++) LVN_TRY(convert_field(&d->field[k], &out->fields.field[k]));
    for (int i = 0; i < LVN_SPLIT_ALL; i++) out->samples[i] = d->samples[i];
    LVN_TRY(lvn_settings_set(s, "data.kind", "program", LVN_SOURCE_PROGRAM));
    if (d->is_stream) LVN_TRY(lvn_settings_set(s, "data.sampling", "sequential", LVN_SOURCE_PROGRAM));
    return LVN_OK;
}
