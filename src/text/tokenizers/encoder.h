/* encoder.h - text to token ids. Readers of text (data/codec.h, texts/corpus.h, encoders.h) make one for each thread.
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

/* Added tokens that an encoder recognizes in text. ORDINARY ignores special ones (for training data). */
enum lvn_encoding { LVN_ENCODE_ORDINARY, LVN_ENCODE_SPECIAL };

/* Counts of tokens in the texts that were encoded. */
struct lvn_encoder_notes {
    int64_t special;    /* special tokens whose text LVN_ENCODE_ORDINARY encoded as ordinary text */
    int64_t special_id; /* of the first one; undefined without any */
    int64_t ids;        /* that texts became */
    int64_t unknown;    /* of these, the token for unknown text */
};

struct lvn_encoder;
struct lvn_encoder *lvn_encoder_new(const struct lvn_tokenizer *t); /* NULL: out of memory */
void lvn_encoder_free(struct lvn_encoder *e);
/* Append the ids of a text, without the post-processor's tokens. */
enum lvn_status lvn_encode(struct lvn_encoder *e, const void *text, int64_t bytes, enum lvn_encoding mode,
                           struct lvn_ids *ids) LVN_CHECKED;
/* For a text of which some bytes are content (marks[i] & 1): a special token is recognized only where none of its bytes
 * is content, other added tokens everywhere. *n_special: the special tokens that were recognized. LVN_UNSUPPORTED if
 * normalization makes it impossible to say where a special token comes from. */
enum lvn_status lvn_encode_marked(struct lvn_encoder *e, const void *text, int64_t bytes, const uint8_t *marks,
                                  struct lvn_ids *ids, int64_t *n_special) LVN_CHECKED;
/* Those of all texts since the last call. */
struct lvn_encoder_notes lvn_encoder_take_notes(struct lvn_encoder *e);
void lvn_encoder_notes_add(struct lvn_encoder_notes *sum, struct lvn_encoder_notes more);
/* Log how many tokens of the texts `name` are unknown; warn if they are many. few: the text is short, such as a prompt;
 * then nothing is logged but the warning, and that only once. */
void lvn_encoder_notes_report(const struct lvn_tokenizer *t, const char *name, int64_t unknown, int64_t ids, bool few);

/* Do the parts of a text that is cut at lvn_split_safe() have the same ids as the whole? */
bool lvn_tokenizer_can_cut(const struct lvn_tokenizer *t);

#endif
