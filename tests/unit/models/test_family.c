/* test_family.c - covers: src/nets/models/model.c src/nets/models/keys.c src/nets/models/weight_files.c
 * src/run/model_io/model_config.c
 *
 * The tables of model families: of a test family that uses every rule, and of all real ones.
 *
 * The test family is no language model. The test computes the expected layout in files independently. */
#include "io_test.h"

#include "model_io/model_config.h"
#include "model_io/model_files.h"
#include "model_io/pretrained_private.h"
#include "models/lora.h"
#include "models/weight_files.h"

/* --- a family --- */

enum { C = 8, H = 2, S = C / H, ROWS = 5 };

struct made {
    int64_t width, heads, rows, shape;
    double mean;
    bool extra;
};

static const struct lvn_key_word shapes[] = {
    {"round", 0, "round corners"}, {"square", 1, "square ones"}, {NULL, 0, NULL}};
static const struct lvn_key keys[] = {
    {LVN_KEY_NAME, .json = "architectures", .text = "Made"},
    {LVN_KEY_INT_OF(struct made, width), .json = "hidden_size", .recipe = "width", .required = true, .default_value = C,
     .min = 1, .max = 64},
    {LVN_KEY_INT_OF(struct made, heads), .json = "heads", .recipe = "heads", .default_value = H, .min = 1, .max = 8,
     .role = LVN_ROLE_HEADS},
    {LVN_KEY_INT_OF(struct made, rows), .json = "rows", .recipe = "rows", .default_value = ROWS, .min = 1, .max = 100},
    {LVN_KEY_REAL_OF(struct made, mean), .json = "mean", .default_value = 0.1307, .min = -1, .max = 1},
    {LVN_KEY_WORD_OF(struct made, shape), .json = "shape", .default_value = 1, .words = shapes},
    {LVN_KEY_DTYPE, .json = "dtype"},
    {LVN_KEY_BOOL_OF(struct made, extra), .json = "levin.extra", .default_value = true},
    {LVN_KEY_MUST, .json = "upright", .default_value = true},
    {.kind = LVN_KEY_END},
};
static const struct lvn_file files[] = {
    {"*.mask", NULL, LVN_FILE_IGNORED},
    {"net.blocks.*.attention.qkv.weight", "body.*.qkv.weight", LVN_FILE_TRANSPOSED | LVN_FILE_INTERLEAVED},
    {"net.blocks.*.attention.qkv.bias", "body.*.qkv.bias", LVN_FILE_INTERLEAVED},
    {"net.blocks.*.attention.out.weight", "body.*.out.weight", LVN_FILE_TRANSPOSED},
    {"net.blocks.*.norm.weight", "body.*.norm.weight", 0},
    {"net.blocks.*.norm.bias", "body.*.norm.weight", LVN_FILE_ZERO_FILL},
    {"net.table", "table", 0},
    {"net.head", "table", LVN_FILE_DUPLICATE},
    {"net.late", "late", LVN_FILE_ZEROS_IF_MISSING},
    {NULL, NULL, 0},
};

static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct made *m = (const struct made *)(const void *)config->fields;
    (void)inputs;
    levin_scope(g, "body.%d", 3);
    lvn_param(g, "qkv.weight", LVN_WEIGHT, LVN_NORMAL(1), LVN_DESC(LVN_F32, m->width, 3 * m->width));
    lvn_param(g, "qkv.bias", LVN_VECTOR, LVN_NORMAL(1), LVN_DESC(LVN_F32, 3 * m->width));
    lvn_param(g, "out.weight", LVN_WEIGHT, LVN_NORMAL(1), LVN_DESC(LVN_F32, m->width, m->width));
    lvn_param(g, "norm.weight", LVN_VECTOR, LVN_NORMAL(1), LVN_DESC(LVN_F32, m->width));
    levin_scope(g, "%s", "");
    lvn_param(g, "table", LVN_EMBEDDING, LVN_NORMAL(1), LVN_DESC(LVN_F32, m->rows, m->width));
    lvn_param(g, "late", LVN_VECTOR, LVN_NORMAL(1), LVN_DESC(LVN_F32, m->width));
    return lvn_param(g, "conv.weight", LVN_WEIGHT, LVN_NORMAL(1), LVN_DESC(LVN_F32, 3, 1, 2, 2));
}

static const struct lvn_field pixels[] = {{.name = "pixels", .dtype = LVN_F32, .rank = 1, .dim = {16}}, {.name = NULL}};
static const struct lvn_model made_up = {
    .name = "made-up", .keys = keys, .files = files, .prefix = "net.", .inputs = pixels, .build = build};

/* --- a model of it in memory --- */

struct model {
    struct lvn_model_config config;
    struct lvn_params *params;
    struct levin_graph *graph;
    float *values;
    struct lvn_memory memory; /* the values, in host memory */
    struct lvn_model_state state;
};

/* A model state of these parameters in host memory, without device or sessions. */
static struct lvn_model_state state_of(const struct lvn_model_config *c, struct lvn_params *params,
                                       struct lvn_memory *memory)
{
    return (struct lvn_model_state){
        .config = *c, .params = params, .weights = LVN_F32, .memory = {[LVN_BUFFER_PARAM] = memory}};
}

