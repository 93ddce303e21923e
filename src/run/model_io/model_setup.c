/* model_setup.c - see model_setup.h. */
#include "model_io/model_setup.h"

#include "tokenizers/tokenizer_config.h"

enum lvn_status lvn_model_padding(struct lvn_model_config *c, const struct lvn_codec *codec)
{
    json_t *named;
    if (!codec->tokenizer) return LVN_OK;
    const enum lvn_status status = lvn_tokenizer_named(codec->tokenizer, &named);
    const int64_t pad = lvn_tokenizer_named_id(codec->tokenizer, named, "pad_token");
    json_decref(named);
    LVN_TRY(status);
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
