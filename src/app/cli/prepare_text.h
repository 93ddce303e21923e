/* prepare_text.h - levin prepare with a tokenizer; called by prepare.c. */
#ifndef LVN_PREPARE_TEXT_H
#define LVN_PREPARE_TEXT_H

#include "cli/cli.h"
#include "tokenizers/tokenizer.h"

/* Is the word openwebtext, text or jsonl? */
bool lvn_cli_is_corpus(const char *word);
/* Prepare --input of that kind into --out (default: data/KIND). */
enum lvn_status lvn_cli_prepare_corpus(struct lvn_cli *c, const char *kind) LVN_CHECKED;
/* The same for a given file or folder. */
enum lvn_status lvn_cli_prepare_files(struct lvn_cli *c, const char *kind, const char *input,
                                      const char *out) LVN_CHECKED;
/* ARG if token files are in `out` and --overwrite is not given. t: see lvn_prepare_refuse(). */
enum lvn_status lvn_cli_prepare_check_overwrite(const struct lvn_cli *c, const char *out,
                                                const struct lvn_tokenizer *t) LVN_CHECKED;
/* Window of the model that the settings name (model.block_size); 0: they name none. */
int64_t lvn_cli_prepare_window(const struct lvn_cli *c);
/* Check the flags that need neither a tokenizer nor data, before anything is downloaded or created. */
enum lvn_status lvn_cli_prepare_check_flags(const struct lvn_cli *c) LVN_CHECKED;
/* --shard-size in tokens of `width` bytes; 0: no shards. ARG for another text than a number or a size. */
enum lvn_status lvn_cli_prepare_shard_tokens(const struct lvn_cli *c, int width, int64_t *out) LVN_CHECKED;
/* Prepare one text file: its last part is for validation. */
enum lvn_status lvn_cli_prepare_one(struct lvn_cli *c, const char *text, const char *out) LVN_CHECKED;

#endif
