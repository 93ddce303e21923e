/* parallel.h - one long text to ids by many threads.
 *
 * The text is cut into slices where the split cannot reach over the cut, the same ones for any number of threads; the
 * ids of a slice stand in slice[i], in order. */
#ifndef LVN_PARALLEL_H
#define LVN_PARALLEL_H

#include "tokenizers/tokenizer.h"

enum { LVN_SLICE_BYTES = 1 << 20 };

struct lvn_encoders {
    const struct lvn_tokenizer *t;
    int n_threads;
    struct lvn_encoder **encoder; /* [n_threads] */
    struct lvn_ids *slice;        /* [room] */
    int64_t n_slices, capacity;   /* n_slices: of the last text */
};

enum lvn_status lvn_encoders_open(struct lvn_encoders *e, const struct lvn_tokenizer *t, int n_threads) LVN_CHECKED;
void lvn_encoders_close(struct lvn_encoders *e);
/* Encode the text. With `more` to follow only a beginning is encoded, up to the last place where it can be cut;
 * *used: how many bytes that was (0 when there is no such place). */
enum lvn_status lvn_encoders_run(struct lvn_encoders *e, const void *text, int64_t bytes, bool more,
                                 enum lvn_encoding how, int64_t *used) LVN_CHECKED;

#endif
