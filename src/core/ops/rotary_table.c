/* rotary_table.c - cosines and sines of rotary position embeddings, for the positions of a window.
 *
 *     angle(t, i) = t * frequency(i),  frequency(i) = theta^(-2 i / dims), i < dims / 2, scaled
 *
 * ids (B,T,...): only the shape is used. Output (T,dims): row t has the cosines of all angles, then their sines, times
 * `magnitude`. In a decoding graph, and with segments (by_row), the output is (B,T,dims), and t counts from
 * step->position of each row of ids, or from where the token's document begins: segments (B,T), or absent. Angles are
 * computed in double, once for all layers, so CPUs have no fast kernel for it. It has no gradient.
 *
 * Su et al.: "RoFormer" (2021); linear: Chen et al., "Extending context window of large language models via positional
 * interpolation" (2023); yarn: Peng et al., "YaRN" (2023); llama3: Meta's Llama 3.1. Not supported: frequencies that
 * depend on the length of the text (dynamic), and lists of them (longrope). */
#include "ops/rotary_table.h"
#include "ops/positions.h"
#include "ops/real.h"
#include "ops/shape.h"

#include "levin.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const int64_t dims = s->attr->rotary_table.dims;
    LVN_TRY(lvn_shape_integers(s, "ids", 0, -1));
    LVN_CHECK(s->in[0].rank >= 2, SHAPE, "rotary_table: ids have %d dimensions; expected (batch, time)", s->in[0].rank);
    LVN_CHECK(dims > 0 && dims % 2 == 0, SHAPE, "rotary_table: dims is %lld; it must be even and above 0",
              (long long)dims);
    LVN_CHECK(s->attr->rotary_table.theta > 0, ARG, "rotary_table: theta is %g; it must be above 0",
              s->attr->rotary_table.theta);
    if (s->has[1]) LVN_TRY(lvn_shape_integers(s, "segments", 1, s->in[0].dim[0] * s->in[0].dim[1]));
    s->out[0] = s->attr->rotary_table.by_row ? LVN_DESC(s->real, s->in[0].dim[0], s->in[0].dim[1], dims)
                                             : LVN_DESC(s->real, s->in[0].dim[1], dims);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    real *out = call->out[0].p;
    const int64_t T = call->in[0].desc->dim[1], rows = lvn_desc_rows(call->out[0].desc);
    const int64_t dims = call->attr->rotary_table.dims, n_pairs = dims / 2;
    const double magnitude = call->attr->rotary_table.magnitude;
    for (int64_t i = 0; i < n_pairs; i++) {
        double frequency = lvn_rotary_frequency(call->attr, i);
        for (int64_t r = 0; r < rows; r++) {
            double angle = (double)lvn_token_position(call->step, call->in[1].p, r, T) * frequency;
            out[r * dims + i] = (real)(cos(angle) * magnitude);
            out[r * dims + n_pairs + i] = (real)(sin(angle) * magnitude);
        }
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_rotary_table(struct levin_graph *g, struct levin_tensor *ids, const union lvn_attr *options)
{
    union lvn_attr attr = *options;
    attr.rotary_table.by_row = g->cache_length > 0 || g->segments;
    return lvn_node_append(g, LVN_OP_rotary_table, &attr, (struct levin_tensor *[]){ids, g->segments}, 2);
}

struct levin_tensor *levin_rotary_angles(struct levin_graph *g, struct levin_tensor *ids, int64_t dims, double theta)
{
    return levin_rotary_table(
        g, ids,
        &(union lvn_attr){.rotary_table = {.dims = dims, .theta = theta, .scaling = LVN_ROTARY_PLAIN, .magnitude = 1}});
}
#endif

LVN_OPERATION(rotary_table, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 2, .n_in_min = 1, .n_out = 1);
