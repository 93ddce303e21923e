/* safetensors_split.c - lvn_safetensors_split() of safetensors.h: splits a model into several files with an index, like
 * Hugging Face's library. weights.h reads such files. */

#include "base/text.h"
#include "formats/json.h"
#include "formats/safetensors.h"

/* One part of a source. */
struct part {
    const struct lvn_safetensors_source *whole;
    const int *number; /* [n] index of each of its items in `whole` */
};

/* An item to be sorted. */
struct entry {
    const struct lvn_safetensors_item *item;
    int number;
    int64_t bytes;
};

static int by_order(const void *a, const void *b)
{
    return lvn_safetensors_order(((const struct entry *)a)->item, ((const struct entry *)b)->item);
}

static enum lvn_status fetch(void *context, int i, const void **data)
{
    const struct part *part = context;
    return part->whole->fetch(part->whole->context, part->number[i], data);
}

/* The source of entries [0, n). */
static enum lvn_status make_part(struct lvn_arena *a, const struct lvn_safetensors_source *whole,
                                 const struct entry *entry, int n, struct lvn_safetensors_source *out)
{
    struct part *part = lvn_arena_alloc(a, sizeof *part);
    int *number = lvn_arena_alloc(a, sizeof *number * (size_t)(n + 1));
    struct lvn_safetensors_item *item = lvn_arena_alloc(a, sizeof *item * (size_t)(n + 1));
    if (!part || !number || !item) return LVN_MEMORY;
    for (int i = 0; i < n; i++) {
        number[i] = entry[i].number;
        item[i] = *entry[i].item;
    }
    *part = (struct part){whole, number};
    *out = *whole;
    out->item = item;
    out->n = n;
    out->fetch = whole->fetch ? fetch : NULL;
    out->context = part;
    return LVN_OK;
}

static enum lvn_status make_index(struct lvn_safetensors_shards *shards, struct lvn_arena *a, int64_t total)
{
    LVN_LOCAL_TEXT(t);
    long begun = lvn_json_begin();
    json_t *map = json_object();
    for (int k = 0; k < shards->n; k++)
        for (int i = 0; i < shards->part[k].n; i++)
            json_object_set_new(map, shards->part[k].item[i].name, json_string(shards->name[k]));
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    lvn_json_add(&t, begun, root, 2);
    lvn_text_add(&t, "\n");
    json_decref(root);
    LVN_TRY(lvn_text_status(&t));
    shards->index = lvn_arena_strdup(a, t.p);
    return shards->index ? LVN_OK : LVN_MEMORY;
}

/* The number of entries in the next file. */
static int count_fitting(const struct entry *entry, int n, int64_t max_bytes)
{
    int64_t bytes = entry[0].bytes;
    int k = 1;
    while (k < n && entry[k].bytes <= max_bytes - bytes) bytes += entry[k++].bytes;
    return k;
}

static enum lvn_status split(struct lvn_safetensors_shards *shards, struct lvn_arena *a,
                             const struct lvn_safetensors_source *source, const struct entry *entry, const char *stem,
                             int64_t max_bytes)
{
    int64_t total = 0;
    for (int i = 0, k; i < source->n; i += k) {
        k = count_fitting(entry + i, source->n - i, max_bytes);
        LVN_TRY(make_part(a, source, entry + i, k, &shards->part[shards->n++]));
    }
    for (int i = 0; i < source->n; i++) total += entry[i].bytes;
    for (int k = 0; k < shards->n; k++) {
        shards->name[k] = shards->n == 1 ? lvn_arena_printf(a, "%s.safetensors", stem)
                                         : lvn_arena_printf(a, "%s-%05d-of-%05d.safetensors", stem, k + 1, shards->n);
        if (!shards->name[k]) return LVN_MEMORY;
    }
    return shards->n > 1 ? make_index(shards, a, total) : LVN_OK;
}

enum lvn_status lvn_safetensors_split(struct lvn_safetensors_shards *out, struct lvn_arena *a,
                                      const struct lvn_safetensors_source *source, const char *stem, int64_t max_bytes)
{
    const size_t n = (size_t)source->n + 1;
    struct entry *entry = lvn_calloc(n, sizeof *entry);
    *out = (struct lvn_safetensors_shards){.part = lvn_arena_alloc(a, sizeof *out->part * n),
                                           .name = lvn_arena_alloc(a, sizeof *out->name * n)};
    enum lvn_status status = entry && out->part && out->name ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < source->n; i++) {
        const struct lvn_desc *d = &source->item[i].desc;
        entry[i] = (struct entry){&source->item[i], i, lvn_desc_count(d) * lvn_dtype_bytes(d->dtype)};
    }
    if (status == LVN_OK && source->n) qsort(entry, (size_t)source->n, sizeof *entry, by_order);
    if (status == LVN_OK) status = split(out, a, source, entry, stem, max_bytes);
    free(entry);
    return status;
}
