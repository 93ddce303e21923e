/* codec.h - text to ids and back for a model, whichever way: characters, a tokenizer, or not at all. */
#ifndef LVN_CODEC_H
#define LVN_CODEC_H

#include "base/text.h"
#include "data/vocab.h"
#include "tokenizers/tokenizer.h"

/* At most one is there; without either, ids are all there is. Owns nothing by itself: see lvn_codec_release(). */
struct lvn_codec {
    struct lvn_vocab *vocabulary;
    struct lvn_tokenizer *tokenizer;
};

static inline bool lvn_codec_is_text(const struct lvn_codec *c)
{
    return c->vocabulary || c->tokenizer;
}
/* How many ids it has; 0: it is empty. */
static inline int64_t lvn_codec_size(const struct lvn_codec *c)
{
    return c->vocabulary ? c->vocabulary->n : c->tokenizer ? c->tokenizer->n : 0;
}
/* Frees both. */
void lvn_codec_release(struct lvn_codec *c);
/* What lies in a model directory: state/vocabulary.json, or the files of a tokenizer. Both NULL when there is nothing,
 * or when the tokenizer is of a kind that is not there (a warning is logged). */
enum lvn_status lvn_codec_beside(struct lvn_codec *out, const char *model_dir) LVN_CHECKED;
/* Do two codecs give the same ids? True when one of them is empty. */
bool lvn_codec_agree(const struct lvn_codec *a, const struct lvn_codec *b);

/* Text to ids, which are malloc'd, with the tokens around them that the tokenizer's post-processor adds. `what` is it,
 * for messages. LVN_ARG for ids only. */
enum lvn_status lvn_codec_encode(const struct lvn_codec *c, const char *what, const char *text, int64_t bytes,
                                 int32_t **ids, int64_t *n) LVN_CHECKED;

/* Ids to text, one after the other, without the tokens that the post-processor puts before it: a token may end within a
 * character, so the last bytes can be held back. What never becomes a character, and ids that are none, come as U+FFFD.
 * Ids only: numbers with spaces between them. */
struct lvn_codec_stream {
    char held[4];
    int n;
    bool begun;
};
void lvn_codec_decode(const struct lvn_codec *c, struct lvn_codec_stream *s, int32_t id, struct lvn_text *out);
/* Nothing follows. */
void lvn_codec_decode_end(struct lvn_codec_stream *s, struct lvn_text *out);

#endif
