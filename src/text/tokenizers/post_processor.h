/* post_processor.h - the tokens that a post-processor adds to texts, as BOS, [CLS] and [SEP]. Called where texts are
 * encoded for a model (data/codec.h, data/texts/corpus.h), and by the readers of tokenizer files. See
 * encoder.h for encoding. */
#ifndef LVN_POST_PROCESSOR_H
#define LVN_POST_PROCESSOR_H

#include "formats/json.h"
#include "tokenizers/encoder.h"

/* Number of tokens (BOS, [CLS], [SEP] and the like) that the post-processor adds to one text or to a pair. The commands
 * `generate`, `predict` and `prepare` add them, `tokenize` does not. */
int64_t lvn_post_processor_added_tokens(const struct lvn_tokenizer *t, bool pair);
/* Append the ids of one text (b NULL) or of a pair, truncated by the caller, with the added tokens. types (or NULL):
 * the token types, 0 or 1, of these ids are appended. */
enum lvn_status lvn_post_processor_run(const struct lvn_tokenizer *t, const struct lvn_ids *a, const struct lvn_ids *b,
                                       struct lvn_ids *ids, struct lvn_ids *types) LVN_CHECKED;
/* For a text that is encoded in parts: append the tokens before it, and those after it. */
enum lvn_status lvn_post_processor_prefix(const struct lvn_tokenizer *t, struct lvn_ids *ids) LVN_CHECKED;
enum lvn_status lvn_post_processor_suffix(const struct lvn_tokenizer *t, struct lvn_ids *ids) LVN_CHECKED;
/* Is it one of the tokens before a single text? */
bool lvn_post_processor_is_prefix(const struct lvn_tokenizer *t, int32_t id);
/* Do these ids, of a text with the added tokens, have the last token before the text (as BOS) twice, because the text
 * itself begins with it? */
bool lvn_post_processor_is_doubled(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n);

/* --- for the readers of tokenizer files --- */

/* Read "post_processor"; set BERT's or RoBERTa's one: `first` text `last`. doubled: two `last` between the texts of a
 * pair; typed: the second text has token type 1. */
enum lvn_status lvn_post_processor_read(struct lvn_tokenizer *t, const char *name, const json_t *object) LVN_CHECKED;
void lvn_post_processor_bert(struct lvn_tokenizer *t, int32_t first, int32_t last, bool doubled, bool typed);

#endif
