/* encoder_private.h - the state of one thread that encodes text; for src/text/tokenizers alone.
 *
 * A direct-mapped cache holds the ids of pieces of up to 24 bytes; a new piece replaces an older one. An entry is two
 * cache lines; most pieces need the first alone. In running text more than 99 of 100 pieces are in the cache. */
#ifndef LVN_ENCODER_PRIVATE_H
#define LVN_ENCODER_PRIVATE_H

#include "tokenizers/encoder.h"
#include "tokenizers/unigram.h"

enum { LVN_CACHE_KEY_BYTES = 24, LVN_CACHE_BITS = 15 };

struct lvn_cache_entry {
    uint64_t key[3]; /* the piece, padded with zeros */
    uint8_t bytes;   /* of the piece; 0: free; highest bit set: encoded with LVN_ENCODE_SPECIAL */
    uint8_t n;       /* ids */
    int32_t id[LVN_CACHE_KEY_BYTES];
} __attribute__((aligned(128)));

struct lvn_encoder {
    const struct lvn_tokenizer *t;
    struct lvn_cache_entry *cache; /* [1 << LVN_CACHE_BITS] */
    struct lvn_bpe_scratch bpe;
    struct lvn_unigram_scratch unigram;
    struct lvn_normalizer_scratch normalizer;
    struct lvn_pre_tokenizer_scratch pre_tokenizer[LVN_PRE_TOKENIZER_MAX];
    enum lvn_encoding mode; /* of the current text */
    struct lvn_encoder_notes notes;
    const uint8_t *marks;                /* of the current text; NULL: without marks */
    const uint8_t *marked;               /* the text of the marks */
    int64_t n_special;                   /* recognized in it */
    bool *written;                       /* the special tokens in the part that is normalized: not content? */
    int64_t n_written, written_capacity; /* of these */
    int64_t n_seen;                      /* of these, found in the normalized part */
};

/* Set t->added_raw and t->added_normalized from t->added; patterns of the latter are normalized. */
enum lvn_status lvn_added_sets(struct lvn_tokenizer *t) LVN_CHECKED;

#endif
