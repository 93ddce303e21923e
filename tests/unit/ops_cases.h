/* ops_cases.h - the table of the cases of every operation; the tests of operations include it.
 *
 * A new operation adds its lines here; without any, test_ops fails. Sizes are around multiples of sixteen lanes: one,
 * primes, just below and just above; and multiples of eight, where items of devices take eight numbers.
 *
 * Inputs: REAL(dims), GAMMA(dims) around one, AROUND(mean, width, dims), IDS(below, dims), LABEL(below, dims) with some
 * ignored, for below = 0 all, SEGMENTS(n, B, T) of documents of about n tokens, BYTES(dims) of 0 to 255, CONSTANT(dims)
 * reals without a gradient, HEADS(B, T, H, D, row, channel) a view of heads into rows; {0} is absent. */
#ifndef LVN_OPS_CASES_H
#define LVN_OPS_CASES_H

#include "graph/chain.h"
#include "graph/rotary.h"
#include "ops_run.h"

/* clang-format off */
#define DIMS(...) .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = {__VA_ARGS__}
#define NONE {.filling = ABSENT}
#define CHAIN(step) (int64_t)LVN_CHAIN_##step
#define REAL(...) {.filling = REALS, DIMS(__VA_ARGS__)}
#define CONSTANT(...) {.filling = REALS, .constant = true, DIMS(__VA_ARGS__)}
#define BYTES(...) {.filling = SMALL_INTEGERS, .below = 256, DIMS(__VA_ARGS__)}
#define GAMMA(...) AROUND(1, 1, __VA_ARGS__)
#define AROUND(mean, width, ...) {.filling = REALS, .center = (mean), .scale = (width), DIMS(__VA_ARGS__)}
#define IDS(n, ...) {.filling = INTEGERS, .below = (n), DIMS(__VA_ARGS__)}
#define LABEL(n, ...) {.filling = LABELS, .below = (n), DIMS(__VA_ARGS__)}
#define SEGMENTS(n, B, T) {.filling = SEGMENTS_OF, .below = (n), DIMS(B, T)}
#define HEADS(B, T, H, D, r, c) {.filling = REALS, DIMS(B, T, H, D), .row = (r), .channel = (c)}

/* For kernels of devices, which use other tiles for it: not in the table, because it is large. */
static const struct op_case op_case_wide = {LVN_OP_linear_gelu, .attr.linear_gelu = {true, false},
    .in = {REAL(129, 5), REAL(5, 8065), REAL(8065)}, .large = true};

