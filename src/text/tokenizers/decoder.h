/* decoder.h - token ids to text. Called by data/codec.h, which inference uses, and by `levin tokenize`. */
#ifndef LVN_DECODER_H
#define LVN_DECODER_H

#include "formats/json.h"
#include "tokenizers/tokenizer.h"

/* The bytes of a token within a text; NULL if there is no such id. */
const void *lvn_token_bytes(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes);
/* The same of the first token of a text, whose leading space some decoders remove. */
const void *lvn_token_bytes_first(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes);
/* Append the text of n tokens. LVN_ARG for an invalid id. */
enum lvn_status lvn_decode(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n,
                           struct lvn_text *out) LVN_CHECKED;

/* --- for the readers of tokenizer files --- */

/* Read "decoder", and set t->decoded; the same for a WordPiece without tokenizer.json. */
enum lvn_status lvn_decoder_read(struct lvn_tokenizer *t, const char *name, const json_t *object) LVN_CHECKED;
enum lvn_status lvn_decoder_wordpiece(struct lvn_tokenizer *t) LVN_CHECKED;

#endif