static void model_open(struct model *m, const struct lvn_model_config *c)
{
    m->config = *c;
    m->params = lvn_params_new();
    m->graph = lvn_graph_new(m->params, LVN_F32);
    lvn_model_declare(m->graph, c);
    ASSERT_OK(lvn_graph_status(m->graph));
    ASSERT_OK(lvn_params_layout(m->params, LVN_DECAY_ALL));
    m->values = calloc((size_t)m->params->flat_count, sizeof *m->values);
    m->memory = (struct lvn_memory){.host = m->values};
    m->state = state_of(c, m->params, &m->memory);
    for (int i = 0; i < m->params->n; i++)
        for (int64_t k = 0; k < m->params->list[i]->count; k++)
            m->values[m->params->list[i]->offset + k] = (float)(1000 * (i + 1) + k);
}

static void model_close(struct model *m)
{
    lvn_graph_free(m->graph);
    lvn_params_free(m->params);
    free(m->values);
}

static const float *value(const struct model *m, const char *name)
{
    const struct lvn_param *p = lvn_params_find(m->params, name);
    assert_non_null(p);
    return m->values + p->offset;
}

static void open_made_up(struct model *m)
{
    struct lvn_model_config c;
    lvn_model_config_init(&c, &made_up);
    model_open(m, &c);
}

/* --- writing --- */

/* Compare the item of this name: its shape and its elements. */
static const float *written(const struct lvn_model_files *f, const char *name, const char *shape)
{
    for (int i = 0; i < f->source.n; i++) {
        const struct lvn_safetensors_item *item = &f->source.item[i];
        const void *data = item->data;
        char text[LVN_SHAPE_TEXT];
        if (strcmp(item->name, name) != 0) continue;
        assert_string_equal(lvn_shape_text(&item->desc, text), shape);
        if (!data) ASSERT_OK(f->source.fetch(f->source.context, i, &data));
        return data;
    }
    fail_msg("no '%s' was written", name);
    return NULL;
}

/* The row in a file with q, k and v head by head, of row `out` of the projection in memory. */
static int row_in_file(int out)
{
    int which = out / C, head = out % C / S, channel = out % S;
    return head * 3 * S + which * S + channel;
}

static void every_rule_when_writing(void **state)
{
    (void)state;
    struct model m;
    struct lvn_model_files f;
    open_made_up(&m);
    ASSERT_OK(lvn_model_files_make(&f, &made_up, &m.state, LVN_PARAMETER_VALUES, false));
    assert_int_equal(f.source.n, m.params->n + 2);
    const float *qkv = written(&f, "net.blocks.3.attention.qkv.weight", "(24, 8)");
    for (int out = 0; out < 3 * C; out++)
        for (int in = 0; in < C; in++)
            assert_true(qkv[row_in_file(out) * C + in] == value(&m, "body.3.qkv.weight")[in * 3 * C + out]);
    const float *bias = written(&f, "net.blocks.3.attention.qkv.bias", "(24)");
    for (int out = 0; out < 3 * C; out++) assert_true(bias[row_in_file(out)] == value(&m, "body.3.qkv.bias")[out]);
    const float *out = written(&f, "net.blocks.3.attention.out.weight", "(8, 8)");
    for (int i = 0; i < C * C; i++) assert_true(out[i] == value(&m, "body.3.out.weight")[i % C * C + i / C]);
    const float *zeros = written(&f, "net.blocks.3.norm.bias", "(8)");
    for (int i = 0; i < C; i++) assert_true(zeros[i] == 0);
    assert_memory_equal(written(&f, "net.table", "(5, 8)"), value(&m, "table"), ROWS * C * 4);
    assert_memory_equal(written(&f, "net.head", "(5, 8)"), value(&m, "table"), ROWS * C * 4);
    assert_memory_equal(written(&f, "net.late", "(8)"), value(&m, "late"), C * 4);
    assert_memory_equal(written(&f, "conv.weight", "(3, 1, 2, 2)"), value(&m, "conv.weight"), 48);
    lvn_model_files_release(&f);
    /* gradients: no zeros, no duplicates */
    ASSERT_OK(lvn_model_files_make(&f, &made_up, &m.state, LVN_PARAMETER_VALUES, true));
    assert_int_equal(f.source.n, m.params->n);
    lvn_model_files_release(&f);
    model_close(&m);
}

/* An adapter is merged before the weight is transposed. */
static void adapters_are_merged_first(void **state)
{
    (void)state;
    struct lvn_params *params = lvn_params_new();
    struct levin_graph *g = lvn_graph_new(params, LVN_F32);
    struct lvn_model_config c;
    struct lvn_model_files f;
    lvn_model_config_init(&c, &made_up);
    c.lora = (struct lvn_lora){.rank = 1, .alpha = 1, .targets = "out"};
    lvn_param(g, "body.0.out.weight", LVN_WEIGHT, LVN_CONSTANT(0), LVN_DESC(LVN_F32, C, C));
    struct levin_tensor *a =
        lvn_param(g, "body.0.out.lora_A.weight", LVN_WEIGHT, LVN_CONSTANT(0), LVN_DESC(LVN_F32, C, 1));
    struct levin_tensor *b =
        lvn_param(g, "body.0.out.lora_B.weight", LVN_WEIGHT, LVN_CONSTANT(0), LVN_DESC(LVN_F32, 1, C));
    ASSERT_OK(lvn_graph_status(g));
    a->param->adapter = b->param->adapter = true;
    ASSERT_OK(lvn_params_layout(params, LVN_DECAY_ALL));
    float *values = calloc((size_t)params->flat_count, sizeof *values);
    values[a->param->offset + 2] = 3;
    values[b->param->offset + 5] = 7;
    struct lvn_memory memory = {.host = values};
    const struct lvn_model_state adapted = state_of(&c, params, &memory);
    ASSERT_OK(lvn_model_files_make(&f, &made_up, &adapted, LVN_PARAMETER_VALUES, false));
    assert_int_equal(f.source.n, 1);
    const float *out = written(&f, "net.blocks.0.attention.out.weight", "(8, 8)");
    for (int i = 0; i < C * C; i++) assert_true(out[i] == (i == 5 * C + 2 ? 21 : 0));
    lvn_model_files_release(&f);
    free(values);
    lvn_graph_free(g);
    lvn_params_free(params);
}

