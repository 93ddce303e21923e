/* dialect.h - how a parameter lies in the files of a dialect; private to pretrained*.c and model_files.c. */
#ifndef LVN_DIALECT_H
#define LVN_DIALECT_H

#include "train/pretrained.h"

/* The blocks' linear weights are (in, out) in memory and in Hugging Face's files, (out, in) in the others. Decided by
 * name, once per file: a square weight shows nothing by its shape. The head is (out, in) everywhere. */
bool lvn_dialect_transposes(enum lvn_dialect d, const struct lvn_param *p);
/* The parameter as the dialect's files describe it. */
struct lvn_desc lvn_dialect_desc(enum lvn_dialect d, const struct lvn_param *p);
/* Does the file hold the model of p->config? */
enum lvn_status lvn_pretrained_check(struct lvn_pretrained *p) LVN_CHECKED;

#endif
