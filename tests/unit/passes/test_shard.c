/* test_shard.c - covers: src/core/passes/shard.h
 *
 * Shards of models of several blocks on any number of ranks: what is owned is all, once, cut between pieces of 4096,
 * dealt evenly, and without a gap in a rank's memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "bound_program.h"
#include "passes/shard.h"

enum { PIECE = LVN_NORM_BLOCK, MAX_BLOCKS = 8 };

/* A parameter of so many elements outside of blocks, then one in each block, the last of them in the head; 0: the block
 * has none. */
static struct lvn_params *layout(const int64_t *count, int n)
{
    struct lvn_params *params = lvn_params_new();
    struct levin_graph *g = lvn_graph_new(params, LVN_F32);
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        if (count[i]) levin_vector(g, name, count[i], 0);
        if (i < n - 2)
            levin_block(g);
        else
            levin_block_end(g);
    }
    must(lvn_graph_status(g));
    must(lvn_params_layout(params, LVN_DECAY_MATRICES));
    lvn_graph_free(g);
    return params;
}

static void check_shards(const struct lvn_params *params, int size)
{
    int64_t pieces = lvn_norm_blocks(params->trainable_count), memory = 0;
    for (int rank = 0; rank < size; rank++) {
        int64_t place = 0, whole = 0;
        for (int block = 0; block < params->n_blocks; block++) {
            const struct lvn_param_block *b = &params->blocks[block];
            const struct lvn_shard s = lvn_shard_at(b, size, rank);
            const int64_t n = lvn_norm_blocks(b->count), mine = lvn_norm_blocks(s.count);
            if (!b->count) {
                assert_int_equal(s.count, 0);
                continue;
            }
            int64_t end = b->offset; /* of the shards of the ranks before this one */
            if (rank > 0) {
                const struct lvn_shard before = lvn_shard_at(b, size, rank - 1);
                end = before.first + lvn_norm_blocks(before.count) * PIECE;
            }
            assert_int_equal(s.first, end);
            assert_int_equal(s.first % PIECE, 0);
            assert_true(mine == n / size || mine == n / size + 1);
            if (rank == size - 1) assert_int_equal(s.first + mine * PIECE, b->offset + n * PIECE);
            assert_true(s.count == 0 || s.first + s.count <= b->offset + b->count);
            if (s.count) assert_int_equal(lvn_shard_offset(b, size, rank, s.first), place);
            place += mine * PIECE;
            whole += mine;
        }
        assert_true(whole == pieces / size || whole == pieces / size + 1);
        assert_true(lvn_shard_total(params, size, rank, true) <= place);
        assert_true(lvn_shard_total(params, size, rank, true) > place - PIECE || whole == 0);
        memory += lvn_shard_total(params, size, rank, true);
    }
    assert_int_equal(memory, params->trainable_count);
}

static void shards(void **state)
{
    (void)state;
    static const int64_t models[][MAX_BLOCKS] = {
        {64},
        {0, 64},
        {PIECE, PIECE, PIECE},
        {10, 3 * PIECE + 1, 3 * PIECE + 1, 3 * PIECE + 1, 0, 5},
        {0, 17 * PIECE, 64, 17 * PIECE - 64, 17 * PIECE, 2 * PIECE},
        {1000 * PIECE + 128, 77 * PIECE, 77 * PIECE, 77 * PIECE, 77 * PIECE, 77 * PIECE, 77 * PIECE, 1},
    };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int size = 1; size <= 20; size++) {
            struct lvn_params *params = layout(models[m], MAX_BLOCKS);
            check_shards(params, size);
            lvn_params_free(params);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
