/* codec.h - text to token ids and back for a model: by characters, by a tokenizer, or not at all (ids only).
 *
 * Called by data sets, inference and the commands. See tokenizers/tokenizer.h for tokenizers. */
#ifndef LVN_CODEC_H
#define LVN_CODEC_H

#include "base/field.h"
#include "base/text.h"
#include "data/vocab.h"
#include "tokenizers/tokenizer.h"

/* At most one of vocabulary and tokenizer is set; without both there are only ids. Often a view of borrowed parts; an
 * owner calls lvn_codec_release(). */
struct lvn_codec {
    struct lvn_vocab *vocabulary;
    struct lvn_tokenizer *tokenizer;
    char *tokenizer_error; /* why the tokenizer could not be read (lvn_tokenizer_open_optional()); NULL: no error */
};

static inline bool lvn_codec_is_text(const struct lvn_codec *c)
{
    return c->vocabulary || c->tokenizer;
}
/* Number of ids; 0: ids only, their number is unknown. */
static inline int64_t lvn_codec_size(const struct lvn_codec *c)
{
    return c->vocabulary ? c->vocabulary->n : c->tokenizer ? c->tokenizer->n : 0;
}
/* Open a folder's tokenizer for a caller that can continue with ids alone. If it cannot be read (damaged, of an
 * unknown kind), return LVN_OK with *t NULL and the reason in *error, which the caller frees. Fails with LVN_MEMORY
 * alone. */
enum lvn_status lvn_tokenizer_open_optional(struct lvn_tokenizer **t, char **error, const char *dir) LVN_CHECKED;
/* LVN_FORMAT with that reason for `user`, the part of the program that needs a tokenizer; LVN_OK if `error` is NULL. */
enum lvn_status lvn_tokenizer_require(const char *error, const char *user) LVN_CHECKED;
/* Log a warning that the tokenizer is not used. NULL: nothing. */
void lvn_tokenizer_warn(const char *error);

/* Free all members. */
void lvn_codec_release(struct lvn_codec *c);
/* Load state/vocabulary.json or the files of a tokenizer from a model directory. All NULL if it has neither. */
enum lvn_status lvn_codec_load(struct lvn_codec *out, const char *model_dir) LVN_CHECKED;
/* Do two codecs give the same ids? True when one of them is empty. */
bool lvn_codec_agree(const struct lvn_codec *a, const struct lvn_codec *b);

/* The bytes of each id's text, to be freed. NULL: ids only. Special tokens, the unknown token and the token that ends
 * documents have none. */
enum lvn_status lvn_codec_token_bytes(const struct lvn_codec *c, struct lvn_token_bytes **out) LVN_CHECKED;

/* Text to ids, including the tokens that the tokenizer's post-processor adds; the caller frees them. `name`: of the
 * text, for messages. LVN_ARG for ids only, LVN_FORMAT if the tokenizer could not be read. */
enum lvn_status lvn_codec_encode(const struct lvn_codec *c, const char *name, const char *text, int64_t bytes,
                                 int32_t **ids, int64_t *n) LVN_CHECKED;

/* Decodes ids one by one, without the tokens that the post-processor adds at the beginning. A token may end within a
 * character; its bytes are held back until the character is complete. Invalid bytes and invalid ids become U+FFFD. Ids
 * only: decimal numbers separated by spaces. */
struct lvn_codec_stream {
    char pending[4]; /* bytes of an incomplete character */
    int n;           /* number of pending bytes */
    bool started;    /* at least one id was decoded */
};
void lvn_codec_decode(const struct lvn_codec *c, struct lvn_codec_stream *s, int32_t id, struct lvn_text *out);
/* No more ids follow: writes U+FFFD for pending bytes. */
void lvn_codec_decode_end(struct lvn_codec_stream *s, struct lvn_text *out);

#endif
