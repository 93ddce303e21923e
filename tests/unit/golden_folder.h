/* golden_folder.h - a folder of tests/golden: a tiny model in one dialect, tokens, and what PyTorch made of them. */
#ifndef LVN_GOLDEN_FOLDER_H
#define LVN_GOLDEN_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data/loader.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/keys.h"
#include "tasks/task.h"

struct golden {
    const char *name;
    char path[64];
    bool out_in; /* linear weights are stored (out, in); levin's are (in, out) */
    struct lvn_model_config config;
    struct lvn_safetensors weights, reference;
    json_t *meta;
    struct lvn_dataset *data;
    int64_t T, V, windows, batch, steps;
};

static inline void check(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", lvn_error_text(), lvn_error_trace());
}

static inline double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static inline const char *in_folder(const struct golden *g, const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", g->path, name);
    return path;
}

static inline void read_config(struct golden *g)
{
    json_t *c;
    check(lvn_json_read(in_folder(g, "config.json"), &c));
    const char *type = json_string_value(json_object_get(c, "model_type"));
    assert_non_null(lvn_model_find(type));
    lvn_model_config_init(&g->config, lvn_model_find(type));
    g->out_in = strcmp(type, "gpt2") != 0;
    const struct lvn_key_value values[] = {
        {"n_layer", number(c, "n_layer")},
        {"n_head", number(c, "n_head")},
        {"n_embd", number(c, "n_embd")},
        {"vocab_size", number(c, "vocab_size")},
        {"block_size", number(c, g->out_in ? "block_size" : "n_positions")},
        {"dropout", 0},
        {json_object_get(c, "bias") ? "bias" : NULL, json_is_true(json_object_get(c, "bias"))},
        {NULL, 0},
    };
    check(lvn_model_put_all(&g->config, values));
    json_decref(c);
}

static inline void golden_open(struct golden *g, const char *name)
{
    *g = (struct golden){.name = name};
    snprintf(g->path, sizeof g->path, "tests/golden/%s", name);
    read_config(g);
    check(lvn_safetensors_open(&g->weights, in_folder(g, "model.safetensors")));
    check(lvn_safetensors_open(&g->reference, in_folder(g, "reference.safetensors")));
    check(lvn_json_read(in_folder(g, "meta.json"), &g->meta));
    g->T = lvn_model_value(&g->config, LVN_MEANS_POSITIONS);
    g->V = lvn_model_value(&g->config, LVN_MEANS_VOCABULARY);
    g->windows = (int64_t)number(g->meta, "windows");
    g->batch = (int64_t)number(g->meta, "batch_size");
    g->steps = (int64_t)number(g->meta, "steps");
    struct lvn_data_options o = {
        .kind = "tokens", .path = in_folder(g, "tokens.bin"), .vocab_size = g->V, .block_size = g->T};
    check(lvn_dataset_open(&g->data, &o));
    assert_int_equal(lvn_dataset_samples(g->data, LVN_SPLIT_TRAIN), g->windows);
}

static inline void golden_close(struct golden *g)
{
    lvn_dataset_close(g->data);
    json_decref(g->meta);
    lvn_safetensors_close(&g->reference);
    lvn_safetensors_close(&g->weights);
}

static inline const struct lvn_safetensor *reference(const struct golden *g, const char *prefix, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct lvn_safetensor *t = lvn_safetensors_find(&g->reference, full);
    if (!t) fail_msg("%s: no reference '%s'", g->name, full);
    return t;
}

static inline double value_of(const struct lvn_safetensor *t, int64_t i)
{
    double x;
    float y;
    if (t->desc.dtype == LVN_F64) {
        memcpy(&x, (const char *)t->data + 8 * i, 8);
        return x;
    }
    memcpy(&y, (const char *)t->data + 4 * i, 4);
    return (double)y;
}

/* Where element i of a parameter stands in the file. */
static inline int64_t place_in_file(const struct golden *g, const struct lvn_param *q, int64_t i)
{
    if (!g->out_in || q->desc.rank != 2 || !strstr(q->name, ".c_")) return i;
    int64_t n_out = q->desc.dim[1], n_in = q->desc.dim[0];
    return i % n_out * n_in + i / n_out;
}

#endif
