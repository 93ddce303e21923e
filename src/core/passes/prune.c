/* prune.c - the pass that removes instructions whose results are not used (dead code elimination).
 *
 * It walks the forward list from the end. An instruction stays if it writes an output of the program, a key/value
 * cache, or a value that a later instruction reads. */
#include "passes/pass.h"

static bool needed(const struct lvn_program *p, const struct lvn_instr *i, const bool *read)
{
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        int v = i->out[k].value;
        if (v >= 0 && (read[v] || p->values[v].keep || p->values[v].buffer == LVN_BUFFER_CACHE)) return true;
    }
    return false;
}

enum lvn_status lvn_pass_prune(struct lvn_program *p)
{
    bool *read = lvn_arena_alloc(&p->arena, sizeof *read * (size_t)(p->n_values + 1));
    bool *stays = lvn_arena_alloc(&p->arena, sizeof *stays * (size_t)(p->n_instrs + 1));
    if (!read || !stays) return LVN_MEMORY;
    for (int n = p->n_instrs - 1; n >= 0; n--) {
        stays[n] = needed(p, &p->instrs[n], read);
        for (int k = 0; stays[n] && k < LVN_MAX_IN; k++)
            if (p->instrs[n].in[k].value >= 0) read[p->instrs[n].in[k].value] = true;
    }
    int n_left = 0;
    for (int n = 0; n < p->n_instrs; n++)
        if (stays[n]) p->instrs[n_left++] = p->instrs[n];
    p->n_instrs = n_left;
    return LVN_OK;
}
