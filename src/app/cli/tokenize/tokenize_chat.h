/* tokenize_chat.h - levin tokenize --chat, for tokenize.c. */
#ifndef LVN_TOKENIZE_CHAT_H
#define LVN_TOKENIZE_CHAT_H

#include "cli/cli.h"
#include "tokenizers/tokenizer.h"

enum lvn_status lvn_cli_tokenize_chat(struct lvn_cli *c, const struct lvn_tokenizer *t) LVN_CHECKED;

#endif
