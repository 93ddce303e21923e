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
    char *unread; /* why the tokenizer that is there could not be read: see lvn_tokenizer_try(); NULL: none is, or it
                     was */
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
/* Open a folder's tokenizer where ids may do without it: one that cannot be read (damaged, of a kind that is not there)
 * leaves *t NULL and the reason in *unread, which is malloc'd, and is no failure. LVN_MEMORY is. */
enum lvn_status lvn_tokenizer_try(struct lvn_tokenizer **t, char **unread, const char *dir) LVN_CHECKED;
/* LVN_FORMAT with that reason, for `what`, which takes a tokenizer; LVN_OK where `unread` is NULL. */
enum lvn_status lvn_tokenizer_needed(const char *unread, const char *what) LVN_CHECKED;
/* Say that it is not used, where that is no failure. */
void lvn_tokenizer_note(const char *unread);

/* Frees all of them. */
void lvn_codec_release(struct lvn_codec *c);
/* What lies in a model directory: state/vocabulary.json, or the files of a tokenizer. All NULL when there is nothing.
 */
enum lvn_status lvn_codec_beside(struct lvn_codec *out, const char *model_dir) LVN_CHECKED;
/* Do two codecs give the same ids? True when one of them is empty. */
bool lvn_codec_agree(const struct lvn_codec *a, const struct lvn_codec *b);

/* Text to ids, which are malloc'd, with the tokens around them that the tokenizer's post-processor adds. `what` is it,
 * for messages. LVN_ARG for ids only, LVN_FORMAT where the tokenizer could not be read. */
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