/* --- reading --- */

enum { MAX = 24 };

/* Write the model as a file with changed items: without `without`, with `also` (1 value), optionally without the
 * prefix. */
static void put_file(const struct model *m, const char *without, const char *also, bool cut)
{
    struct lvn_model_files f;
    struct lvn_safetensors_item item[MAX];
    static const float one = 1;
    ASSERT_OK(
        lvn_model_files_make(&f, lvn_model_file_variant(m->config.model), &m->state, LVN_PARAMETER_VALUES, false));
    struct lvn_safetensors_source s = {.item = item};
    for (int i = 0; i < f.source.n; i++) {
        const void *data = f.source.item[i].data;
        if (without && strcmp(f.source.item[i].name, without) == 0) continue;
        item[s.n] = f.source.item[i];
        if (!data) {
            ASSERT_OK(f.source.fetch(f.source.context, i, &data));
            void *copy = lvn_arena_alloc(&f.arena, (size_t)(4 * lvn_desc_count(&item[s.n].desc)));
            memcpy(copy, data, (size_t)(4 * lvn_desc_count(&item[s.n].desc)));
            data = copy;
        }
        item[s.n].data = data;
        if (cut && strncmp(item[s.n].name, "net.", 4) == 0) item[s.n].name += 4;
        s.n++;
    }
    if (also) item[s.n++] = (struct lvn_safetensors_item){.name = also, .desc = LVN_DESC(LVN_F32, 1), .data = &one};
    ASSERT_OK(lvn_safetensors_write(test_path("model.safetensors"), &s, &f.arena, NULL));
    lvn_model_files_release(&f);
}

static enum lvn_status read_file(const struct model *m, float *values)
{
    struct lvn_pretrained p = {.path = test_dir, .variant = &made_up, .files = &made_up, .config = m->config};
    struct lvn_memory memory = {.host = values};
    const struct lvn_model_state state = state_of(&m->config, m->params, &memory);
    ASSERT_OK(lvn_weights_open(&p.weights, test_dir));
    enum lvn_status status = lvn_pretrained_check(&p);
    if (status == LVN_OK) status = lvn_pretrained_load(&p, &state);
    lvn_weights_close(&p.weights);
    return status;
}

static void every_rule_when_reading(void **state)
{
    (void)state;
    struct model m;
    open_made_up(&m);
    size_t bytes = sizeof(float) * (size_t)m.params->flat_count;
    float *read = malloc(bytes);
    for (int cut = 0; cut < 2; cut++) { /* the prefix may be missing */
        put_file(&m, NULL, NULL, cut);
        memset(read, 0, bytes);
        ASSERT_OK(read_file(&m, read));
        assert_memory_equal(read, m.values, bytes);
    }
    put_file(&m, "net.late", "blocks.3.mask", false);
    ASSERT_OK(read_file(&m, read));
    for (int i = 0; i < C; i++) assert_true(read[value(&m, "late") - m.values + i] == 0);
    put_file(&m, "net.head", NULL, false); /* a duplicate is optional */
    ASSERT_OK(read_file(&m, read));
    put_file(&m, "net.blocks.3.attention.qkv.bias", NULL, false);
    ASSERT_FAILS(FORMAT, "'net.blocks.3.attention.qkv.bias' is missing", read_file(&m, read));
    put_file(&m, NULL, "net.blocks.4.norm.bias", false); /* zeros without their parameter */
    ASSERT_FAILS(FORMAT, "'net.blocks.4.norm.bias' is unexpected", read_file(&m, read));
    put_file(&m, "net.late", "net.late", false);
    ASSERT_FAILS(FORMAT, "'net.late' has shape (1) and type fp32, expected (8)", read_file(&m, read));
    free(read);
    model_close(&m);
}

