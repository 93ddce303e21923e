/* model.c - see model.h: the table of models, finding them and their sizes by name, building a model's graph. */
#include "models/model.h"

#include "base/text.h"
#include "models/keys.h"
#include "models/lora.h"

#define LVN_MODEL(name) extern const struct lvn_model lvn_model_##name;
#include "models/models.def"

static const struct lvn_model *const models[] = {
#define LVN_MODEL(name) &lvn_model_##name,
#include "models/models.def"
    NULL,
};

const struct lvn_model *const *lvn_models(void)
{
    return models;
}

const struct lvn_model *lvn_model_find(const char *name)
{
    for (int i = 0; models[i]; i++)
        if (strcmp(models[i]->name, name) == 0) return models[i];
    return NULL;
}

const char *lvn_model_type(const struct lvn_model *m)
{
    return m->type ? m->type : m->name;
}

/* --- variants --- */

const struct lvn_model *lvn_model_file_variant(const struct lvn_model *m)
{
    return m->saved_as ? m->saved_as : m;
}

enum lvn_status lvn_model_variant(const struct lvn_model *m, const char *format, const struct lvn_model **out)
{
    char list[256] = "huggingface";
    const struct lvn_model *variant = lvn_model_file_variant(m);
    *out = strcmp(format, "huggingface") == 0 ? variant : NULL;
    for (int i = 0; models[i] && !*out; i++) {
        if (lvn_model_file_variant(models[i]) != variant || models[i] == variant) continue;
        lvn_print_append(list, sizeof list, ", %s", models[i]->name);
        if (strcmp(models[i]->name, format) == 0) *out = models[i];
    }
    LVN_CHECK(*out, ARG, "the format '%.40s' is not one of a %s; choose from %s", format, m->name, list);
    return LVN_OK;
}

/* --- sizes --- */

const struct lvn_size *lvn_size_find(const struct lvn_model *m, const char *name)
{
    for (const struct lvn_size *s = m->sizes; s && s->name; s++)
        if (strcmp(s->name, name) == 0) return s;
    return NULL;
}

const struct lvn_size *lvn_published_find(const char *name, const struct lvn_model **model)
{
    for (int i = 0; models[i]; i++)
        for (const struct lvn_size *s = models[i]->sizes; s && s->name; s++) {
            if (!s->repository || (strcmp(name, s->name) != 0 && strcmp(name, s->repository) != 0)) continue;
            *model = lvn_model_file_variant(models[i]);
            return s;
        }
    return NULL;
}

const char *lvn_published_nearest(const char *name)
{
    const char *names[128], *exact = NULL;
    char lower[64];
    int n = 0;
    size_t i = 0;
    for (; name[i] && i < sizeof lower - 1; i++) lower[i] = (char)tolower((unsigned char)name[i]);
    lower[i] = '\0';
    for (int m = 0; models[m]; m++)
        for (const struct lvn_size *s = models[m]->sizes; s && s->name; s++) {
            const char *slash = s->repository ? strrchr(s->repository, '/') : NULL;
            if (slash && !strcasecmp(slash + 1, lower)) exact = s->name;
            if (s->repository && n < 128) names[n++] = s->name;
        }
    return exact ? exact : lvn_nearest(lower, names, n);
}

/* --- the graph --- */

const struct lvn_field lvn_language_inputs[] = {{.name = "ids", .dtype = LVN_I32, .rank = 1}, {.name = NULL}};
const char *const lvn_language_tasks[] = {"lm", NULL};
const char *const lvn_decoder_tasks[] = {"lm", "classify", "regress", NULL};
const struct lvn_field lvn_text_inputs[] = {
    {.name = "ids", .dtype = LVN_I32, .rank = 1}, {.name = "length", .dtype = LVN_I32, .min = 1}, {.name = NULL}};

const struct lvn_head *lvn_model_head(const struct lvn_model *m, const char *task)
{
    for (const struct lvn_head *h = m->heads; h && h->architecture; h++)
        if (strcmp(h->task, task) == 0) return h;
    return NULL;
}

const struct lvn_head *lvn_model_head_of(const struct lvn_model *m, enum lvn_label_kind label)
{
    for (const struct lvn_head *h = m->heads; h && h->architecture; h++)
        if (h->label == label) return h;
    return NULL;
}

bool lvn_model_predicts(const struct lvn_model_config *c, enum lvn_label_kind label)
{
    return c->head && c->head->label == label;
}

bool lvn_model_predicts_samples(const struct lvn_model_config *c)
{
    return lvn_model_predicts(c, LVN_LABEL_CLASS) || lvn_model_predicts(c, LVN_LABEL_NUMBER);
}

void lvn_model_set_head(struct lvn_model_config *c, const struct lvn_head *head, int64_t classes)
{
    c->head = head;
    c->problem = lvn_model_predicts(c, LVN_LABEL_NUMBER) ? LVN_REGRESSION : LVN_SINGLE_LABEL;
    c->classes = c->problem == LVN_REGRESSION ? 1 : classes;
    c->class_names = NULL;
}

enum lvn_status lvn_model_name_classes(struct lvn_model_config *c, const char *const *names)
{
    LVN_LOCAL_TEXT(all);
    for (int64_t i = 0; i < c->classes; i++) lvn_text_add_bytes(&all, names[i], (int64_t)strlen(names[i]) + 1);
    LVN_TRY(lvn_text_status(&all));
    c->class_names = lvn_intern(all.p, (size_t)all.n);
    return c->class_names ? LVN_OK : LVN_MEMORY;
}

const char *lvn_class_name(const struct lvn_model_config *c, int64_t i, char text[LVN_CLASS_NAME])
{
    const char *name = c->class_names;
    if (!name) {
        snprintf(text, LVN_CLASS_NAME, "LABEL_%lld", (long long)i);
        return text;
    }
    while (i-- > 0) name += strlen(name) + 1;
    return name;
}

const struct lvn_field *lvn_model_inputs(const struct lvn_model_config *c)
{
    return c->head && c->head->inputs ? c->head->inputs : c->model->inputs;
}

struct levin_tensor *lvn_model_build(struct levin_graph *g, const struct lvn_model_config *c,
                                     struct levin_tensor *const *inputs)
{
    struct lvn_model_config resolved = lvn_model_resolved(c);
    lvn_lora_attach(g, c);
    return c->model->build(g, &resolved, inputs);
}

void lvn_model_declare(struct levin_graph *g, const struct lvn_model_config *c)
{
    struct levin_tensor *inputs[LVN_MODEL_INPUTS];
    const struct lvn_field *fields = lvn_model_inputs(c);
    for (int i = 0; fields[i].name; i++) {
        struct lvn_field f = fields[i];
        for (int k = 0; k < f.rank; k++)
            if (!f.dim[k]) f.dim[k] = 1;
        inputs[i] = lvn_input(g, f.name, lvn_field_desc(&f, 1));
    }
    lvn_model_build(g, c, inputs);
}

enum lvn_status lvn_model_params_new(struct lvn_params **out, const struct lvn_model_config *c)
{
    struct lvn_params *params = lvn_params_new();
    struct levin_graph *g = params ? lvn_graph_new(params, LVN_F32) : NULL;
    enum lvn_status status = LVN_MEMORY;
    if (g) {
        lvn_model_declare(g, c);
        status = lvn_graph_status(g);
    }
    lvn_graph_free(g);
    *out = status == LVN_OK ? params : NULL;
    if (status != LVN_OK) lvn_params_free(params);
    return status;
}
