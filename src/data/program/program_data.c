/* program_data.c - see program_data.h. */
#include "data/program/program_data.h"

#include <math.h>
#include <string.h>

static const struct lvn_program_data *given;

void lvn_program_data_set(const struct lvn_program_data *d)
{
    given = d;
}

static void fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    (void)o;
    *out = given ? given->fields : (struct lvn_fields){0};
}

static enum lvn_status open_given(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    static const char path[] = "the program's data";
    LVN_CHECK(!o->path || !*o->path, ARG,
              "the program gives its own data, and data.path ('%s') names others: leave it out", o->path);
    d->vocab_size = given->vocab_size;
    for (int k = 0; k < d->fields.n; k++)
        if (d->fields.field[k].tokens && d->fields.field[k].rank == 1) d->block_size = d->fields.field[k].dim[0];
    for (int i = 0; i < LVN_SPLIT_ALL; i++) {
        d->split[i].n_samples = given->samples[i];
        if (given->samples[i] && !given->is_stream) LVN_TRY(lvn_split_set(&d->split[i], path, NULL, 0, 0));
    }
    return LVN_OK;
}

static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    char error[400] = "";
    (void)draw;
    LVN_CHECK(given->sample(given->context, split, i, out, error), ARG, "%s", *error ? error : "the data set failed");
    for (int k = 0; k < d->fields.n; k++) {
        const struct lvn_field *f = &d->fields.field[k];
        const int32_t *p = out[k];
        const float *x = out[k];
        for (int64_t j = 0; f->dtype == LVN_F32 && f->label && j < lvn_field_count(f); j++)
            LVN_CHECK(isfinite(x[j]), ARG, "sample %lld of %s: '%s' holds %g; a finite number is wanted", (long long)i,
                      lvn_split_names[split], f->name, (double)x[j]);
        for (int64_t j = 0; f->dtype == LVN_I32 && f->below && j < lvn_field_count(f); j++)
            LVN_CHECK(p[j] < f->below && p[j] >= (lvn_label_is_integer(f->label) ? -1 : 0), ARG,
                      "sample %lld of %s: '%s' holds %d, and it may hold 0 to %lld%s", (long long)i,
                      lvn_split_names[split], f->name, (int)p[j], (long long)f->below - 1,
                      lvn_label_is_integer(f->label) ? ", or -1 for no label" : "");
    }
    return LVN_OK;
}

extern const struct lvn_dataset_kind lvn_dataset_program;
const struct lvn_dataset_kind lvn_dataset_program = {
    .name = "program",
    .help = "samples that a program gives which uses the library, as a sequence in Python",
    .typical_vocab = 50257,
    .fields = fields,
    .open = open_given,
    .sample = sample,
};
