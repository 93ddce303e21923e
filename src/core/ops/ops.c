/* ops.c - lvn_op(): the table of all operations, compiled for fp32 and fp64; see graph/op.h. */
#include "ops/real.h"

#ifndef LVN_REAL_DOUBLE

#define LVN_OP(name, attr, args) extern const struct lvn_op lvn_op_##name##_f32, lvn_op_##name##_f64;
#include "ops/ops.def"

static const struct lvn_op *const ops[LVN_OP_COUNT][2] = {
#define LVN_OP(name, attr, args) [LVN_OP_##name] = {&lvn_op_##name##_f32, &lvn_op_##name##_f64},
#include "ops/ops.def"
};

const struct lvn_op *lvn_op(enum lvn_op_id id, enum lvn_dtype real_type)
{
    return ops[id][real_type == LVN_F64];
}

#endif
