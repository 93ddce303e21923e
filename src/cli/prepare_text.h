/* prepare_text.h - the part of `levin prepare` that takes a tokenizer. */
#ifndef LVN_PREPARE_TEXT_H
#define LVN_PREPARE_TEXT_H

#include "cli/cli.h"
#include "tokenizers/tokenizer.h"

/* openwebtext, text or jsonl? */
bool lvn_cli_is_corpus(const char *word);
/* As --input and --out say. */
enum lvn_status lvn_cli_prepare_corpus(struct lvn_cli *c, const char *kind) LVN_CHECKED;
/* The same for a file or folder that TEXT names. */
enum lvn_status lvn_cli_prepare_files(struct lvn_cli *c, const char *kind, const char *input,
                                      const char *out) LVN_CHECKED;
/* What is there is replaced where --overwrite says so, and refused else. */
enum lvn_status lvn_cli_prepare_may(const struct lvn_cli *c, const char *out,
                                    const struct lvn_tokenizer *t) LVN_CHECKED;
/* One text file, split nine to one. */
enum lvn_status lvn_cli_prepare_one(struct lvn_cli *c, const char *text, const char *out) LVN_CHECKED;

#endif
