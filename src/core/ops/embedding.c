/* embedding.c - rows of a table by token id, plus rows of a position table.
 *
 *     y[b][t] = table[ids[b][t]] + positions[position[b] + t - segments[b][t]]
 *
 * ids (...,T) int32, table (V,C), positions (P,C) or absent, y (...,T,C). `position` is the number of tokens of the row
 * in the key/value cache, nonzero only when decoding. segments, of the shape of ids, or absent: where each token's
 * document begins in its row (graph.h). Ids must be in [0, V), and with segments positions in [0, P), which the caller
 * that binds the inputs checks.
 *
 * Backward writes whole gradients: rows without a token become zero. Rows are added in token order. */
#include "ops/positions.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *ids = &s->in[0], *table = &s->in[1], *positions = &s->in[2];
    char name[LVN_INPUT_TEXT], text[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_integers(s, "ids", 0, -1));
    LVN_TRY(lvn_shape_reals(s, "table", 1, 2));
    LVN_CHECK(table->rank == 2, SHAPE, "embedding: %s has shape %s; expected (vocabulary, channels)",
              lvn_input_text(s, 1, "table", name), lvn_shape_text(table, text));
    LVN_CHECK(ids->rank < LVN_MAX_RANK, SHAPE, "embedding: %s has shape %s; expected at most %d dimensions",
              lvn_input_text(s, 0, "ids", name), lvn_shape_text(ids, text), LVN_MAX_RANK - 1);
    if (s->has[2]) {
        LVN_TRY(lvn_shape_reals(s, "positions", 2, 2));
        LVN_CHECK(positions->rank == 2 && positions->dim[1] == table->dim[1], SHAPE,
                  "embedding: %s has shape %s; expected (positions, %lld)", lvn_input_text(s, 2, "positions", name),
                  lvn_shape_text(positions, text), (long long)table->dim[1]);
        LVN_CHECK(s->has[3] || ids->dim[ids->rank - 1] <= positions->dim[0], SHAPE,
                  "embedding: sequences of %lld tokens exceed %s with %lld rows", (long long)ids->dim[ids->rank - 1],
                  lvn_input_text(s, 2, "positions", name), (long long)positions->dim[0]);
    }
    if (s->has[3]) LVN_TRY(lvn_shape_integers(s, "segments", 3, lvn_desc_count(ids)));
    int64_t dim[LVN_MAX_RANK] = {0};
    for (int i = 0; i < ids->rank; i++) dim[i] = ids->dim[i];
    dim[ids->rank] = table->dim[1];
    s->out[0] = lvn_desc_make(s->real, ids->rank + 1, dim);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const int32_t *ids = call->in[0].p;
    const real *table = call->in[1].p, *positions = call->in[2].p; /* (V,C), (P,C) */
    real *y = call->out[0].p;                                      /* (...,T,C) */
    int64_t C = call->in[1].desc->dim[1], rows = lvn_desc_rows(call->out[0].desc);
    int64_t T = call->in[0].desc->dim[call->in[0].desc->rank - 1];
    for (int64_t r = 0; r < rows; r++) {
        int64_t position = lvn_token_position(call->step, call->in[3].p, r, T);
        for (int64_t c = 0; c < C; c++)
            y[r * C + c] = table[ids[r] * C + c] + (positions ? positions[position * C + c] : 0);
    }
}

static void backward(const struct lvn_call *call)
{
    const int32_t *ids = call->in[0].p;
    const real *dy = call->dout[0].p;                            /* (...,T,C) */
    real *dtable = call->din[1].p, *dpositions = call->din[2].p; /* (V,C), (P,C) */
    const struct lvn_desc *desc = call->dout[0].desc;
    int64_t C = desc->dim[desc->rank - 1], T = desc->dim[desc->rank - 2], rows = lvn_desc_rows(desc);
    lvn_start_sum(call, 1);
    lvn_start_sum(call, 2);
    for (int64_t r = 0; r < rows; r++) {
        int64_t position = lvn_token_position(call->step, call->in[3].p, r, T);
        for (int64_t c = 0; c < C; c++) {
            if (dtable) dtable[ids[r] * C + c] += dy[r * C + c];
            if (dpositions) dpositions[position * C + c] += dy[r * C + c];
        }
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_embedding(struct levin_graph *g, struct levin_tensor *ids, struct levin_tensor *table,
                                     struct levin_tensor *positions)
{
    /* Rows of selected tokens may have documents that are shorter than the row (inference/scoring.h). */
    if (ids && positions && g->segments && !g->selected && ids->desc.dim[ids->desc.rank - 1] > positions->desc.dim[0])
        return lvn_graph_fail(g, lvn_fail(LVN_SHAPE, "embedding: sequences of %lld tokens exceed the %lld positions",
                                          (long long)ids->desc.dim[ids->desc.rank - 1],
                                          (long long)positions->desc.dim[0]));
    struct levin_tensor *in[] = {ids, table, positions, positions ? g->segments : NULL};
    return lvn_node_append(g, LVN_OP_embedding, &(union lvn_attr){0}, in, 4);
}
#endif

LVN_OPERATION(embedding, shape, forward, backward, .n_in = 4, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(3), .low_precision_ok = LVN_READS_IN(1) | LVN_READS_IN(2));
