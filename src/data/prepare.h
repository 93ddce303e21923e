/* prepare.h - data as token files, for `levin prepare`. */
#ifndef LVN_PREPARE_H
#define LVN_PREPARE_H

#include "data/dataset.h"

struct lvn_prepared {
    int64_t vocab_size;
    int64_t n_tokens[LVN_SPLITS_TRAINED];
};

struct lvn_tokenizer;
/* ARG with the name of a file where OUT, here or in a store, holds token files already, or a tokenizer's file that is
 * not this one's (NULL: no tokenizer comes along). */
enum lvn_status lvn_prepare_refuse(const char *out, const struct lvn_tokenizer *t) LVN_CHECKED;

/* Write the data as OUT/train.bin and OUT/val.bin, each with its .json that says type and vocabulary; the folder is
 * made when it is missing, existing files are replaced whole or not at all: ask lvn_prepare_refuse() before. Only kinds
 * of one long stream can be written. */
enum lvn_status lvn_prepare(const struct lvn_data_options *o, const char *out, struct lvn_prepared *result) LVN_CHECKED;

#endif