/* A table may have more rows than in the file, or fewer. */
static void rows_are_cut_and_made(void **state)
{
    (void)state;
    struct model m, other;
    open_made_up(&m);
    put_file(&m, NULL, NULL, false);
    for (int rows = ROWS - 2; rows <= ROWS + 2; rows += 4) {
        struct lvn_pretrained p = {.path = test_dir, .variant = &made_up, .files = &made_up, .config = m.config};
        ASSERT_OK(lvn_weights_open(&p.weights, test_dir));
        ASSERT_OK(lvn_pretrained_check(&p));
        struct lvn_model_config c = m.config;
        ASSERT_OK(lvn_model_put(&c, "rows", rows));
        model_open(&other, &c);
        ASSERT_OK(lvn_pretrained_load(&p, &other.state));
        for (int i = 0; i < rows * C; i++) {
            float mean = 0;
            for (int r = 0; r < ROWS; r++) mean += value(&m, "table")[r * C + i % C] / ROWS;
            float expected = i < ROWS * C ? value(&m, "table")[i] : mean;
            assert_float_equal(value(&other, "table")[i], expected, 1e-3);
        }
        model_close(&other);
        lvn_weights_close(&p.weights);
    }
    model_close(&m);
}

/* --- config.json --- */

static enum lvn_status read_config(struct lvn_model_config *c, const char *text)
{
    json_t *root;
    ASSERT_OK(lvn_json_parse("c.json", text, (int64_t)strlen(text), &root));
    enum lvn_status status = lvn_config_read_as(c, &made_up, "c.json", root);
    json_decref(root);
    return status;
}

static void config_round_trip(void **state)
{
    (void)state;
    struct lvn_model_config c, back;
    struct lvn_text t = {0};
    lvn_model_config_init(&c, &made_up);
    ASSERT_OK(lvn_model_put(&c, "width", 16));
    ((struct made *)(void *)c.fields)->extra = false;
    ((struct made *)(void *)c.fields)->shape = 0;
    ASSERT_OK(lvn_config_write(&t, &made_up, &c, LVN_BF16));
    assert_string_equal(lvn_text_string(&t),
                        "{\n  \"model_type\": \"made-up\",\n  \"architectures\": [\"Made\"],\n  \"hidden_size\": 16,\n"
                        "  \"heads\": 2,\n  \"rows\": 5,\n  \"mean\": 0.1307,\n  \"shape\": \"round\",\n"
                        "  \"dtype\": \"bfloat16\",\n  \"levin\": {\n    \"kind\": \"made-up\",\n"
                        "    \"extra\": false\n  }\n}\n");
    /* the object's `kind` is looked up in the table of models, in which this one does not stand */
    ASSERT_FAILS(FORMAT, "levin.kind 'made-up' is not a model of this version", read_config(&back, t.p));
    ASSERT_OK(read_config(&back, "{\"hidden_size\": 16, \"shape\": \"round\", \"levin\": {\"extra\": false}}"));
    assert_memory_equal(back.fields, c.fields, sizeof(struct made)); /* all others have defaults */
    lvn_text_release(&t);
}

static void configs_are_refused_by_key(void **state)
{
    (void)state;
    struct lvn_model_config c;
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"{}", "hidden_size"},
        {"{\"hidden_size\": 65}", "hidden_size"},
        {"{\"hidden_size\": \"8\"}", "hidden_size"},
        {"{\"hidden_size\": 8, \"mean\": 1.5}", "c.json: mean is 1.5; it must be between -1 and 1"},
        {"{\"hidden_size\": 8, \"levin\": 3}", "c.json: 'levin' must be an object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ASSERT_FAILS(FORMAT, rows[i].sentence, read_config(&c, rows[i].text));
    ASSERT_FAILS(UNSUPPORTED, "c.json: shape is 'oval'; this version has round, square",
                 read_config(&c, "{\"hidden_size\": 8, \"shape\": \"oval\"}"));
    ASSERT_FAILS(UNSUPPORTED, "c.json: upright is false; this version has true",
                 read_config(&c, "{\"hidden_size\": 8, \"upright\": false}"));
    lvn_model_config_init(&c, &made_up);
    ASSERT_FAILS(ARG, "model.depth: made-up has no such key; it has width, heads and rows",
                 lvn_model_put(&c, "depth", 1));
    ASSERT_FAILS(ARG, "model.heads must be between 1 and 8, got 9", lvn_model_put(&c, "heads", 9));
    assert_int_equal(lvn_model_value(&c, LVN_ROLE_VOCABULARY), 0);
    assert_int_equal(lvn_model_value(&c, LVN_ROLE_HEADS), H);
}

/* --- all families --- */

static void round_trip(const struct lvn_model *const *f, const struct lvn_head *h)
{
    struct lvn_model_config c;
    struct lvn_pretrained p;
    struct model m;
    struct lvn_model_files made;
    lvn_model_config_init(&c, *f);
    lvn_model_set_head(&c, h, 3);
    ASSERT_OK(lvn_model_put_all(&c, (*f)->tiny));
    ASSERT_OK(lvn_model_check(&c, false));
    model_open(&m, &c);
    for (const struct lvn_model *const *variant = lvn_models(); *variant; variant++) {
        if (lvn_model_file_variant(*variant) != lvn_model_file_variant(*f) ||
            lvn_model_check_variant(*variant, &c) != LVN_OK)
            continue;
        ASSERT_OK(lvn_model_files_make(&made, *variant, &m.state, LVN_PARAMETER_VALUES, false));
        ASSERT_OK(lvn_safetensors_write(test_path("model.safetensors"), &made.source, &made.arena, NULL));
        test_put("config.json", made.config.p, made.config.n);
        ASSERT_OK(lvn_pretrained_open_on(&p, test_dir, "best", NULL));
        assert_ptr_equal(p.variant, *variant);
        struct lvn_model_config resolved = lvn_model_resolved(&c);
        assert_memory_equal(p.config.fields, resolved.fields, sizeof c.fields);
        if (h && *variant == *f) assert_string_equal(p.config.head->task, h->task);
        if (lvn_model_predicts_samples(&c)) assert_int_equal(p.config.classes, c.classes);
        float *read = calloc((size_t)m.params->flat_count, sizeof *read);
        struct lvn_memory memory = {.host = read};
        const struct lvn_model_state state = state_of(&c, m.params, &memory);
        ASSERT_OK(lvn_pretrained_load(&p, &state));
        assert_memory_equal(read, m.values, sizeof *read * (size_t)m.params->flat_count);
        free(read);
        lvn_pretrained_close(&p);
        lvn_model_files_release(&made);
    }
    model_close(&m);
}

