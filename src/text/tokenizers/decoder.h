/* decoder.h - token ids to text. Called by data/codec.h, which inference uses, and by `levin tokenize`. */
#ifndef LVN_DECODER_H
#define LVN_DECODER_H

#include "formats/json.h"
#include "tokenizers/tokenizer.h"

/* The bytes of a token within a text; NULL if there is no such id. */
const void *lvn_token_bytes(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes);
/* The same for the first token of a text, whose leading space some decoders remove. */
const void *lvn_token_bytes_first(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes);
/* Append the text of n tokens. LVN_ARG for an invalid id. */
enum lvn_status lvn_decode(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n,
                           struct lvn_text *out) LVN_CHECKED;

/* --- for the readers of tokenizer files --- */

/* Read "decoder" of tokenizer.json. lvn_decoder_run() must follow, as after the next two functions. */
enum lvn_status lvn_decoder_read(struct lvn_tokenizer *t, const char *name, const json_t *object) LVN_CHECKED;
/* Set the decoders of a WordPiece without tokenizer.json. */
enum lvn_status lvn_decoder_wordpiece(struct lvn_tokenizer *t) LVN_CHECKED;
/* Set those of SentencePiece's BPE. strips: remove the first space of a text. */
enum lvn_status lvn_decoder_sentencepiece(struct lvn_tokenizer *t, bool strips) LVN_CHECKED;
/* Set t->decoded: all tokens, decoded. An added token that is searched in normalized text is decoded in normalized
 * form. */
enum lvn_status lvn_decoder_run(struct lvn_tokenizer *t) LVN_CHECKED;

#endif
