/* encoder.h - text to token ids. Who reads text (data/codec.h, data/corpus.h, parallel.h) makes one for each thread.
 *
 * Added tokens are extracted from the text, the rest is normalized, split into pieces and encoded by the model. Left
 * out: the tokens that a post-processor adds (post_processor.h). */
#ifndef LVN_ENCODER_H
#define LVN_ENCODER_H

#include "tokenizers/tokenizer.h"

struct lvn_ids {
    int32_t *p;
    int64_t n, capacity;
};
void lvn_ids_release(struct lvn_ids *ids);
enum lvn_status lvn_ids_reserve(struct lvn_ids *ids, int64_t more) LVN_CHECKED;

/* Added tokens that an encoder recognises in text. ORDINARY ignores special ones (for training data). */
enum lvn_encoding { LVN_ENCODE_ORDINARY, LVN_ENCODE_SPECIAL };

struct lvn_encoder;
struct lvn_encoder *lvn_encoder_new(const struct lvn_tokenizer *t); /* NULL: out of memory */
void lvn_encoder_free(struct lvn_encoder *e);
/* Appends the ids of a text, without the post-processor's tokens. */
enum lvn_status lvn_encode(struct lvn_encoder *e, const void *text, int64_t bytes, enum lvn_encoding mode,
                           struct lvn_ids *ids) LVN_CHECKED;

/* Do the parts of a text that is cut at lvn_split_safe() have the same ids as the whole? */
bool lvn_tokenizer_can_cut(const struct lvn_tokenizer *t);

#endif