static const struct op_case op_cases[] = {
    {LVN_OP_embedding, .in = {IDS(1, 1, 1), REAL(1, 1), REAL(1, 1)}},
    {LVN_OP_embedding, .in = {IDS(11, 3, 5), REAL(11, 17), REAL(7, 17)}},
    {LVN_OP_embedding, .in = {IDS(65, 2, 33), REAL(65, 31), NONE}},
    {LVN_OP_embedding, .in = {IDS(13, 4, 1), REAL(13, 64), REAL(9, 64)}, .position = 6},
    {LVN_OP_embedding, .in = {IDS(300, 9), REAL(300, 16), REAL(9, 16)}},
    {LVN_OP_embedding, .in = {IDS(11, 3, 9), REAL(11, 17), REAL(9, 17), SEGMENTS(4, 3, 9)}},
    {LVN_OP_embedding, .in = {IDS(20, 2, 130), REAL(20, 48), REAL(130, 48), SEGMENTS(30, 2, 130)}, .large = true},
    {LVN_OP_embedding, .in = {IDS(20, 5, 130), REAL(20, 300), REAL(130, 300)}, .large = true},
    {LVN_OP_embedding, .in = {IDS(3000, 3, 731), REAL(3000, 8), NONE}, .large = true}, /* runs of three lengths */

    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(1, 1), REAL(1, 1), REAL(1)}},
    {LVN_OP_linear, .attr.linear = {false}, .in = {REAL(1, 1), REAL(1, 1), NONE}},
    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(2, 3, 17), REAL(17, 33), REAL(33)}},
    {LVN_OP_linear, .attr.linear = {false}, .in = {REAL(2, 3, 17), REAL(33, 17), REAL(33)}},
    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(31, 15), REAL(15, 65), NONE}},
    {LVN_OP_linear, .attr.linear = {false}, .in = {REAL(31, 15), REAL(65, 15), NONE}},
    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(1, 65), REAL(65, 16), REAL(16)}},
    {LVN_OP_linear, .attr.linear = {false}, .in = {REAL(1, 65), REAL(16, 65), REAL(16)}},
    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(3, 43, 67), REAL(67, 131), REAL(131)}, .large = true},
    {LVN_OP_linear, .attr.linear = {false}, .in = {REAL(3, 43, 67), REAL(131, 67), REAL(131)}, .large = true},
    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(257, 130), REAL(130, 97), REAL(97)}, .large = true},
    {LVN_OP_linear, .attr.linear = {false}, .in = {REAL(257, 130), REAL(97, 130), REAL(97)}, .large = true},
    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(1030, 3), REAL(3, 37), REAL(37)}, .large = true},
    {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(600, 3), REAL(3, 280), REAL(280)}, .large = true},

    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(3, 1), GAMMA(1), REAL(1)}},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(2, 5, 15), GAMMA(15), REAL(15)}},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(16, 16), GAMMA(16), NONE}},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(7, 17), GAMMA(17), REAL(17)}},
    {LVN_OP_layernorm, .attr.layernorm = {0.1}, .in = {REAL(1, 31), GAMMA(31), NONE}},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(67, 33), GAMMA(33), REAL(33)}},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(5, 65), GAMMA(65), REAL(65)}},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(3, 150, 129), GAMMA(129), REAL(129)}, .large = true},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(1030, 33), GAMMA(33), REAL(33)}, .large = true},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(5, 768), GAMMA(768), REAL(768)}},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(37, 1032), GAMMA(1032), REAL(1032)}, .large = true},

    /* a mean far from zero costs the digits of its rounding: 1000 * 6e-8 */
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {AROUND(1000, 1, 4, 67), GAMMA(67), REAL(67)}, .large = true,
        .slack = 100},
    {LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {AROUND(0, 1e-4, 4, 67), GAMMA(67), REAL(67)}, .large = true},

    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {REAL(1)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {REAL(3, 5)}},
    {LVN_OP_gelu, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {REAL(31, 33)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {AROUND(0, 3, 67, 40)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {REAL(67, 129)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {AROUND(0, 9, 31, 33)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {AROUND(0, 1e6, 31, 33)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {AROUND(0, 1e-30, 31, 33)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {REAL(1)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {REAL(3, 5)}},
    {LVN_OP_gelu_tanh, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {REAL(31, 33)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {AROUND(0, 3, 67, 40)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {REAL(67, 129)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {AROUND(0, 9, 31, 33)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {AROUND(0, 1e6, 31, 33)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH)}, .in = {AROUND(0, 1e-30, 31, 33)}, .large = true},

    {LVN_OP_dropout, .attr.dropout = {0.1}, .in = {REAL(1, 1)}},
    {LVN_OP_dropout, .attr.dropout = {0.5}, .in = {REAL(2, 3, 17)}},
    {LVN_OP_dropout, .attr.dropout = {0.2}, .in = {REAL(7, 15)}},
    {LVN_OP_dropout, .attr.dropout = {0.9}, .in = {REAL(5, 4, 33)}},
    {LVN_OP_dropout, .attr.dropout = {0.1}, .in = {REAL(3, 65)}, .evaluation = true},
    {LVN_OP_dropout, .attr.dropout = {0}, .in = {REAL(3, 31)}},
    {LVN_OP_dropout, .attr.dropout = {0.1}, .in = {REAL(4, 67, 65)}, .large = true},
    {LVN_OP_dropout, .attr.dropout = {0.3}, .in = {REAL(4, 19, 40)}},

    {LVN_OP_chain, .attr.chain = {CHAIN(SCALE), 2}, .in = {REAL(1)}},
    {LVN_OP_scale, .attr.scale = {-0.3}, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {CHAIN(SCALE), -0.3}, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {CHAIN(SCALE), -0.3}, .in = {REAL(71, 40)}},

    {LVN_OP_add, .in = {REAL(1), REAL(1)}},
    {LVN_OP_add, .in = {REAL(2, 3, 17), REAL(2, 3, 17)}},
    {LVN_OP_add, .in = {REAL(31, 65), REAL(31, 65)}},
    {LVN_OP_add, .in = {REAL(71, 40), REAL(71, 40)}},

    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(RELU)}, .in = {REAL(1)}},
    {LVN_OP_relu, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(RELU)}, .in = {REAL(2, 3, 17)}},
    {LVN_OP_relu, .in = {REAL(31, 65)}, .large = true}, /* so many elements that one is at the kink */
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(RELU)}, .in = {REAL(31, 65)}, .large = true}, /* one is at the kink */
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(RELU)}, .in = {AROUND(0, 1e-30, 31, 33)}, .large = true},

    {LVN_OP_conv2d, .in = {REAL(1, 1, 1, 1), REAL(1, 1, 1, 1), REAL(1)}},
    {LVN_OP_conv2d, .in = {REAL(2, 1, 7, 6), REAL(3, 1, 3, 3), REAL(3)}},
    {LVN_OP_conv2d, .in = {REAL(2, 2, 7, 9), REAL(7, 2, 3, 3), NONE}},
    {LVN_OP_conv2d, .in = {REAL(1, 3, 9, 8), REAL(2, 3, 3, 2), REAL(2)}},
    {LVN_OP_conv2d, .in = {REAL(2, 1, 13, 10), REAL(2, 1, 4, 3), REAL(2)}},
    {LVN_OP_conv2d, .in = {REAL(1, 2, 7, 8), REAL(2, 2, 5, 3), REAL(2)}},
    {LVN_OP_conv2d, .in = {REAL(3, 5, 17, 33), REAL(9, 5, 1, 1), REAL(9)}, .large = true},
    {LVN_OP_conv2d, .in = {REAL(9, 3, 28, 28), REAL(13, 3, 3, 3), REAL(13)}, .large = true},
    {LVN_OP_conv2d, .in = {REAL(3, 65, 13, 19), REAL(17, 65, 3, 3), NONE}, .large = true},
    {LVN_OP_conv2d, .in = {REAL(2, 2, 4, 1), REAL(3, 2, 2, 1), REAL(3)}}, /* a column alone */
    {LVN_OP_conv2d, .in = {REAL(2, 8, 7, 8), REAL(8, 8, 3, 3), REAL(8)}}, /* pairs of rows, odd and even ones */
    {LVN_OP_conv2d, .in = {REAL(2, 9, 6, 23), REAL(11, 9, 3, 4), REAL(11)}, .large = true},
    {LVN_OP_conv2d, .in = {REAL(3, 12, 3, 5), REAL(8, 12, 3, 5), NONE}, .large = true},
    {LVN_OP_conv2d, .in = {REAL(3, 3, 37, 35), REAL(11, 3, 7, 7), REAL(11)}, .large = true},
    {LVN_OP_conv2d_relu, .in = {REAL(5, 8, 8, 19), REAL(10, 8, 3, 4), REAL(10)}, .large = true},
    {LVN_OP_conv2d_relu, .in = {REAL(2, 1, 7, 6), REAL(3, 1, 3, 3), REAL(3)}, .large = true},
    {LVN_OP_conv2d_relu, .in = {REAL(2, 2, 8, 7), REAL(5, 2, 3, 3), NONE}, .large = true},
    {LVN_OP_conv2d_relu, .in = {REAL(5, 4, 26, 26), REAL(19, 4, 3, 3), REAL(19)}, .large = true},
    {LVN_OP_max_pool2d, .in = {REAL(1, 1, 2, 2)}},
    {LVN_OP_max_pool2d, .in = {REAL(2, 3, 4, 6)}},
    {LVN_OP_max_pool2d, .in = {REAL(1, 2, 5, 7)}},
    {LVN_OP_max_pool2d, .in = {REAL(3, 5, 24, 25)}, .large = true},
    {LVN_OP_max_pool2d, .in = {REAL(2, 3, 9, 300)}, .large = true},

    {LVN_OP_normalize, .attr.normalize = {0, 1}, .in = {BYTES(1)}},
    {LVN_OP_normalize, .attr.normalize = {0.1307, 0.3081}, .in = {BYTES(3, 65)}},

    {LVN_OP_squared_error, .in = {REAL(1), REAL(1)}},
    {LVN_OP_squared_error, .in = {REAL(3, 17), REAL(3, 17)}},
    {LVN_OP_squared_error, .in = {REAL(5, 4, 33), REAL(5, 4, 33)}},
    {LVN_OP_squared_error, .in = {REAL(2, 9001), REAL(2, 9001)}, .large = true},
    {LVN_OP_add_rows, .in = {REAL(3, 1), REAL(1)}},
    {LVN_OP_add_rows, .in = {REAL(2, 3, 17), REAL(17)}},
    {LVN_OP_add_rows, .in = {REAL(5, 3, 7), REAL(3, 7)}},
    {LVN_OP_add_rows, .in = {REAL(35, 3, 8), REAL(3, 8)}},
    {LVN_OP_pack, .in = {REAL(2, 3, 17)}},
    {LVN_OP_pack, .in = {HEADS(2, 7, 3, 5, 45, 15)}},
    {LVN_OP_zeros, .in = {REAL(2, 3, 17)}},

    {LVN_OP_widen, .in = {REAL(1)}},
    {LVN_OP_widen, .in = {REAL(3, 17)}},
    {LVN_OP_widen, .in = {REAL(71, 40)}},

    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 1},
        .in = {REAL(1, 1, 1, 1), REAL(1, 1, 1, 1), REAL(1, 1, 1, 1)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.3},
        .in = {HEADS(2, 7, 3, 5, 45, 0), HEADS(2, 7, 3, 5, 45, 15), HEADS(2, 7, 3, 5, 45, 30)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25, .p = 0.2},
        .in = {HEADS(3, 17, 2, 16, 96, 0), HEADS(3, 17, 2, 16, 96, 32), HEADS(3, 17, 2, 16, 96, 64)}},
    {LVN_OP_attention, .attr.attention = {.scale = 0.25},
        .in = {REAL(3, 6, 4, 3), REAL(3, 19, 2, 3), REAL(3, 19, 2, 3), IDS(20, 3)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.5},
        .in = {REAL(2, 5, 6, 2), REAL(2, 11, 2, 2), REAL(2, 11, 2, 2), NONE}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.5},
        .in = {REAL(2, 11, 2, 2), REAL(2, 5, 1, 2), REAL(2, 5, 1, 2), NONE}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25, .cached = true}, .position = 6,
        .in = {REAL(2, 1, 4, 17), REAL(2, 9, 2, 17), REAL(2, 9, 2, 17), NONE}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.1, .p = 0.1}, .large = 1,
        .in = {HEADS(2, 130, 2, 33, 198, 0), HEADS(2, 130, 2, 33, 198, 66), HEADS(2, 130, 2, 33, 198, 132)}},

    {LVN_OP_attention, .attr.attention = {.causal = false, .scale = 0.25}, /* lengths, 0 among them */
        .in = {REAL(6, 5, 2, 15), REAL(6, 7, 2, 15), REAL(6, 7, 2, 15), IDS(8, 6)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25}, /* four query heads share two */
        .in = {REAL(2, 9, 4, 17), REAL(2, 9, 2, 17), REAL(2, 9, 2, 17), NONE}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.125, .p = 0.1},
        .in = {HEADS(2, 67, 2, 64, 384, 0), HEADS(2, 67, 2, 64, 384, 128), HEADS(2, 67, 2, 64, 384, 256)},
        .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25, .cached = true}, /* one token, after 12 */
        .in = {HEADS(2, 1, 2, 16, 96, 0), REAL(2, 31, 2, 16), REAL(2, 31, 2, 16)}, .position = 12, .evaluation = true},
    {LVN_OP_attention, .attr.attention = {.scale = 0.2}, /* tiles of 128 and 64 are cut; one length is 0 */
        .in = {REAL(3, 140, 4, 24), REAL(3, 75, 2, 24), REAL(3, 75, 2, 24), IDS(76, 3)}, .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.2, .cached = true}, .position = 70, /* a prompt */
        .in = {HEADS(1, 20, 2, 40, 240, 0), REAL(1, 100, 1, 40), REAL(1, 100, 1, 40)}, .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 1}, /* scores of 100, rounded, then exp */
        .in = {AROUND(0, 5, 1, 33, 1, 16), AROUND(0, 5, 1, 33, 1, 16), REAL(1, 33, 1, 16)}, .large = true, .slack = 30},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25}, /* tiles with and without a mask */
        .in = {REAL(1, 150, 2, 16), REAL(1, 150, 1, 16), REAL(1, 150, 1, 16)}, .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.0625}, /* nearly as large as pythia-1b's 256 */
        .in = {REAL(1, 70, 2, 248), REAL(1, 70, 1, 248), REAL(1, 70, 1, 248)}, .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.125, .cached = true}, .position = 129, /* chunks */
        .in = {HEADS(2, 1, 6, 64, 640, 0), REAL(2, 201, 2, 64), REAL(2, 201, 2, 64)}, .evaluation = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.2, .p = 0.1}, /* the first queries see one chunk */
        .in = {REAL(1, 9, 3, 17), REAL(1, 67, 1, 17), REAL(1, 67, 1, 17)}},
    {LVN_OP_attention, .attr.attention = {.scale = 0.0625}, /* heads of 256; one length is 0 */
        .in = {REAL(3, 2, 2, 256), REAL(3, 70, 2, 256), REAL(3, 70, 2, 256), IDS(71, 3)}, .large = true},

    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.125}, /* heads of GPT-2, Llama and others: tiles */
        .in = {HEADS(1, 200, 2, 64, 384, 0), HEADS(1, 200, 2, 64, 384, 128), HEADS(1, 200, 2, 64, 384, 256)},
        .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.09},
        .in = {REAL(2, 140, 4, 128), REAL(2, 140, 2, 128), REAL(2, 140, 2, 128)}, .large = true},
    {LVN_OP_attention, .attr.attention = {.scale = 0.1},
        .in = {REAL(2, 70, 2, 96), REAL(2, 75, 2, 96), REAL(2, 75, 2, 96), IDS(76, 2)}, .large = true},

    /* key ranges and soft caps */
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.5, .window = 1},
        .in = {REAL(1, 4, 2, 3), REAL(1, 4, 2, 3), REAL(1, 4, 2, 3)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.5, .window = 3, .p = 0.2},
        .in = {REAL(2, 9, 4, 5), REAL(2, 9, 2, 5), REAL(2, 9, 2, 5)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.5, .window = 3}, /* of more keys than queries */
        .in = {REAL(2, 5, 2, 3), REAL(2, 9, 2, 3), REAL(2, 9, 2, 3), IDS(10, 2)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.4},
        .in = {REAL(2, 11, 2, 5), REAL(2, 11, 1, 5), REAL(2, 11, 1, 5), NONE, SEGMENTS(4, 2, 11)}},
    {LVN_OP_attention, .attr.attention = {.scale = 0.5, .softcap = 2},
        .in = {REAL(2, 6, 2, 4), REAL(2, 7, 2, 4), REAL(2, 7, 2, 4), IDS(8, 2)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25, .window = 70}, .large = true,
        .in = {HEADS(2, 210, 2, 32, 192, 0), HEADS(2, 210, 2, 32, 192, 64), HEADS(2, 210, 2, 32, 192, 128)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25, .window = 129, .softcap = 1.5, .p = 0.1},
        .in = {REAL(1, 300, 2, 16), REAL(1, 300, 1, 16), REAL(1, 300, 1, 16), NONE, SEGMENTS(90, 1, 300)},
        .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.0625}, /* heads of 256 */
        .in = {REAL(2, 150, 2, 256), REAL(2, 150, 1, 256), REAL(2, 150, 1, 256), NONE, SEGMENTS(20, 2, 150)},
        .large = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25, .cached = true, .window = 5}, .position = 20,
        .in = {REAL(2, 1, 4, 16), REAL(2, 40, 2, 16), REAL(2, 40, 2, 16)}, .evaluation = true},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.4, .window = 4, .softcap = 0.7},
        .in = {REAL(3, 11, 2, 5), REAL(3, 11, 2, 5), REAL(3, 11, 2, 5), IDS(12, 3), SEGMENTS(6, 3, 11)}},
    {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.25, .cached = true, .window = 100, .softcap = 1},
        .in = {REAL(1, 20, 4, 16), REAL(1, 240, 2, 16), REAL(1, 240, 2, 16)}, .position = 190, .evaluation = true},
    {LVN_OP_attention, /* a ring, which is full, and not full: without a gradient */
        .attr.attention = {.causal = true, .scale = 0.25, .cached = true, .window = 70, .ring = true}, .position = 1000,
        .in = {CONSTANT(2, 1, 4, 16), CONSTANT(2, 101, 2, 16), CONSTANT(2, 101, 2, 16)}, .evaluation = true},
    {LVN_OP_attention,
        .attr.attention = {.causal = true, .scale = 0.25, .cached = true, .window = 70, .ring = true}, .position = 30,
        .in = {CONSTANT(2, 32, 4, 16), CONSTANT(2, 101, 2, 16), CONSTANT(2, 101, 2, 16)}, .evaluation = true},
    {LVN_OP_attention,
        .attr.attention = {.causal = true, .scale = 0.25, .cached = true, .window = 70, .ring = true}, .position = 320,
        .in = {CONSTANT(1, 32, 4, 40), CONSTANT(1, 101, 2, 40), CONSTANT(1, 101, 2, 40)}, .evaluation = true},

    {LVN_OP_kv_cache, .attr.kv_cache = {9, true}, .in = {HEADS(2, 4, 3, 5, 45, 15)}, .position = 16},
    {LVN_OP_kv_cache, .attr.kv_cache = {.length = 9}, .in = {HEADS(2, 1, 3, 5, 45, 15)}, .position = 4},
    {LVN_OP_kv_cache, .attr.kv_cache = {.length = 33}, .in = {REAL(1, 17, 2, 16)}, .position = 11},

    {LVN_OP_cross_entropy, .attr.cross_entropy = {-1}, .in = {REAL(1, 1), LABEL(1, 1)}},
    {LVN_OP_cross_entropy, .attr.cross_entropy = {-1}, .in = {REAL(2, 3, 17), LABEL(17, 2, 3)}},
    {LVN_OP_cross_entropy, .attr.cross_entropy = {2}, .in = {REAL(11, 5), LABEL(5, 11)}},
    {LVN_OP_cross_entropy, .attr.cross_entropy = {-1}, .in = {REAL(31, 65), LABEL(65, 31)}},
    {LVN_OP_cross_entropy, .attr.cross_entropy = {-1}, .in = {REAL(131, 515), LABEL(515, 131)}, .large = true},

    {LVN_OP_cross_entropy, .attr.cross_entropy = {-1}, .in = {REAL(3, 17), LABEL(0, 3)}},
    {LVN_OP_cross_entropy, .attr.cross_entropy = {-1}, .in = {AROUND(1e5, 1e4, 31, 65), LABEL(65, 31)}, .large = true},

    {LVN_OP_confusion, .in = {REAL(1, 1), LABEL(1, 1)}},
    {LVN_OP_confusion, .in = {REAL(67, 10), LABEL(10, 67)}},
    {LVN_OP_confusion, .in = {REAL(2, 3, 17), LABEL(17, 2, 3)}},

    {LVN_OP_regression_sums, .in = {REAL(1, 1), REAL(1)}},
    {LVN_OP_regression_sums, .in = {REAL(67, 1), REAL(67)}},
    {LVN_OP_regression_sums, .in = {AROUND(1e5, 1e4, 31, 1), AROUND(1e-5, 1e-6, 31)}},


    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-5}, .in = {REAL(3, 1), GAMMA(1)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-5}, .in = {REAL(2, 5, 15), GAMMA(15)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 0.1}, .in = {REAL(16, 16), GAMMA(16)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-6}, .in = {REAL(67, 33), GAMMA(33)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-6}, .in = {REAL(3, 5, 4, 17), GAMMA(17)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-5}, .in = {AROUND(100, 1, 3, 150, 129), GAMMA(129)}, .large = true},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-5}, .in = {REAL(1030, 33), GAMMA(33)}, .large = true},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-5}, .in = {REAL(2, 9, 40), GAMMA(40)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-5}, .in = {REAL(2, 5, 15), NONE}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-6}, .in = {REAL(3, 150, 4, 40), NONE}, .large = true},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {1e-5, 1}, .in = {REAL(2, 9, 40), REAL(40)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {1e-6, 1}, .in = {REAL(3, 5, 4, 17), REAL(17)}},
    {LVN_OP_rmsnorm, .attr.rmsnorm = {.eps = 1e-5}, .in = {REAL(3, 2100), GAMMA(2100)}, .large = true},

    {LVN_OP_weighted_sum, .attr.weighted_sum = {1}, .in = {REAL(3, 5), REAL(3, 5), REAL(1), REAL(1)}},
    {LVN_OP_weighted_sum, .attr.weighted_sum = {-2}, .in = {REAL(2, 3, 17), REAL(2, 3, 17), NONE, REAL(1)}},
    {LVN_OP_weighted_sum, .attr.weighted_sum = {1}, .in = {REAL(131, 67), REAL(131, 67), REAL(1), REAL(1)},
        .large = true},

    {LVN_OP_gated_add, .attr.gated_add = {3}, .in = {REAL(3, 6), REAL(3, 6), REAL(3, 2), NONE}},
    {LVN_OP_gated_add, .attr.gated_add = {1}, .in = {REAL(2, 3, 17), REAL(2, 3, 17), REAL(2, 3, 1), REAL(1)}},
    {LVN_OP_gated_add, .attr.gated_add = {3}, .in = {REAL(2, 43, 132), REAL(2, 43, 132), REAL(2, 43, 4), REAL(1)},
        .large = true},

    {LVN_OP_previous, .in = {REAL(1, 1, 3)}},
    {LVN_OP_previous, .in = {REAL(2, 5, 7)}},
    {LVN_OP_previous, .in = {REAL(3, 9, 17), NONE, SEGMENTS(4, 3, 9)}},
    {LVN_OP_previous, .in = {REAL(2, 2, 6), CONSTANT(2, 3, 1, 6)}, .position = 7},

    {LVN_OP_rotary_table, .attr.rotary_table = {.dims = 2, .theta = 10000, .magnitude = 1}, .in = {IDS(9, 1, 1)}},
    {LVN_OP_rotary_table, .attr.rotary_table = {.dims = 18, .theta = 500, .magnitude = 1.5},
        .in = {IDS(9, 2, 7)}, .position = 100},
    {LVN_OP_rotary_table, .attr.rotary_table = {.dims = 6, .theta = 500, .magnitude = 1.5, .by_row = true},
        .in = {IDS(9, 3, 4)}, .position = 30},
    {LVN_OP_rotary_table, .attr.rotary_table = {.dims = 6, .theta = 500, .magnitude = 1.5, .by_row = true},
        .in = {IDS(9, 3, 11), SEGMENTS(5, 3, 11)}},
    {LVN_OP_rotary_table, .attr.rotary_table = {.dims = 16, .theta = 1e4, .scaling = LVN_ROTARY_LINEAR, .factor = 4,
        .magnitude = 1},
        .in = {IDS(9, 2, 7)}, .position = 5},
    {LVN_OP_rotary_table, .attr.rotary_table = {.dims = 64, .theta = 1e4, .scaling = LVN_ROTARY_YARN, .factor = 4,
        .magnitude = 1.1, .low = 1, .high = 32, .original = 64, .whole = true}, .in = {IDS(9, 2, 7)}, .position = 50},
    {LVN_OP_rotary_table, .attr.rotary_table = {.dims = 64, .theta = 5e5, .scaling = LVN_ROTARY_LLAMA3, .factor = 8,
        .magnitude = 1, .low = 1, .high = 4, .original = 64}, .in = {IDS(9, 1, 33)}},

    {LVN_OP_rotary, .in = {REAL(1, 1, 1, 2), CONSTANT(1, 2)}},
    {LVN_OP_rotary, .in = {REAL(2, 5, 3, 7), CONSTANT(5, 6)}},
    {LVN_OP_rotary, .in = {REAL(3, 5, 2, 7), CONSTANT(3, 5, 6)}},
    {LVN_OP_rotary, .in = {HEADS(2, 3, 2, 64, 384, 128), CONSTANT(2, 3, 34)}},
    {LVN_OP_rotary, .in = {HEADS(2, 7, 3, 16, 144, 48), CONSTANT(7, 4)}},
    {LVN_OP_rotary, .in = {HEADS(2, 3, 2, 64, 384, 128), CONSTANT(3, 64)}},
    {LVN_OP_rotary, .in = {HEADS(2, 7, 3, 16, 144, 48), CONSTANT(2, 7, 16)}},
    {LVN_OP_rotary, .in = {HEADS(2, 7, 3, 16, 150, 50), CONSTANT(7, 16)}},
    {LVN_OP_rotary, .in = {HEADS(3, 17, 2, 80, 480, 160), CONSTANT(17, 34)}, .large = true},

    {LVN_OP_mul, .in = {REAL(1), REAL(1)}},
    {LVN_OP_mul, .in = {REAL(2, 3, 17), REAL(2, 3, 17)}},
    {LVN_OP_silu, .in = {REAL(3, 17)}},
    {LVN_OP_silu, .in = {AROUND(0, 30, 5, 131)}},
    {LVN_OP_relu2, .in = {REAL(3, 17)}},
    {LVN_OP_relu2, .in = {AROUND(0, 30, 5, 131)}, .large = true},

    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(SILU) | CHAIN(MUL) << 4}, .in = {REAL(1), REAL(1)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(SILU) | CHAIN(MUL) << 4}, .in = {REAL(3, 17), REAL(3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(SILU) | CHAIN(MUL) << 4}, .in = {REAL(71, 40), REAL(71, 40)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(SILU) | CHAIN(MUL) << 4}, .in = {AROUND(0, 100, 5, 131), REAL(5, 131)},
        .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(SILU) | CHAIN(MUL) << 4},
        .in = {AROUND(0, 5, 2, 31, 67), REAL(2, 31, 67)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU_TANH) | CHAIN(MUL) << 4}, .in = {REAL(9, 40), REAL(9, 40)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(MUL)}, .in = {REAL(3, 17), REAL(3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(MUL)}, .in = {REAL(71, 40), REAL(71, 40)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(SILU)}, .in = {REAL(71, 40)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(RELU2)}, .in = {REAL(71, 41)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(TANH) | CHAIN(MUL) << 4 | CHAIN(GELU) << 8 | CHAIN(MUL) << 12 |
        CHAIN(SCALE) << 16 | CHAIN(MUL) << 20 | CHAIN(SILU) << 24, -0.3},
        .in = {REAL(33, 17), REAL(33, 17), REAL(33, 17), REAL(33, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(SCALE) | CHAIN(RELU) << 4 | CHAIN(MUL) << 8 | CHAIN(MUL) << 12 |
        CHAIN(MUL) << 16 | CHAIN(MUL) << 20 | CHAIN(MUL) << 24, 1.5}, .large = true, /* a kink */
        .in = {REAL(40, 8), REAL(40, 8), REAL(40, 8), REAL(40, 8), REAL(40, 8), REAL(40, 8)}},

    {LVN_OP_linear_gelu, .attr.linear_gelu = {true, false}, .in = {REAL(1, 1), REAL(1, 1), REAL(1)}},
    {LVN_OP_linear_gelu, .attr.linear_gelu = {true, true}, .in = {REAL(2, 3, 17), REAL(17, 33), REAL(33)}},
    {LVN_OP_linear_gelu, .attr.linear_gelu = {false, true}, .in = {REAL(2, 3, 17), REAL(33, 17), REAL(33)}},
    {LVN_OP_linear_gelu, .attr.linear_gelu = {false, false}, .in = {REAL(31, 15), REAL(65, 15), NONE}},
    {LVN_OP_linear_gelu, .attr.linear_gelu = {true, false}, .in = {REAL(31, 15), REAL(15, 16), NONE}},
    {LVN_OP_linear_gelu, .attr.linear_gelu = {true, true},
        .in = {REAL(3, 43, 67), REAL(67, 131), REAL(131)}, .large = true},
    {LVN_OP_linear_gelu, .attr.linear_gelu = {false, false},
        .in = {REAL(257, 67), REAL(131, 67), REAL(131)}, .large = true},
    {LVN_OP_linear_gelu, .attr.linear_gelu = {true, true},
        .in = {REAL(1031, 5), REAL(5, 9), REAL(9)}, .large = true},

    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0},
        .in = {REAL(3, 1), REAL(3, 1), GAMMA(1), REAL(1)}},
    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0},
        .in = {REAL(2, 5, 15), REAL(2, 5, 15), GAMMA(15), NONE}},
    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.2},
        .in = {REAL(2, 5, 17), REAL(2, 5, 17), GAMMA(17), REAL(17)}},
    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.2},
        .in = {REAL(2, 5, 31), REAL(2, 5, 31), GAMMA(31), REAL(31)},
        .no_dout = 1},
    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.5},
        .in = {REAL(7, 33), REAL(7, 33), GAMMA(33), REAL(33)},
        .no_dout = 2},
    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.1},
        .in = {REAL(4, 16), REAL(4, 16), GAMMA(16), NONE},
        .evaluation = true},
    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.1},
        .in = {REAL(3, 50, 129), REAL(3, 50, 129), GAMMA(129), REAL(129)}, .large = true},
    {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.1},
        .in = {REAL(3, 11, 296), REAL(3, 11, 296), GAMMA(296), REAL(296)}},

    {LVN_OP_residual_rmsnorm, .attr.residual_rmsnorm = {.eps = 1e-5}, .in = {REAL(3, 1), REAL(3, 1), GAMMA(1)}},
    {LVN_OP_residual_rmsnorm, .attr.residual_rmsnorm = {.eps = 1e-5, .p = 0.2, .offset = 1},
        .in = {REAL(2, 5, 17), REAL(2, 5, 17), REAL(17)}},
    {LVN_OP_residual_rmsnorm, .attr.residual_rmsnorm = {.eps = 1e-5, .p = 0.2},
        .in = {REAL(2, 5, 31), REAL(2, 5, 31), GAMMA(31)},
        .no_dout = 1},
    {LVN_OP_residual_rmsnorm, .attr.residual_rmsnorm = {.eps = 1e-5, .p = 0.5},
        .in = {REAL(7, 33), REAL(7, 33), GAMMA(33)},
        .no_dout = 2},
    {LVN_OP_residual_rmsnorm, .attr.residual_rmsnorm = {.eps = 1e-5}, .in = {REAL(4, 16), REAL(4, 16), NONE}},
    {LVN_OP_residual_rmsnorm, .attr.residual_rmsnorm = {.eps = 1e-6, .p = 0.1},
        .in = {REAL(3, 50, 129), REAL(3, 50, 129), GAMMA(129)},
        .large = true},
    {LVN_OP_residual_rmsnorm, .attr.residual_rmsnorm = {.eps = 1e-6},
        .in = {REAL(3, 11, 296), REAL(3, 11, 296), GAMMA(296)}},

    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -1, .in_out = true},
        .in = {REAL(1, 1), REAL(1, 1), REAL(1), LABEL(1, 1)}},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -1, .in_out = true},
        .in = {REAL(2, 5, 17), REAL(17, 33), REAL(33), LABEL(33, 2, 5)}},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -1, .in_out = false},
        .in = {REAL(2, 5, 17), REAL(33, 17), NONE, LABEL(33, 2, 5)}},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {-1, true, .softcap = 0.8},
        .in = {REAL(2, 5, 17), REAL(17, 33), REAL(33), LABEL(33, 2, 5)}},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {-1, false, .softcap = 3},
        .in = {REAL(31, 15), REAL(65, 15), NONE, LABEL(65, 31)}},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = 3, .in_out = false},
        .in = {REAL(31, 15), REAL(65, 15), REAL(65), LABEL(65, 31)}},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -1, .in_out = true},
        .in = {REAL(16, 31), REAL(31, 64), NONE, LABEL(64, 16)}},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -1, .in_out = false},
        .in = {REAL(3, 93, 33), REAL(515, 33), NONE, LABEL(515, 3, 93)},
        .large = true},
    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -1, .in_out = false},
        .in = {REAL(515, 3), REAL(4099, 3), REAL(4099), LABEL(4099, 515)}, /* two chunks of rows */
        .large = true, .for_cpu = true},

    {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -1, .in_out = false},
        .in = {REAL(3, 17), REAL(9, 17), REAL(9), LABEL(0, 3)}},

    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(TANH)}, .in = {REAL(1)}},
    {LVN_OP_tanh, .in = {REAL(1)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(TANH)}, .in = {REAL(3, 5)}},
    {LVN_OP_tanh, .in = {REAL(3, 5)}},
    {LVN_OP_tanh, .in = {REAL(2, 3, 17)}},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(TANH)}, .in = {REAL(2, 3, 17)}},
    {LVN_OP_tanh, .in = {AROUND(0, 10, 1031)}, .large = true},
    {LVN_OP_chain, .attr.chain = {.steps = CHAIN(TANH)}, .in = {AROUND(0, 10, 1031)}, .large = true},

    {LVN_OP_softmax, .in = {REAL(1)}},
    {LVN_OP_softmax, .in = {REAL(3, 5)}},
    {LVN_OP_softmax, .in = {AROUND(0, 9, 2, 3, 17)}},
    {LVN_OP_softmax, .in = {AROUND(300, 9, 2, 3, 300)}},

    {LVN_OP_concat, .attr.concat = {0}, .in = {REAL(1), REAL(1)}},
    {LVN_OP_concat, .attr.concat = {0}, .in = {REAL(3, 5), REAL(2, 5)}},
    {LVN_OP_concat, .attr.concat = {1}, .in = {REAL(2, 3, 17), REAL(2, 5, 17)}},
    {LVN_OP_concat, .attr.concat = {2}, .in = {REAL(7, 3, 31), REAL(7, 3, 33)}},

    {LVN_OP_mean, .attr.mean = {0}, .in = {REAL(1)}},
    {LVN_OP_mean, .attr.mean = {0}, .in = {REAL(67)}},
    {LVN_OP_mean, .attr.mean = {1}, .in = {REAL(2, 7, 17)}},
    {LVN_OP_mean, .attr.mean = {2}, .in = {REAL(2, 3, 300)}},
    {LVN_OP_mean, .attr.mean = {0}, .in = {REAL(5, 2, 3, 31)}},

    {LVN_OP_mul_rows, .in = {REAL(3, 1), REAL(1)}},
    {LVN_OP_mul_rows, .in = {REAL(2, 3, 17), REAL(17)}},
    {LVN_OP_mul_rows, .in = {REAL(5, 3, 16), REAL(3, 16)}},
    {LVN_OP_mul_rows, .in = {REAL(600, 40), REAL(40)}, .large = true},

    {LVN_OP_last_token, .in = {REAL(1, 1, 1), IDS(2, 1)}},
    {LVN_OP_last_token, .in = {REAL(5, 7, 17), IDS(8, 5)}},
    {LVN_OP_last_token, .in = {REAL(33, 3, 16), IDS(4, 33)}},

    {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = 0, .count = 1},
    {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = 1, .count = 15},
    {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = 1e6, .count = 4096},
    {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = 1, .count = 4097},
    {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = 1, .count = 7 * 4096 + 33},
    {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = 1, .count = 2050 * 4096 + 33, .large = true}, /* two groups */

    {LVN_OP_unscale, .attr.unscale = {1}, .count = 1},

    {LVN_OP_accumulate, .count = 1},
    {LVN_OP_accumulate, .count = 1031},
    {LVN_OP_accumulate, .count = 2840},
    {LVN_OP_accumulate, .attr.accumulate.copy = true, .count = 1031},
    {LVN_OP_accumulate, .attr.accumulate.copy = true, .count = 2840},
    {LVN_OP_grad_squares, .attr.grad_squares = {.first = 0, .sums = 1}, .count = 1},
    {LVN_OP_grad_squares, .attr.grad_squares = {.first = 2, .sums = 5}, .count = 4096},
    {LVN_OP_grad_squares, .attr.grad_squares = {.first = 17, .sums = 25}, .count = 7 * 4096 + 33},
    {LVN_OP_parameter_checksum, .count = 1},
    {LVN_OP_parameter_checksum, .count = 4097},
    {LVN_OP_parameter_checksum, .count = 40 * 4096 + 33}, /* more than one part for each group */
    {LVN_OP_parameter_checksum, .count = 7 * 4096 + 33},
    {LVN_OP_bits_sum, .count = 1},
    {LVN_OP_bits_sum, .count = 40 * 4096 + 33},
    {LVN_OP_bits_sum, .attr.bits_sum = {.number = 3, .period = 2}, .count = 4097}, /* drawn in one of two steps */
    {LVN_OP_bits_sum, .attr.bits_sum = {.number = 4, .period = 2}, .count = 4097},
    {LVN_OP_bits_sum, .attr.bits_sum = {.number = 5, .period = 2}, .count = 4097},

    {LVN_OP_adamw, .attr.adamw = {{.lr_scale = 1}, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8}, .count = 1},
    {LVN_OP_adamw, .attr.adamw = {{.weight_decay = 0.1, .lr_scale = 1}, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
        .count = 65},
    {LVN_OP_adamw, .attr.adamw = {{.weight_decay = 0.1, .lr_scale = 0.5, .clip_value = 0.1}, .beta1 = 0.9,
        .beta2 = 0.95, .eps = 1e-8}, .count = 1031},
    {LVN_OP_adamw, .attr.adamw = {{.weight_decay = 0.1, .lr_scale = 1}, .beta1 = 0.8, .beta2 = 0.999, .eps = 1e-6,
        .coupled = true}, .count = 4096},
    {LVN_OP_adamw, .attr.adamw = {{.lr_scale = 1, .summed = 7}, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8},
        .count = 9999},

    {LVN_OP_sgd, .attr.sgd = {{.lr_scale = 1}, 0}, .count = 1},
    {LVN_OP_sgd, .attr.sgd = {{.lr_scale = 2}, .momentum = 0.9}, .count = 65},
    {LVN_OP_sgd, .attr.sgd = {{.weight_decay = 0.1, .lr_scale = 1, .clip_value = 0.1}, .momentum = 0.9}, .count = 1031},

    {LVN_OP_sgd, .attr.sgd = {{.lr_scale = 1, .summed = 3}, .momentum = 0.9}, .count = 1031},

    {LVN_OP_lion, .attr.lion = {{.lr_scale = 1}, .beta1 = 0.9, .beta2 = 0.99}, .count = 1},
    {LVN_OP_lion, .attr.lion = {{.lr_scale = 1, .summed = 3}, .beta1 = 0.9, .beta2 = 0.99}, .count = 1031},
    {LVN_OP_lion, .attr.lion = {{.weight_decay = 0.1, .lr_scale = 2}, .beta1 = 0.9, .beta2 = 0.99}, .count = 65},
    {LVN_OP_lion, .attr.lion = {{.weight_decay = 0.3, .lr_scale = 1, .clip_value = 0.1}, .beta1 = 0.95, .beta2 = 0.98},
        .count = 1031},

    {LVN_OP_muon_direction, .attr.muon_direction = {{.lr_scale = 1}, .momentum = 0.95}, .count = 1},
    {LVN_OP_muon_direction, .attr.muon_direction = {{.lr_scale = 1, .summed = 2}, .momentum = 0.9}, .count = 65},
    {LVN_OP_muon_direction, .attr.muon_direction = {{.clip_value = 0.1}, .momentum = 0}, .count = 1031},

    {LVN_OP_orthogonalize, .attr.orthogonalize = {5, false}, .in = {REAL(1, 1)}},
    {LVN_OP_orthogonalize, .attr.orthogonalize = {5, false}, .in = {REAL(17, 33)}},
    {LVN_OP_orthogonalize, .attr.orthogonalize = {2, false}, .in = {REAL(33, 67)}},
    {LVN_OP_orthogonalize, .attr.orthogonalize = {1, false}, .in = {REAL(67, 33)}},
    {LVN_OP_orthogonalize, .attr.orthogonalize = {5, false}, .in = {AROUND(0, 1e-9, 130, 97)}, .large = true},

    {LVN_OP_muon_step, .attr.muon_step = {{.lr_scale = 1}, .ratio = 1}, .count = 1},
    {LVN_OP_muon_step, .attr.muon_step = {{.weight_decay = 0.1, .lr_scale = 2, .summed = 1}, .ratio = 2}, .count = 65},
    {LVN_OP_muon_step, .attr.muon_step = {{.weight_decay = 0.3, .lr_scale = 1}, .ratio = 3}, .count = 1031},
};
/* clang-format on */
enum { N_OP_CASES = sizeof op_cases / sizeof op_cases[0] };

#endif