static void every_family_round_trip(void **state)
{
    (void)state;
    static const struct lvn_head none = {.architecture = ""};
    for (const struct lvn_model *const *f = lvn_models(); *f; f++)
        for (const struct lvn_head *h = (*f)->heads ? (*f)->heads : &none; h == &none || h->architecture; h++) {
            round_trip(f, h == &none ? NULL : h);
            if (h == &none) break;
        }
}

/* Read a configuration with `more` keys, write it, and read it again. Few heads have as many KV heads, if `more` does
 * not say how many: the defaults of some families are 8 and more. */
static enum lvn_status read_heads(struct lvn_model_config *c, const char *type, int heads, const char *more)
{
    char text[2048];
    json_t *root;
    const struct lvn_model *form;
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"num_hidden_layers\": 2, \"num_attention_heads\": %d, \"hidden_size\": 32, "
             "\"max_position_embeddings\": 64, \"vocab_size\": 65, \"rms_norm_eps\": 1e-6%s%s%s}",
             type, heads, heads > 5 || strstr(more, "num_key") || *type == 'g' ? "" : ", \"num_key_value_heads\": null",
             *more ? ", " : "", more);
    ASSERT_OK(lvn_json_parse("c.json", text, (int64_t)strlen(text), &root));
    enum lvn_status status = lvn_config_read(c, &form, "c.json", root);
    json_decref(root);
    if (status != LVN_OK) return status;
    struct lvn_text t = {0};
    struct lvn_model_config back, resolved = lvn_model_resolved(c);
    ASSERT_OK(lvn_config_write(&t, form, c, LVN_F32));
    ASSERT_OK(lvn_json_parse("c.json", t.p, t.n, &root));
    const json_t *scaling = json_object_get(root, "rope_scaling");
    assert_true(!json_is_object(scaling) || json_object_get(scaling, "rope_type") ||
                strstr(more, "\"rope_scaling\": {"));
    assert_true(!strstr(more, "dynamic") || strstr(t.p, "\"dynamic\""));
    ASSERT_OK(lvn_config_read(&back, &form, "c.json", root));
    assert_string_equal(lvn_model_type(back.model), lvn_model_type(c->model));
    assert_memory_equal(back.fields, resolved.fields, sizeof back.fields);
    json_decref(root);
    lvn_text_release(&t);
    return LVN_OK;
}

static enum lvn_status read_family(struct lvn_model_config *c, const char *type, const char *more)
{
    return read_heads(c, type, 4, more);
}

/* Both notations of rotary positions give the same configuration, and so does the written file. */
static void dialects_of_config(void **state)
{
    (void)state;
    static const struct {
        const char *type, *older, *newer;
    } rows[] = {
        {"gpt_neox", "\"rotary_pct\": 0.5, \"rotary_emb_base\": 500",
         "\"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5, \"rope_theta\": 500}"},
        {"llama", "\"rope_theta\": 7, \"rope_scaling\": null",
         "\"rope_parameters\": {\"rope_theta\": 7, \"rope_type\": \"default\"}"},
        {"llama", "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}",
         "\"rope_parameters\": {\"rope_type\": \"dynamic\", \"factor\": 2.0}"},
        {"llama", "\"rope_scaling\": null, \"original_max_position_embeddings\": 16",
         "\"rope_parameters\": {\"rope_type\": \"default\", \"original_max_position_embeddings\": 16}"},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
         "\"rope_parameters\": {\"rope_theta\": 10000, \"rope_type\": \"linear\", \"factor\": 2.0}"},
        {"llama", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}",
         "\"rope_parameters\": {\"type\": \"linear\", \"factor\": 2.0}"},
        {"qwen2",
         "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16}",
         "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16}"},
        {"llama",
         "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": "
         "4, "
         "\"original_max_position_embeddings\": 8192}",
         "\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
         "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}"},
        {"mistral", "\"sliding_window\": null, \"num_key_value_heads\": null, \"head_dim\": null",
         "\"sliding_window\": null, \"num_key_value_heads\": null"},
        {"llama",
         "\"original_max_position_embeddings\": 16, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, "
         "\"original_max_position_embeddings\": 8}",
         "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 16}"},
        {"mistral", "", "\"sliding_window\": 4096"}, /* transformers' own default */
        {"mistral", "\"sliding_window\": 64", "\"sliding_window\": 64, \"rope_theta\": 10000.0"},
        {"qwen2", "\"use_sliding_window\": false, \"sliding_window\": 16", "\"sliding_window\": 16"},
        {"qwen3", "\"head_dim\": 6, \"num_key_value_heads\": 2", "\"num_key_value_heads\": 2, \"head_dim\": 6"},
        {"qwen3", "\"layer_types\": [\"full_attention\", \"full_attention\"], \"partial_rotary_factor\": 1.0",
         "\"layer_types\": [\"full_attention\", \"full_attention\"]"},
        {"llama", "\"rope_theta\": 7, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
         "\"rope_theta\": 7, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, "
         "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 7}"},
        {"gemma3_text",
         "\"rope_theta\": 50, \"rope_local_base_freq\": 20, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": "
         "8}",
         "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8, \"rope_theta\": 50}, "
         "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 20}}"},
        {"qwen3", "\"head_dim\": 128", ""}, /* transformers' own default */
        {"gemma3_text", "\"sliding_window_pattern\": 6, \"head_dim\": 256, \"num_key_value_heads\": 4", ""},
        {"gemma2", "\"attn_logit_softcapping\": 50.0, \"final_logit_softcapping\": 30, \"sliding_window\": 4096", ""},
        {"llama", "\"rope_theta\": 7", "\"rope_scaling\": {}, \"rope_parameters\": {\"rope_theta\": 7}"},
        {"gemma3",
         "\"eos_token_id\": null, \"text_config\": {\"hidden_size\": 32, \"bos_token_id\": 7, \"eos_token_id\": 9}",
         "\"bos_token_id\": 7, \"text_config\": {\"hidden_size\": 32, \"bos_token_id\": null, \"eos_token_id\": 9}"},
    };
    struct lvn_model_config one, two;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ASSERT_OK(read_family(&one, rows[i].type, rows[i].older));
        ASSERT_OK(read_family(&two, rows[i].type, rows[i].newer));
        assert_memory_equal(one.fields, two.fields, sizeof one.fields);
        assert_int_equal(one.end_id, two.end_id);
    }
}

