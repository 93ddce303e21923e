/* torch_write.c - see torch_write.h. Sizes and checksums of members follow their data, so that the file is written in
 * one pass; the central directory at the end repeats them. */
#include "formats/torch_write.h"

#include <unistd.h>

#include "base/output.h"
#include "base/text.h"
#include "formats/crc.h"

enum { FOLLOWS = 0x0808 }; /* flags: sizes follow the data, names are UTF-8 */

struct archive {
    struct lvn_output output;
    struct lvn_text directory;
    int members;
};

/* --- the archive --- */

static void add_number(struct lvn_text *t, uint64_t x, int bytes)
{
    for (; bytes--; x >>= 8) lvn_text_add_bytes(t, &(char){(char)(x & 255)}, 1);
}

static enum lvn_status add_member(struct archive *archive, const char *name, const void *data, int64_t bytes)
{
    struct lvn_text head = {0}, tail = {0};
    uint64_t at = (uint64_t)archive->output.bytes, length = strlen(name);
    uint32_t sum = lvn_crc32(0, data, bytes);
    LVN_CHECK(at + (uint64_t)bytes < UINT32_MAX - (1u << 20), UNSUPPORTED,
              "'%s' would be larger than 4 GiB, which is not supported; write a directory instead",
              archive->output.path);
    lvn_text_add(&head, "PK\3\4");
    add_number(&head, 20, 2);
    add_number(&head, FOLLOWS, 2);
    add_number(&head, 0, 18);
    add_number(&head, length, 2);
    add_number(&head, 0, 2);
    lvn_text_add(&head, name);
    lvn_text_add(&tail, "PK\7\10");
    add_number(&tail, sum, 4);
    add_number(&tail, (uint64_t)bytes, 4);
    add_number(&tail, (uint64_t)bytes, 4);
    struct lvn_text *d = &archive->directory;
    lvn_text_add(d, "PK\1\2");
    add_number(d, 20, 2);
    add_number(d, 20, 2);
    add_number(d, FOLLOWS, 2);
    add_number(d, 0, 6);
    add_number(d, sum, 4);
    add_number(d, (uint64_t)bytes, 4);
    add_number(d, (uint64_t)bytes, 4);
    add_number(d, length, 2);
    add_number(d, 0, 12);
    add_number(d, at, 4);
    lvn_text_add(d, name);
    archive->members++;
    enum lvn_status status = lvn_text_status(&head);
    if (status == LVN_OK) status = lvn_text_status(&tail);
    if (status == LVN_OK) status = lvn_output_write(&archive->output, head.p, head.n);
    if (status == LVN_OK) status = lvn_output_write(&archive->output, data, bytes);
    if (status == LVN_OK) status = lvn_output_write(&archive->output, tail.p, tail.n);
    lvn_text_release(&head);
    lvn_text_release(&tail);
    return status;
}

static enum lvn_status finish(struct archive *archive)
{
    struct lvn_text *d = &archive->directory;
    uint64_t at = (uint64_t)archive->output.bytes, bytes = (uint64_t)d->n;
    lvn_text_add(d, "PK\5\6");
    add_number(d, 0, 4);
    add_number(d, (uint64_t)archive->members, 2);
    add_number(d, (uint64_t)archive->members, 2);
    add_number(d, bytes, 4);
    add_number(d, at, 4);
    add_number(d, 0, 2);
    LVN_TRY(lvn_text_status(d));
    return lvn_output_write(&archive->output, d->p, d->n);
}

/* --- the pickle --- */

static void add_text(struct lvn_text *t, const char *text)
{
    lvn_text_add(t, "X");
    add_number(t, strlen(text), 4);
    lvn_text_add(t, text);
}

static void add_int(struct lvn_text *t, int64_t x)
{
    lvn_text_add(t, "\x8a\x08");
    add_number(t, (uint64_t)x, 8);
}

static void add_real(struct lvn_text *t, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    lvn_text_add(t, "G");
    add_number(t, __builtin_bswap64(bits), 8); /* big-endian */
}

