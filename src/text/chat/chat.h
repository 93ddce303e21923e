/* chat.h - conversations to token ids and labels. Called by `levin tokenize --chat`.
 *
 * A struct lvn_chat is a tokenizer with a chat template; it is read-only and shared by threads. The template is the
 * model's (chat_template.jinja, or chat_template in tokenizer_config.json; for conversations with tools
 * additional_chat_templates/tool_use.jinja), a built-in one or a file. Rows are read by chat_row.h, encoded by
 * chat_encode.h. The callers read files. */
#ifndef LVN_CHAT_H
#define LVN_CHAT_H

#include "chat/chat_row.h"
#include "templates/chat_template.h"
#include "tokenizers/tokenizer.h"

/* The tokens of which answers get labels. */
enum lvn_train_on {
    LVN_TRAIN_ON_ANSWERS,     /* of the assistant's messages */
    LVN_TRAIN_ON_LAST_ANSWER, /* of the last of these */
    LVN_TRAIN_ON_ALL,         /* all tokens */
};

struct lvn_chat_options {
    const char *chat_template; /* a built-in name or a file; NULL or "": the model's */
    enum lvn_train_on train_on;
    bool reads_ids; /* the tokenizer may have no chat template, which rows of token ids do not need */
    bool now; /* templates that ask for the date get today's; otherwise always the same date, as training needs it */
};

enum { LVN_CHAT_TOKENS = 64 };
struct lvn_chat {
    struct lvn_arena arena;
    const struct lvn_tokenizer *tokenizer;          /* borrowed */
    const char *template_name;                      /* for messages */
    const char *given;                              /* the text of the template that options name; NULL: the model's */
    uint64_t sum;                                   /* checksum of the texts of the template and of the named tokens */
    struct lvn_chat_template *chat_template;        /* NULL only with reads_ids */
    struct lvn_chat_template *with_tools;           /* for conversations with tools; NULL: the same */
    struct lvn_tpl_variable token[LVN_CHAT_TOKENS]; /* bos_token, eos_token, ... */
    int n_tokens;
    bool *is_special;               /* [tokenizer->n] */
    bool joins_parts;               /* the template does not support lists of text parts: their texts are joined */
    bool has_human;                 /* the template's text has the word human */
    bool unwritten[LVN_CHAT_ROLES]; /* the template does not write messages of this role (lvn_chat_roles) */
    bool parses_arguments; /* arguments of tool calls that are JSON text are given to the template as objects */
    const char *prompt;    /* with which the template always ends, whether a prompt is asked for or not; "": none */
    struct tm now;         /* what strftime_now formats */
    enum lvn_train_on train_on;
};

/* LVN_ARG if the tokenizer has no chat template and none is given (unless reads_ids), or the name is no template. */
enum lvn_status lvn_chat_open(struct lvn_chat **out, const struct lvn_tokenizer *t,
                              const struct lvn_chat_options *o) LVN_CHECKED;
/* LVN_ARG if c was opened without a chat template (reads_ids). */
enum lvn_status lvn_chat_require_template(const struct lvn_chat *c) LVN_CHECKED;
void lvn_chat_close(struct lvn_chat *c); /* NULL: nothing */
/* Is it the name of a built-in chat template? */
bool lvn_chat_template_is_builtin(const char *name);
/* The value of train_on by its name; false: there is no such name. */
bool lvn_train_on_of(const char *name, enum lvn_train_on *out);

#endif
