/* program_data.c - see program_data.h. */
#include "data/program/program_data.h"

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

/* A head that is kept, or continues to be trained, has its classes in its own order. */
static enum lvn_status check_classes(const struct lvn_data_options *o, int64_t n)
{
    const char *of_model = o->class_names;
    for (int64_t k = 0; k < o->classes && k < n; k++) {
        LVN_CHECK(of_model, ARG,
                  "the classes of the program's data have names, as '%s', and those of the model have none: give their "
                  "numbers, or start with a new head (task.fresh_head=true)",
                  given->class_names[0]);
        LVN_CHECK(strcmp(of_model, given->class_names[k]) == 0, ARG,
                  "class %lld is '%s' in the program's data and '%s' in the model: give the classes in the model's "
                  "order, or start with a new head (task.fresh_head=true)",
                  (long long)k, given->class_names[k], of_model);
        of_model += strlen(of_model) + 1;
    }
    return LVN_OK;
}

static enum lvn_status open_given(struct lvn_dataset *d, const struct lvn_data_options *o)
{
    static const char path[] = "the program's data";
    LVN_CHECK(!o->path || !*o->path, ARG,
              "the program gives its own data, and data.path ('%s') names others: leave it out", o->path);
    LVN_CHECK(!o->masks, ARG,
              "task.kind=mlm masks tokens of data.kind=labelled, tokens or chars, and the program gives its own data: "
              "give it as a file");
    d->vocab_size = given->vocab_size;
    d->class_names = given->class_names;
    const int label = lvn_fields_find(&d->fields, "label");
    if (given->class_names && label >= 0) LVN_TRY(check_classes(o, d->fields.field[label].below));
    for (int k = 0; k < d->fields.n; k++)
        if (d->fields.field[k].tokens && d->fields.field[k].rank == 1) d->block_size = d->fields.field[k].dim[0];
    for (int i = 0; i < LVN_SPLIT_ALL; i++) {
        d->split[i].n_samples = given->samples[i];
        if (!given->samples[i] || given->is_iterable) continue;
        d->split[i].path = lvn_strdup(path); /* for messages */
        if (!d->split[i].path) return LVN_MEMORY;
    }
    return LVN_OK;
}

/* ARG, naming sample, value and range, unless the model and the task accept all numbers of a field. */
static enum lvn_status check_field(const struct lvn_field *f, const void *values, enum lvn_split_id split, int64_t i)
{
    const char *name = lvn_split_names[split];
    const bool may_lack = lvn_label_is_integer(f->label);
    const int32_t *p = values;
    const float *x = values;
    for (int64_t j = 0; f->dtype == LVN_F32 && f->label && j < lvn_field_count(f); j++)
        LVN_CHECK(isfinite(x[j]), ARG, "sample %lld of %s: '%s' holds %g; a finite number is expected", (long long)i,
                  name, f->name, (double)x[j]);
    for (int64_t j = 0; f->dtype == LVN_I32 && j < lvn_field_count(f); j++) {
        if (p[j] >= f->min && (!f->below || p[j] < f->below)) continue;
        LVN_CHECK(p[j] == -1 && may_lack, ARG, "sample %lld of %s: '%s' holds %d, and it may hold %lld to %lld%s%s",
                  (long long)i, name, f->name, (int)p[j], (long long)f->min,
                  (long long)(f->below ? f->below - 1 : INT32_MAX), may_lack ? ", or -1 for no label" : "",
                  may_lack && p[j] == -100 ? " (Hugging Face's -100 is -1 here)" : "");
    }
    return LVN_OK;
}

/* ARG unless each token's segment is the one before it or begins with the token. */
static enum lvn_status check_segments(const struct lvn_field *f, const int32_t *segments, enum lvn_split_id split,
                                      int64_t i)
{
    for (int64_t t = 0; t < lvn_field_count(f); t++)
        LVN_CHECK(
            segments[t] == t || (t && segments[t] == segments[t - 1]), ARG,
            "sample %lld of %s: '%s' holds %d for token %lld; it holds the position at which each token's document "
            "begins: %lld, or that of the token before%s",
            (long long)i, lvn_split_names[split], f->name, (int)segments[t], (long long)t, (long long)t,
            t ? "" : ", which the first one does not have");
    return LVN_OK;
}

static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    char error[400] = "";
    (void)draw;
    LVN_CHECK(given->sample(given->context, split, i, out, error), ARG, "%s", *error ? error : "the data set failed");
    for (int k = 0; k < d->fields.n; k++) {
        LVN_TRY(check_field(&d->fields.field[k], out[k], split, i));
        if (!strcmp(d->fields.field[k].name, LVN_SEGMENTS))
            LVN_TRY(check_segments(&d->fields.field[k], out[k], split, i));
    }
    return LVN_OK;
}

extern const struct lvn_dataset_kind lvn_dataset_program;
const struct lvn_dataset_kind lvn_dataset_program = {
    .name = "program",
    .help = "samples that a program provides, as in Python",
    .typical_vocab = 50257,
    .refuses_unread = true,
    .fields = fields,
    .open = open_given,
    .sample = sample,
};
