/* encoder.h - one thread's way to use a tokenizer; for src/tokenizers alone.
 *
 * Pieces of up to 24 bytes are remembered with their ids in a table; a new piece takes the place of an older one. An
 * entry is two cache lines, of which most pieces need the first alone. In running text more than 99 of 100 pieces are
 * found there. */
#ifndef LVN_ENCODER_H
#define LVN_ENCODER_H

#include "tokenizers/tokenizer.h"
#include "tokenizers/unigram.h"

enum { LVN_KEY_BYTES = 24, LVN_ENTRY_BITS = 15 };

struct lvn_piece_entry {
    uint64_t key[3];
    uint8_t bytes, n; /* bytes 0: free; the highest bit: of a text with special tokens */
    int32_t id[LVN_KEY_BYTES];
} __attribute__((aligned(128)));

struct lvn_encoder {
    const struct lvn_tokenizer *t;
    struct lvn_piece_entry *entry; /* [1 << LVN_ENTRY_BITS] */
    struct lvn_bpe_scratch scratch;
    struct lvn_unigram_scratch ways;
    struct lvn_normal_scratch normal;
    struct lvn_pre_scratch pre[LVN_PRE_MAX];
    enum lvn_encoding how; /* of the text at hand */
};

/* encode_pieces.c: append the ids of normalized text without added tokens. `begins`: the whole text begins here. */
enum lvn_status lvn_encode_pieces(struct lvn_encoder *e, const uint8_t *p, int64_t n, bool begins,
                                  struct lvn_ids *ids) LVN_CHECKED;

#endif
