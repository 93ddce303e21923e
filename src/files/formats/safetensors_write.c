/* safetensors_write.c - writes safetensors (safetensors.h) in one pass over the tensors, with checksums; or computes
 * its layout. */
#include <pthread.h>
#include <unistd.h>

#include "base/output.h"
#include "base/text.h"
#include "base/threads.h"
#include "formats/json.h"
#include "formats/safetensors.h"

/* An item with its index in the caller's list, for sorting. */
struct slot {
    const struct lvn_safetensors_item *item;
    int index;
    int64_t bytes;
};

/* The order of the reference implementation. */
int lvn_safetensors_order(const struct lvn_safetensors_item *a, const struct lvn_safetensors_item *b)
{
    const int64_t difference = lvn_dtype_bytes(b->desc.dtype) - lvn_dtype_bytes(a->desc.dtype);
    if (difference) return difference < 0 ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_order(const void *a, const void *b)
{
    return lvn_safetensors_order(((const struct slot *)a)->item, ((const struct slot *)b)->item);
}

static enum lvn_status sort_items(const char *path, const struct lvn_safetensors_source *source, struct slot *slot)
{
    for (int i = 0; i < source->n; i++) {
        const struct lvn_safetensors_item *item = &source->item[i];
        slot[i] = (struct slot){.item = item, .index = i};
        int64_t count = lvn_desc_count(&item->desc);
        LVN_CHECK(count >= 0 && !__builtin_mul_overflow(count, lvn_dtype_bytes(item->desc.dtype), &slot[i].bytes),
                  SHAPE, "'%s', tensor '%s': its shape has more elements than can be counted", path, item->name);
        LVN_CHECK(item->data || source->fetch || !slot[i].bytes, INTERNAL, "'%s', tensor '%s' has no data", path,
                  item->name);
        LVN_CHECK(strcmp(item->name, "__metadata__") != 0 &&
                      lvn_utf8_check(item->name, (int64_t)strlen(item->name)) < 0,
                  ARG, "'%s': '%s' cannot be the name of a tensor", path, item->name);
    }
    if (source->n) qsort(slot, (size_t)source->n, sizeof *slot, by_order);
    return LVN_OK;
}

static json_t *make_entry(const struct slot *slot, int64_t begin)
{
    static const char *const dtype[] = {
#define LVN_X(c, text, bytes, safetensors) [LVN_##c] = (safetensors),
        LVN_DTYPE_MAP(LVN_X)
#undef LVN_X
    };
    const struct lvn_desc *d = &slot->item->desc;
    json_t *shape = json_array();
    for (int i = 0; i < d->rank; i++) json_array_append_new(shape, json_integer(d->dim[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype[d->dtype], "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)begin + (json_int_t)slot->bytes);
}

/* Add the header, preceded by its length and padded to 8 bytes, to `t`. */
static enum lvn_status make_header(const char *path, const struct lvn_safetensors_source *source,
                                   const struct slot *slot, long begun, json_t *header, struct lvn_text *t)
{
    static const char *const pt[][2] = {{"format", "pt"}};
    const char *const(*metadata)[2] = source->metadata ? source->metadata : pt;
    json_t *pairs = json_object();
    for (int i = 0; i < (source->metadata ? source->n_metadata : 1); i++)
        json_object_set_new(pairs, metadata[i][0], json_string(metadata[i][1]));
    if (json_object_size(pairs)) json_object_set(header, "__metadata__", pairs);
    json_decref(pairs);
    int64_t at = 0;
    for (int i = 0; i < source->n; i++) {
        const char *name = slot[i].item->name;
        LVN_CHECK(!json_object_get(header, name), ARG, "'%s': two tensors have the name '%s'", path, name);
        LVN_CHECK(json_object_set_new(header, name, make_entry(&slot[i], at)) == 0, MEMORY,
                  "not enough memory for the header of '%s'", path);
        LVN_CHECK(!__builtin_add_overflow(at, slot[i].bytes, &at), SHAPE, "'%s' would be too large for any disk", path);
    }
    lvn_text_add_bytes(t, "\0\0\0\0\0\0\0\0", 8);
    lvn_json_add(t, begun, header, 0);
    while (t->n % 8 && !t->failed) lvn_text_add(t, " ");
    LVN_TRY(lvn_text_status(t));
    uint64_t length = (uint64_t)t->n - 8;
    for (int i = 0; i < 8; i++) t->p[i] = (char)(length >> (8 * i));
    return LVN_OK;
}

/* Computes the checksums of the tensors in memory in a second thread: while the processors are busy computing, short
 * interruptions of two of them cost less than a long one of one. */
struct checksum_job {
    const struct slot *slot;
    int n;
    uint64_t *sum;
};

static void *checksum_tensors(void *context)
{
    const struct checksum_job *job = context;
    for (int i = 0; i < job->n; i++)
        if (job->slot[i].item->data) job->sum[i] = lvn_checksum(job->slot[i].item->data, job->slot[i].bytes);
    return NULL;
}

static enum lvn_status write_tensor(struct lvn_output *output, const struct lvn_safetensors_source *source,
                                    const struct slot *slot, uint64_t *sum)
{
    const void *data = slot->item->data;
    const bool fetched = !data && slot->bytes;
    if (fetched)
        LVN_TRY_WHILE(source->fetch(source->context, slot->index, &data), "fetching tensor '%s'", slot->item->name);
    LVN_TRY_WHILE(lvn_output_write(output, data, slot->bytes), "writing tensor '%s'", slot->item->name);
    if (sum && !slot->item->data) *sum = lvn_checksum(data, slot->bytes);
    return LVN_OK;
}

static enum lvn_status write_tensors(struct lvn_output *output, const struct lvn_safetensors_source *source,
                                     const struct slot *slot, struct lvn_safetensors_sums *sums)
{
    for (int i = 0; i < source->n; i++) LVN_TRY(write_tensor(output, source, &slot[i], sums ? &sums->tensor[i] : NULL));
    return LVN_OK;
}

static enum lvn_status write_data(struct lvn_output *output, const struct lvn_safetensors_source *source,
                                  const struct slot *slot, struct lvn_safetensors_sums *sums)
{
    pthread_t thread;
    if (!sums) return write_tensors(output, source, slot, NULL);
    struct checksum_job job = {.slot = slot, .n = source->n, .sum = sums->tensor};
    bool in_thread = lvn_thread_start(&thread, checksum_tensors, &job) == 0;
    enum lvn_status status = write_tensors(output, source, slot, sums);
    if (in_thread)
        pthread_join(thread, NULL);
    else
        (void)checksum_tensors(&job);
    return status;
}

/* The sums of a file whose tensors are not written yet. */
static enum lvn_status make_sums(struct lvn_safetensors_sums *sums, const struct lvn_text *header, int n,
                                 const struct slot *slot, struct lvn_arena *a)
{
    const size_t capacity = (size_t)n + 1;
    *sums = (struct lvn_safetensors_sums){.bytes = header->n, .data_start = header->n, .n = n};
    sums->header = lvn_checksum(header->p, header->n);
    sums->name = lvn_arena_alloc(a, capacity * sizeof *sums->name);
    sums->tensor = lvn_arena_alloc(a, capacity * sizeof *sums->tensor);
    sums->tensor_bytes = lvn_arena_alloc(a, capacity * sizeof *sums->tensor_bytes);
    if (!sums->name || !sums->tensor || !sums->tensor_bytes) return LVN_MEMORY;
    for (int i = 0; i < n; i++) {
        sums->tensor[i] = 0;
        sums->tensor_bytes[i] = slot[i].bytes;
        sums->bytes += slot[i].bytes;
        sums->name[i] = lvn_arena_strdup(a, slot[i].item->name);
        if (!sums->name[i]) return LVN_MEMORY;
    }
    return LVN_OK;
}

static enum lvn_status write_file(const char *path, const struct lvn_text *header,
                                  const struct lvn_safetensors_source *source, const struct slot *slot,
                                  struct lvn_arena *a, struct lvn_safetensors_sums *sums)
{
    if (sums) LVN_TRY(make_sums(sums, header, source->n, slot, a));
    struct lvn_output output;
    LVN_TRY(lvn_output_open(&output, path));
    output.no_sync = source->no_sync;
    if (source->no_sync) lvn_output_bypass_cache(&output);
    enum lvn_status status = lvn_output_write(&output, header->p, header->n);
    if (status == LVN_OK) status = write_data(&output, source, slot, sums);
    if (status != LVN_OK && output.status == LVN_OK) output.status = status; /* skip the fsync */
    status = lvn_output_close(&output);
    if (status != LVN_OK) unlink(path);
    return status;
}

/* Sort the items into `slot` [n], and make the header. */
static enum lvn_status begin_file(const char *path, const struct lvn_safetensors_source *source, struct slot *slot,
                                  struct lvn_text *header)
{
    long begun = lvn_json_begin();
    json_t *object = json_object();
    enum lvn_status status = sort_items(path, source, slot);
    if (status == LVN_OK) status = make_header(path, source, slot, begun, object, header);
    json_decref(object);
    return status;
}

enum lvn_status lvn_safetensors_write(const char *path, const struct lvn_safetensors_source *source,
                                      struct lvn_arena *a, struct lvn_safetensors_sums *sums)
{
    struct slot *slot = lvn_calloc((size_t)source->n, sizeof *slot);
    if (!slot) return LVN_MEMORY;
    LVN_LOCAL_TEXT(header);
    enum lvn_status status = begin_file(path, source, slot, &header);
    if (status == LVN_OK) status = write_file(path, &header, source, slot, a, sums);
    free(slot);
    return status;
}

static enum lvn_status make_layout(struct lvn_safetensors_layout *out, const struct lvn_text *header, int n,
                                   const struct slot *slot, struct lvn_arena *a)
{
    char *copy = lvn_arena_alloc(a, (size_t)header->n);
    int *item = lvn_arena_alloc(a, sizeof *item * ((size_t)n + 1));
    int64_t *at = lvn_arena_alloc(a, sizeof *at * ((size_t)n + 1)), next = header->n;
    if (!copy || !item || !at) return LVN_MEMORY;
    memcpy(copy, header->p, (size_t)header->n);
    for (int i = 0; i < n; i++) {
        item[i] = slot[i].index;
        at[i] = next;
        next += slot[i].bytes;
    }
    *out = (struct lvn_safetensors_layout){.header = copy, .item = item, .at = at};
    return make_sums(&out->sums, header, n, slot, a);
}

enum lvn_status lvn_safetensors_lay_out(struct lvn_safetensors_layout *out, const char *path,
                                        const struct lvn_safetensors_source *source, struct lvn_arena *a)
{
    struct slot *slot = lvn_calloc((size_t)source->n, sizeof *slot);
    if (!slot) return LVN_MEMORY;
    LVN_LOCAL_TEXT(header);
    enum lvn_status status = begin_file(path, source, slot, &header);
    if (status == LVN_OK) status = make_layout(out, &header, source->n, slot, a);
    free(slot);
    return status;
}
