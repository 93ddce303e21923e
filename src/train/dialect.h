/* dialect.h - how a parameter lies in the files of a dialect. */
#ifndef LVN_DIALECT_H
#define LVN_DIALECT_H

#include <string.h>

#include "train/pretrained.h"

/* The blocks' linear weights are (in, out) in memory and in Hugging Face's files, (out, in) in the others. Decided by
 * name, once per file: a square weight shows nothing by its shape. The head is (out, in) everywhere. */
static inline bool lvn_dialect_transposes(enum lvn_dialect d, const struct lvn_param *p)
{
    return d != LVN_DIALECT_HUGGINGFACE && p->kind == LVN_WEIGHT && strcmp(p->name, "lm_head.weight") != 0;
}

static inline struct lvn_desc lvn_dialect_desc(enum lvn_dialect d, const struct lvn_param *p)
{
    return lvn_dialect_transposes(d, p) ? LVN_DESC(LVN_F32, p->desc.dim[1], p->desc.dim[0])
                                        : lvn_desc_make(LVN_F32, p->desc.rank, p->desc.dim);
}

#endif