/* Without the key, KV heads are as many as in transformers. */
static void default_kv_heads(void **state)
{
    (void)state;
    struct lvn_model_config one, two;
    static const struct {
        const char *type;
        int heads;
    } kv[] = {{"llama", 64}, {"mistral", 8}, {"qwen2", 32}, {"qwen3", 32}};
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++) {
        char text[80];
        snprintf(text, sizeof text, "\"head_dim\": 2, \"num_key_value_heads\": %d", kv[i].heads);
        ASSERT_OK(read_heads(&one, kv[i].type, 64, "\"head_dim\": 2"));
        ASSERT_OK(read_heads(&two, kv[i].type, 64, text));
        one = lvn_model_resolved(&one);
        two = lvn_model_resolved(&two);
        assert_memory_equal(one.fields, two.fields, sizeof one.fields);
    }
}

/* Without the key, positions are as many as in transformers. */
static void default_positions(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int64_t positions;
    } rows[] = {{"llama", 2048}, {"mistral", 131072}, {"qwen2", 32768}, {"qwen3", 32768}, {"gpt_neox", 2048}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lvn_model_config c;
        const struct lvn_model *variant;
        char text[300];
        json_t *root;
        snprintf(
            text, sizeof text,
            "{\"model_type\": \"%s\", \"num_hidden_layers\": 2, \"num_attention_heads\": 32, \"hidden_size\": 256, "
            "\"vocab_size\": 65}",
            rows[i].type);
        ASSERT_OK(lvn_json_parse("c.json", text, (int64_t)strlen(text), &root));
        ASSERT_OK(lvn_config_read(&c, &variant, "c.json", root));
        assert_int_equal(lvn_model_value(&c, LVN_ROLE_POSITIONS), rows[i].positions);
        json_decref(root);
    }
}

/* head_dim gives a head any size: also floor(hidden / heads) if the division has a remainder. */
static void size_of_heads(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"llama", "\"head_dim\": 6", ""},
        {"mistral", "\"head_dim\": 6, \"sliding_window\": null", "\"sliding_window\": null"},
        {"qwen3", "\"head_dim\": 6, \"num_key_value_heads\": 5", "\"head_dim\": null, \"num_key_value_heads\": 5"}};
    struct lvn_model_config one;
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(read_heads(&one, rows[i][0], 5, rows[i][1]));
        struct lvn_params *params = lvn_params_new();
        struct levin_graph *g = lvn_graph_new(params, LVN_F32);
        lvn_model_declare(g, &one);
        ASSERT_OK(lvn_graph_status(g));
        const struct lvn_param *q = lvn_params_find(params, "model.layers.0.self_attn.q_proj.weight");
        const struct lvn_param *o = lvn_params_find(params, "model.layers.0.self_attn.o_proj.weight");
        assert_non_null(q);
        assert_non_null(o);
        assert_true(q->desc.dim[0] == 32 && q->desc.dim[1] == 30 && o->desc.dim[0] == 30 && o->desc.dim[1] == 32);
        lvn_graph_free(g);
        lvn_params_free(params);
        ASSERT_FAILS(
            FORMAT,
            "model.n_embd (32) is not a multiple of model.n_head (5), and model.head_dim (head_dim in "
            "a config.json) does not set the number of channels of a head; set it, or use 30 or another multiple",
            read_heads(&one, rows[i][0], 5, rows[i][2]));
    }
}

