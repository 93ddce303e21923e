/* precision.c - which number type each value has.
 *
 * A graph is built in one real type (fp32; fp64 for reference runs). With `32-true` that is also the type of every
 * value, and the pass only checks it: an instruction whose operands mix types has no kernel. Mixed precision changes
 * descriptions here and inserts casts, and nothing else in the program knows. */
#include "passes/program.h"

enum lvn_status lvn_pass_precision(struct lvn_program *p)
{
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        for (int k = 0; k < i->op->n_in; k++) {
            enum lvn_dtype t = i->in[k].desc.dtype;
            bool real = t == LVN_F32 || t == LVN_F64 || t == LVN_BF16 || t == LVN_F16;
            LVN_CHECK(i->in[k].value < 0 || !real || t == p->real, UNSUPPORTED, "%s: input %d is %s in a program of %s",
                      i->name, k, lvn_dtype_name(t), lvn_dtype_name(p->real));
        }
    }
    return LVN_OK;
}