/* A tensor whose values are in the member data/NUMBER. */
static void add_tensor(struct lvn_text *t, const struct lvn_desc *desc, int number)
{
    char key[16];
    struct lvn_desc d = lvn_desc_make(LVN_F32, desc->rank, desc->dim);
    snprintf(key, sizeof key, "%d", number);
    lvn_text_add(t, "ctorch._utils\n_rebuild_tensor_v2\n((");
    add_text(t, "storage");
    lvn_text_add(t, "ctorch\nFloatStorage\n");
    add_text(t, key);
    add_text(t, "cpu");
    add_int(t, lvn_desc_count(&d));
    lvn_text_add(t, "tQ");
    add_int(t, 0);
    lvn_text_add(t, "(");
    for (int k = 0; k < d.rank; k++) add_int(t, d.dim[k]);
    lvn_text_add(t, "t(");
    for (int k = 0; k < d.rank; k++) add_int(t, d.stride[k]);
    lvn_text_add(t, "t\x89"
                    "ccollections\nOrderedDict\n)RtR");
}

static enum lvn_status write_pickle(struct archive *archive, const struct lvn_safetensors_source *model,
                                    const struct lvn_torch_arg *args, int n_args)
{
    LVN_LOCAL_TEXT(t);
    lvn_text_add(&t, "\x80\x02");
    if (args) lvn_text_add(&t, "}(");
    if (args) add_text(&t, "model");
    lvn_text_add(&t, "ccollections\nOrderedDict\n)R(");
    for (int i = 0; i < model->n; i++) {
        add_text(&t, model->item[i].name);
        add_tensor(&t, &model->item[i].desc, i);
    }
    lvn_text_add(&t, "u");
    if (args) add_text(&t, "model_args");
    if (args) lvn_text_add(&t, "}(");
    for (int i = 0; args && i < n_args; i++) {
        add_text(&t, args[i].name);
        if (args[i].kind == LVN_TORCH_BOOL) lvn_text_add(&t, args[i].integer ? "\x88" : "\x89");
        if (args[i].kind == LVN_TORCH_INT) add_int(&t, args[i].integer);
        if (args[i].kind == LVN_TORCH_REAL) add_real(&t, args[i].real);
    }
    if (args) lvn_text_add(&t, "u");
    lvn_text_add(&t, args ? "u." : ".");
    enum lvn_status status = lvn_text_status(&t);
    if (status == LVN_OK) status = add_member(archive, "ckpt/data.pkl", t.p, t.n);
    return status;
}

static enum lvn_status write_item(struct archive *archive, const struct lvn_safetensors_source *source, int i)
{
    char name[32];
    const void *data = source->item[i].data;
    snprintf(name, sizeof name, "ckpt/data/%d", i);
    if (!data) LVN_TRY(source->fetch(source->context, i, &data));
    return add_member(archive, name, data, lvn_desc_count(&source->item[i].desc) * (int64_t)sizeof(float));
}

static enum lvn_status write_all(struct archive *archive, const struct lvn_safetensors_source *model,
                                 const struct lvn_torch_arg *args, int n_args)
{
    LVN_TRY(write_pickle(archive, model, args, n_args));
    LVN_TRY(add_member(archive, "ckpt/byteorder", "little", 6));
    for (int i = 0; i < model->n; i++) LVN_TRY(write_item(archive, model, i));
    LVN_TRY(add_member(archive, "ckpt/version", "3\n", 2));
    return finish(archive);
}

enum lvn_status lvn_torch_write(const char *path, const struct lvn_safetensors_source *model,
                                const struct lvn_torch_arg *args, int n_args)
{
    struct archive *archive = lvn_calloc(1, sizeof *archive);
    if (!archive) return LVN_MEMORY;
    enum lvn_status status = lvn_output_open(&archive->output, path);
    if (status == LVN_OK) {
        status = write_all(archive, model, args, n_args);
        if (status != LVN_OK && archive->output.status == LVN_OK) archive->output.status = status; /* skip the fsync */
        status = lvn_output_close(&archive->output);
        if (status != LVN_OK) unlink(path);
    }
    lvn_text_release(&archive->directory);
    free(archive);
    return status;
}