/* Unsupported and contradictory settings are refused by name. */
static void other_dialects(void **state)
{
    (void)state;
    struct lvn_model_config one;
    ASSERT_FAILS(UNSUPPORTED,
                 "c.json: rope_scaling.rope_type is 'su'; this version has default, dynamic, linear, yarn, llama3",
                 read_family(&one, "llama", "\"rope_scaling\": {\"rope_type\": \"su\", \"factor\": 2}"));
    ASSERT_FAILS(UNSUPPORTED, "c.json: rope_parameters.rope_type is 'longrope'",
                 read_family(&one, "qwen3", "\"rope_parameters\": {\"rope_type\": \"longrope\"}"));
    ASSERT_FAILS(FORMAT, "c.json: 'rope_scaling' must be an object", read_family(&one, "llama", "\"rope_scaling\": 2"));
    ASSERT_FAILS(FORMAT, "rope_scaling.factor is 0",
                 read_family(&one, "llama", "\"rope_scaling\": {\"type\": \"linear\"}"));
    ASSERT_FAILS(FORMAT, "low_freq_factor 4 and high_freq_factor 1; llama3 requires the second above the first",
                 read_family(&one, "llama",
                             "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
                             "\"low_freq_factor\": 4, \"high_freq_factor\": 1}"));
    ASSERT_FAILS(UNSUPPORTED, "hidden_act is 'relu'; this version has silu",
                 read_family(&one, "llama", "\"hidden_act\": \"relu\""));
    ASSERT_FAILS(FORMAT, "model.n_head (4) is not a multiple of model.n_kv_head (3)",
                 read_family(&one, "llama", "\"num_key_value_heads\": 3"));
    ASSERT_FAILS(FORMAT, "rope_scaling and rope_parameters contradict each other in 'factor'",
                 read_family(&one, "llama",
                             "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}, "
                             "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 4}"));
    ASSERT_FAILS(FORMAT, "rope_scaling and rope_parameters contradict each other in 'rope_theta'",
                 read_family(&one, "qwen3",
                             "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}, "
                             "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, \"rope_theta\": 5}"));
    ASSERT_FAILS(FORMAT, "rope_scaling and rope_parameters contradict each other in 'partial_rotary_factor'",
                 read_family(&one, "gpt_neox",
                             "\"rotary_pct\": 1, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}, "
                             "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2, "
                             "\"partial_rotary_factor\": 0.5}"));
    ASSERT_FAILS(UNSUPPORTED, "c.json: partial_rotary_factor is 0.5; this version has 1",
                 read_family(&one, "mistral", "\"sliding_window\": null, \"partial_rotary_factor\": 0.5"));
    ASSERT_FAILS(UNSUPPORTED, "rope_parameters.partial_rotary_factor is 0.25",
                 read_family(&one, "llama", "\"rope_parameters\": {\"partial_rotary_factor\": 0.25}"));
    static const char *const decoders[] = {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "nanochat"};
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
        ASSERT_FAILS(UNSUPPORTED, "c.json: is_causal is false; this version has true",
                     read_family(&one, decoders[i], "\"is_causal\": false"));
        ASSERT_FAILS(UNSUPPORTED, "rope_scaling.partial_rotary_factor is 0.5; this version has 1",
                     read_family(&one, decoders[i],
                                 "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2, "
                                 "\"partial_rotary_factor\": 0.5}"));
        ASSERT_FAILS(UNSUPPORTED, "_attention describes the rotary positions of some layers, which this version does",
                     read_family(&one, decoders[i],
                                 "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5e5}, "
                                 "\"chunked_attention\": {\"rope_theta\": 5e5}}"));
    }
    ASSERT_FAILS(UNSUPPORTED, "is_causal is false", read_family(&one, "gpt_neox", "\"is_causal\": false"));
    ASSERT_OK(read_family(&one, "gpt_neox", "\"rotary_pct\": 0.5, \"partial_rotary_factor\": 0.5"));
    ASSERT_FAILS(UNSUPPORTED, "rope_parameters.full_attention.partial_rotary_factor is 0.5",
                 read_family(&one, "gemma3_text",
                             "\"rope_parameters\": {\"full_attention\": {\"partial_rotary_factor\": 0.5}}"));
    ASSERT_FAILS(UNSUPPORTED, "problem_type is 'ranking'", read_family(&one, "llama", "\"problem_type\": \"ranking\""));
    ASSERT_FAILS(FORMAT, "rotary embeddings rotate 3 channels", read_family(&one, "gpt_neox", "\"rotary_pct\": 0.4"));
    ASSERT_FAILS(UNSUPPORTED, "model_type is 'phi3'; this version loads nanogpt, gpt2,", read_family(&one, "phi3", ""));
}

