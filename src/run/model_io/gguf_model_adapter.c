/* gguf_model_adapter.c - see gguf_model.h: adapters alone as a GGUF file, which llama.cpp adds to their base model
 * (`llama-cli --lora`). A layer NAME has NAME.lora_a (rank, inputs) and NAME.lora_b (outputs, rank), with its rows in
 * the order of the base's GGUF file. */

#include "model_io/gguf_model.h"
#include "model_io/pretrained_private.h"
#include "models/lora.h"

struct writer {
    const struct lvn_pretrained *p;
    const struct lvn_model *names; /* of tensors in GGUF files */
    struct lvn_arena arena;
    struct lvn_safetensors_item *item;
    int n;
    int tensors; /* of the adapters' file that are written */
};

static void transpose(const float *from, int64_t rows, int64_t columns, const int32_t *row_of, float *to)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) to[(row_of ? row_of[c] : c) * rows + r] = from[r * columns + c];
}

/* Add A as (rank, inputs) or B as (outputs, rank). Adapters of a head have this order in memory; all others are
 * transposed. row_of: order of B's rows in the file. */
static enum lvn_status add_half(struct writer *x, const struct lvn_param *q, char which, const char *name,
                                const int32_t *row_of)
{
    const struct lvn_adapter_files *files = &x->p->adapters;
    struct lvn_layout l;
    LVN_TRY(lvn_adapter_layout(x->p->variant, &x->p->config, q, files->lora.rank, which, &l));
    const int64_t rows = l.desc.dim[1], columns = l.desc.dim[0];
    const bool in_out = (l.flags & LVN_FILE_TRANSPOSED) != 0;
    const struct lvn_weight *t = lvn_adapter_find(files, x->p->variant, &l);
    float *memory = lvn_arena_alloc(&x->arena, sizeof *memory * (size_t)(rows * columns)),
          *scratch = lvn_arena_alloc(&x->arena, sizeof *scratch * (size_t)(rows * columns));
    const char *full = lvn_arena_printf(&x->arena, "%s.lora_%c", name, which == 'A' ? 'a' : 'b');
    if (!memory || !scratch || !full) return LVN_MEMORY;
    LVN_TRY(lvn_adapter_read(t, &l, memory, scratch));
    if (in_out) transpose(memory, rows, columns, row_of, scratch);
    x->item[x->n++] = (struct lvn_safetensors_item){
        .name = full, .desc = LVN_DESC(LVN_F32, columns, rows), .data = in_out ? scratch : memory};
    x->tensors++;
    return LVN_OK;
}

static enum lvn_status add(struct writer *x, const struct lvn_param *q)
{
    struct lvn_layout l;
    if (q->desc.rank != 2) return LVN_OK;
    LVN_TRY(lvn_adapter_layout(x->p->variant, &x->p->config, q, x->p->adapters.lora.rank, 'A', &l));
    if (!lvn_adapter_find(&x->p->adapters, x->p->variant, &l)) return LVN_OK;
    LVN_TRY(lvn_file_layout(x->names, &x->p->config, q, &l));
    int32_t *row_of = lvn_arena_alloc(&x->arena, sizeof *row_of * (size_t)l.desc.dim[0]);
    if (!row_of) return LVN_MEMORY;
    lvn_layout_rows(&l, row_of);
    LVN_TRY(add_half(x, q, 'A', l.name, NULL));
    return add_half(x, q, 'B', l.name, row_of);
}

static enum lvn_status add_all(struct writer *x)
{
    struct lvn_params *params;
    LVN_TRY(lvn_model_params_new(&params, &x->p->config));
    x->item = lvn_arena_alloc(&x->arena, sizeof *x->item * (size_t)(2 * params->n + 1));
    enum lvn_status status = x->item ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < params->n; i++) status = add(x, params->list[i]);
    lvn_params_free(params);
    return status;
}

static enum lvn_status write_file(struct writer *x, const char *path, const char *name,
                                  const struct lvn_gguf_type *type)
{
    const struct lvn_adapter_files *files = &x->p->adapters;
    const struct lvn_lora *lora = &files->lora;
    const char *architecture = x->p->config.model->gguf->architecture;
    x->names = lvn_gguf_variant(&x->arena, x->p->config.model);
    if (!x->names) return LVN_MEMORY;
    LVN_TRY(add_all(x));
    for (int i = 0; i < files->weights.n; i++) {
        const char *tensor = files->weights.tensor[i].name;
        LVN_CHECK(strstr(tensor, ".lora_"), UNSUPPORTED,
                  "'%s' has '%.120s', but GGUF files of adapters have only pairs of low-rank matrices: write the "
                  "merged model, without --adapter",
                  files->path, tensor);
    }
    LVN_CHECK(x->tensors == files->weights.n, UNSUPPORTED,
              "'%s' has %d tensors, of which %d are adapters of linear layers, and GGUF files of adapters have no "
              "others: write the merged model, without --adapter",
              files->path, files->weights.n, x->tensors);
    struct lvn_gguf_writer w = {0};
    lvn_gguf_put_string(&w, "general.architecture", architecture, (int64_t)strlen(architecture));
    lvn_gguf_put_string(&w, "general.type", "adapter", 7);
    lvn_gguf_put_string(&w, "general.name", name, (int64_t)strlen(name));
    lvn_gguf_put_string(&w, "adapter.type", "lora", 4);
    /* llama.cpp's scale is alpha / rank */
    lvn_gguf_put_real(&w, "adapter.lora.alpha", lora->rslora ? lora->alpha * sqrt((double)lora->rank) : lora->alpha);
    lvn_gguf_put_int(&w, "general.file_type", LVN_GGUF_U32, type->file_type);
    const struct lvn_safetensors_source source = {.item = x->item, .n = x->n};
    enum lvn_status status = lvn_gguf_write(path, &w, &source, type);
    lvn_gguf_writer_release(&w);
    return status;
}

enum lvn_status lvn_gguf_adapter_write(const char *path, const struct lvn_pretrained *p, const char *name,
                                       const struct lvn_gguf_type *type)
{
    struct writer x = {.p = p};
    LVN_TRY(lvn_gguf_model_check(&p->config));
    lvn_arena_init(&x.arena);
    enum lvn_status status = write_file(&x, path, name, type);
    lvn_arena_release(&x.arena);
    return status;
}
