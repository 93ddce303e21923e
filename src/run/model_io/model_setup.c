/* model_setup.c - see model_setup.h. */
#include "model_io/model_setup.h"

#include <stdlib.h>
#include <string.h>

#include "formats/json.h"

/* The id of the tokenizer's pad_token; -1: it has none. */
static enum lvn_status find_pad(const struct lvn_tokenizer *t, int64_t *id)
{
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json"};
    *id = -1;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < t->n_files && *id < 0; k++) {
            const struct lvn_tokenizer_file *f = &t->file[k];
            json_error_t error;
            json_t *root = NULL;
            if (strcmp(f->name, names[i]) != 0) continue;
            LVN_TRY(lvn_json_load(f->text, f->bytes, 0, &root, &error));
            const json_t *pad = json_object_get(root, "pad_token");
            if (json_is_object(pad)) pad = json_object_get(pad, "content");
            const char *text = json_string_value(pad);
            if (text) *id = lvn_tokenizer_find(t, text, (int64_t)strlen(text));
            json_decref(root);
        }
    return LVN_OK;
}

enum lvn_status lvn_model_padding(struct lvn_model_config *c, const struct lvn_codec *codec)
{
    int64_t pad;
    if (!codec->tokenizer) return LVN_OK;
    LVN_TRY(find_pad(codec->tokenizer, &pad));
    const struct lvn_template *f = &codec->tokenizer->single;
    const struct lvn_template_piece *last = f->n ? &f->piece[f->n - 1] : NULL;
    const bool ends = last && last->kind == LVN_TEMPLATE_TOKEN && last->id == c->end_id;
    c->pad_id = pad >= 0 ? pad : ends ? LVN_PAD_NONE : LVN_PAD_END;
    return LVN_OK;
}

struct lvn_codec lvn_model_setup_codec(const struct lvn_model_setup *m)
{
    struct lvn_codec of_data = m->data ? lvn_dataset_codec(m->data) : m->codec;
    return lvn_codec_is_text(&of_data) ? of_data : m->codec;
}

void lvn_model_setup_close(struct lvn_model_setup *m)
{
    lvn_dataset_close(m->data);
    if (m->has_pretrained) lvn_pretrained_close(&m->pretrained);
    lvn_codec_release(&m->codec);
    free(m->token_bytes);
    free(m->downloaded);
    *m = (struct lvn_model_setup){0};
}

enum lvn_status lvn_model_setup_quantize(struct lvn_model_setup *m, bool quantize)
{
    return (quantize || m->config.n_stored) && m->has_pretrained
               ? lvn_pretrained_keep_adapters(&m->pretrained, &m->config)
               : LVN_OK;
}