/* Windows, and the configurations of Gemma. */
static void windows_of_config(void **state)
{
    (void)state;
    struct lvn_model_config one;
    ASSERT_FAILS(FORMAT, "sliding_window is 63, shorter than the 64 positions",
                 read_family(&one, "llama", "\"sliding_window\": 63"));
    ASSERT_OK(read_family(&one, "llama", "\"sliding_window\": null, \"rope_theta\": 7"));
    ASSERT_OK(read_family(&one, "mistral", "\"sliding_window\": 63"));
    ASSERT_OK(read_family(&one, "qwen3", "\"use_sliding_window\": true, \"sliding_window\": 16"));
    ASSERT_FAILS(FORMAT, "model.sliding_window is 0, but a layer attends to at least 1 position",
                 read_family(&one, "mistral", "\"sliding_window\": 0"));
    ASSERT_FAILS(FORMAT, "layer_types has 1 entries, and the model has 2 layers",
                 read_family(&one, "gemma3",
                             "\"text_config\": {\"hidden_size\": 8, \"num_hidden_layers\": 2, "
                             "\"layer_types\": [\"full_attention\"]}"));
    ASSERT_FAILS(FORMAT, "layer_types has full_attention, but every layer of a mistral has the window",
                 read_family(&one, "mistral",
                             "\"sliding_window\": 8, \"layer_types\": [\"full_attention\", \"sliding_attention\"]"));
    ASSERT_FAILS(UNSUPPORTED, "rope_parameters.full_attention.rope_type is 'yarn'; this version has default, linear",
                 read_family(&one, "gemma3_text",
                             "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"yarn\", \"factor\": 2}}"));
    ASSERT_FAILS(
        UNSUPPORTED, "rope_parameters.sliding_attention.rope_type is 'linear'; this version has default",
        read_family(&one, "gemma3_text", "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"linear\"}}"));
    ASSERT_FAILS(UNSUPPORTED, "rope_parameters.rope_theta is 5; this version has 1e+06",
                 read_family(&one, "gemma3_text", "\"rope_parameters\": {\"rope_theta\": 5}"));
    ASSERT_FAILS(FORMAT, "rope_scaling and rope_parameters.full_attention contradict each other in 'factor'",
                 read_family(&one, "gemma3_text",
                             "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8}, \"rope_parameters\": "
                             "{\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 4}}"));
    ASSERT_FAILS(FORMAT, "a gemma3 must have an object 'text_config'", read_family(&one, "gemma3", ""));
    ASSERT_FAILS(FORMAT, "attn_logit_softcapping is 50, which other programs ignore in a gemma3: make it null",
                 read_family(&one, "gemma3_text", "\"attn_logit_softcapping\": 50.0"));
    ASSERT_FAILS(FORMAT, "'hidden_activation' must be a string, or a list of strings that is not empty",
                 read_family(&one, "gemma3_text", "\"hidden_activation\": []"));
    ASSERT_FAILS(FORMAT, "attn_logit_softcapping is 0; it must be between",
                 read_family(&one, "gemma2", "\"attn_logit_softcapping\": 0"));
    ASSERT_FAILS(FORMAT, "layer_types has sliding_attention, and the model has no window (sliding_window)",
                 read_family(&one, "qwen2",
                             "\"sliding_window\": 64, \"layer_types\": [\"sliding_attention\", \"full_attention\"]"));
    ASSERT_FAILS(UNSUPPORTED, "layer_types has 'chunked_attention'; this version has full_attention, sliding_attention",
                 read_family(&one, "llama", "\"layer_types\": [\"full_attention\", \"chunked_attention\"]"));
    ASSERT_FAILS(FORMAT, "'layer_types' must be a list of strings", read_family(&one, "llama", "\"layer_types\": [1]"));
}

/* Models are found by their names, and their tables are consistent. */
static void tables_are_sound(void **state)
{
    (void)state;
    const struct lvn_model *known;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        struct lvn_model_config c;
        assert_ptr_equal(lvn_model_find((*m)->name), *m);
        assert_true((*m)->help && (*m)->tiny && (*m)->build);
        for (const struct lvn_key *k = (*m)->keys; k->kind; k++) {
            if (!k->recipe) continue;
            assert_true(k->kind <= LVN_KEY_BOOL && k->help);
            const struct lvn_key *first = NULL;
            for (const struct lvn_model *const *o = lvn_models(); *o && !first; o++)
                first = lvn_key_find(*o, k->recipe);
            assert_int_equal(first->kind, k->kind);    /* one key, one type */
            assert_string_equal(first->help, k->help); /* only the first is printed */
        }
        for (const struct lvn_size *s = (*m)->sizes; s && s->name; s++) {
            lvn_model_config_init(&c, *m);
            ASSERT_OK(lvn_model_put_size(&c, s));
            ASSERT_OK(lvn_model_check(&c, true));
            assert_ptr_equal(lvn_size_find(*m, s->name), s);
            if (!s->repository) continue;
            assert_non_null(lvn_published_find(s->name, &known));
            assert_ptr_equal(known, lvn_model_file_variant(*m));
            assert_non_null(lvn_published_find(s->repository, &known));
        }
    }
    assert_null(lvn_published_find("gpt-nano", &known));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_when_writing),
        cmocka_unit_test(adapters_are_merged_first),
        cmocka_unit_test(size_of_heads),
        cmocka_unit_test(every_rule_when_reading),
        cmocka_unit_test(rows_are_cut_and_made),
        cmocka_unit_test(config_round_trip),
        cmocka_unit_test(configs_are_refused_by_key),
        cmocka_unit_test(every_family_round_trip),
        cmocka_unit_test(dialects_of_config),
        cmocka_unit_test(default_kv_heads),
        cmocka_unit_test(default_positions),
        cmocka_unit_test(other_dialects),
        cmocka_unit_test(windows_of_config),
        cmocka_unit_test(tables_are_sound),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}
