/* prepare_text.h - the part of `levin prepare` that takes a tokenizer. */
#ifndef LVN_PREPARE_TEXT_H
#define LVN_PREPARE_TEXT_H

#include "cli/cli.h"

/* openwebtext, text or jsonl? */
bool lvn_cli_is_corpus(const char *word);
enum lvn_status lvn_cli_prepare_corpus(struct lvn_cli *c, const char *kind) LVN_CHECKED;
/* One text file, split nine to one. */
enum lvn_status lvn_cli_prepare_one(struct lvn_cli *c, const char *text, const char *out) LVN_CHECKED;

#endif
