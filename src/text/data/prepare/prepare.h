/* prepare.h - writes a data set of one stream as token files. Called by `levin prepare`. See text_prepare.h for
 * texts that need a tokenizer. */
#ifndef LVN_PREPARE_H
#define LVN_PREPARE_H

#include "data/dataset.h"

struct lvn_prepared {
    int64_t vocab_size;
    int64_t n_tokens[LVN_SPLITS_TRAINED];
};

struct lvn_tokenizer;
/* Return ARG, with the file's name, if OUT (a folder or a path in a store) already contains token files, or files of a
 * tokenizer other than `t` (NULL: no tokenizer is written). overwrites: token files may exist, but no shards in a
 * store. */
enum lvn_status lvn_prepare_refuse(const char *out, const struct lvn_tokenizer *t, bool overwrites) LVN_CHECKED;

/* Write OUT/train.bin and OUT/val.bin, each with a .json of its type and vocabulary. Create the folder; replace
 * existing files atomically: call lvn_prepare_refuse() before. val_fraction: share of a single text for validation,
 * replaces the kind's default; NULL: not given. shard_tokens: a part with more tokens is cut into shards of this many;
 * 0: no part is divided. ARG for kinds that are lists, and token files. */
enum lvn_status lvn_prepare(const struct lvn_data_options *o, const double *val_fraction, int64_t shard_tokens,
                            const char *out, struct lvn_prepared *result) LVN_CHECKED;

#endif
