/* encoders.h - encodes one long text with several threads. Called by `levin tokenize` and text_prepare.c.
 *
 * The text is cut into slices at positions that no piece crosses, the same ones for any number of threads; slice[i] has
 * the ids of slice i, in order. */
#ifndef LVN_ENCODERS_H
#define LVN_ENCODERS_H

#include "tokenizers/encoder.h"

enum { LVN_SLICE_BYTES = 1 << 20 };

struct lvn_encoders {
    const struct lvn_tokenizer *t;
    int n_threads;
    struct lvn_encoder **encoder; /* [n_threads] */
    struct lvn_ids *slice;        /* [capacity] */
    int64_t n_slices;             /* of the last text */
    int64_t capacity;
};

enum lvn_status lvn_encoders_open(struct lvn_encoders *e, const struct lvn_tokenizer *t, int n_threads) LVN_CHECKED;
void lvn_encoders_close(struct lvn_encoders *e);
/* lvn_encoder_take_notes() of all threads; special_id is the smallest one, so that it does not depend on them. */
struct lvn_encoder_notes lvn_encoders_take_notes(struct lvn_encoders *e);
/* Encode the text. more: further text follows, so only the part before the last possible cut is encoded. *used: bytes
 * that were encoded (0 if there is no possible cut). */
enum lvn_status lvn_encoders_run(struct lvn_encoders *e, const void *text, int64_t bytes, bool more,
                                 enum lvn_encoding mode, int64_t *used) LVN_CHECKED;

#endif
