/* golden_folder.h - a folder of tests/golden: a tiny model in one format, tokens, and PyTorch's results for them. */
#ifndef LVN_GOLDEN_FOLDER_H
#define LVN_GOLDEN_FOLDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/loader.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "golden_dialects.h"
#include "model_io/pretrained.h"
#include "models/keys.h"
#include "models/weight_files.h"
#include "tasks/task.h"

struct golden {
    const char *name;
    char path[64];
    struct lvn_pretrained model;
    struct lvn_model_config config; /* of the model, without dropout */
    struct lvn_safetensors reference;
    json_t *meta;
    struct lvn_dataset *data;
    int64_t T, V, windows, batch, steps;
};

static inline void check(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
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

static inline void golden_open(struct golden *g, const char *name)
{
    *g = (struct golden){.name = name};
    snprintf(g->path, sizeof g->path, "tests/golden/%s", name);
    check(lvn_pretrained_open_on(&g->model, g->path, "last", NULL));
    g->config = g->model.config;
    check(lvn_model_put(&g->config, "dropout", 0));
    check(lvn_safetensors_open(&g->reference, in_folder(g, "reference.safetensors")));
    check(lvn_json_read(in_folder(g, "meta.json"), &g->meta));
    g->T = lvn_model_value(&g->config, LVN_ROLE_POSITIONS);
    g->V = lvn_model_value(&g->config, LVN_ROLE_VOCABULARY);
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
    lvn_pretrained_close(&g->model);
}

static inline const struct lvn_safetensor *reference(const struct golden *g, const char *prefix, const char *name)
{
    char full[LVN_FILE_NAME + 16];
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

/* The tensor of the reference for a parameter, in the layout of memory; the caller frees it. */
static inline float *reference_of(const struct golden *g, const char *prefix, const struct lvn_param *q)
{
    struct lvn_layout l;
    check(lvn_file_layout(g->model.variant, &g->config, q, &l));
    const struct lvn_safetensor *t = reference(g, prefix, l.name);
    float *file = malloc(sizeof *file * (size_t)q->count), *memory = malloc(sizeof *memory * (size_t)q->count);
    if (!file || !memory || lvn_desc_count(&t->desc) != q->count) fail_msg("%s: '%s%s'", g->name, prefix, l.name);
    for (int64_t i = 0; i < q->count; i++) file[i] = (float)value_of(t, i);
    lvn_layout_to_memory(&l, sizeof *file, file, memory);
    free(file);
    return memory;
}

#endif
