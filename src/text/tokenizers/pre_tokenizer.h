/* pre_tokenizer.h - the pre-tokenizers of a tokenizer.json, which split normalized text into the pieces that the model
 * encodes. Called by encoder.c, word_count.c and the readers of files.
 *
 * ByteLevel, Metaspace, Split, Whitespace, WhitespaceSplit, Punctuation, Digits, BertPreTokenizer and Sequence of
 * these. Each finds matches in the text, and has a behavior for these; ByteLevel and Metaspace may also prepend a space
 * to the text. Left out, and refused by name: all others. */
#ifndef LVN_PRE_TOKENIZER_H
#define LVN_PRE_TOKENIZER_H

#include "base/text.h"
#include "formats/json.h"
#include "tokenizers/regex/regex.h"
#include "tokenizers/split.h"

enum lvn_pre_tokenizer_kind {
    LVN_PRE_NOTHING,     /* no match: the text is one piece */
    LVN_PRE_SPLIT,       /* adjacent matches of a well-known expression: see split.h */
    LVN_PRE_EXPRESSION,  /* matches of any expression */
    LVN_PRE_LITERAL,     /* occurrences of a text */
    LVN_PRE_SPACE,       /* a white-space character */
    LVN_PRE_PUNCTUATION, /* a punctuation character */
    LVN_PRE_DIGIT,       /* a digit */
    LVN_PRE_WORDS,       /* \w+|[^\w\s]+ */
    LVN_PRE_BERT,        /* a punctuation character, or a run of other characters without white space */
};
/* Hugging Face's SplitDelimiterBehavior: what happens to a match. */
enum lvn_split_behavior {
    LVN_SPLIT_ISOLATED,             /* a separate piece */
    LVN_SPLIT_REMOVED,              /* dropped */
    LVN_SPLIT_CONTIGUOUS,           /* adjacent matches form one piece */
    LVN_SPLIT_MERGED_WITH_PREVIOUS, /* belongs to the piece before it */
    LVN_SPLIT_MERGED_WITH_NEXT,     /* belongs to the piece after it */
};
/* Metaspace's prepend_scheme: to which texts the replacement is prepended. FIRST: to the beginning of the whole text.
 */
enum lvn_prepend_scheme { LVN_PREPEND_NEVER, LVN_PREPEND_FIRST, LVN_PREPEND_ALWAYS };

struct lvn_pre_tokenizer_step {
    enum lvn_pre_tokenizer_kind kind;
    enum lvn_split_behavior behavior;
    bool invert;               /* the text between matches takes the role of matches */
    enum lvn_split_kind split; /* SPLIT */
    struct lvn_regex *expression;
    const char *literal;
    int64_t n_literal;
    enum lvn_prepend_scheme prepend; /* `replacement`, unless the text begins with it */
    const char *replacement;         /* Metaspace: U+2581; ByteLevel: a space */
    int64_t n_replacement;
    bool replace_spaces; /* Metaspace: each space becomes `replacement` */
    bool bytes;          /* ByteLevel: the model's symbols are bytes */
};

enum { LVN_PRE_TOKENIZER_MAX = 8 };
struct lvn_pre_tokenizer {
    struct lvn_pre_tokenizer_step step[LVN_PRE_TOKENIZER_MAX];
    int n;
};

/* Read the "pre_tokenizer" of the tokenizer file `name`; `object` may be NULL or null. */
enum lvn_status lvn_pre_tokenizer_read(struct lvn_pre_tokenizer *out, struct lvn_arena *a, const char *name,
                                       const json_t *object) LVN_CHECKED;
struct lvn_pre_tokenizer_step lvn_pre_tokenizer_split(enum lvn_split_kind kind);
struct lvn_pre_tokenizer_step lvn_pre_tokenizer_bert(void);
/* Set the kind of a step, and what it needs, to the matches of an expression; name: of its file, for messages. */
enum lvn_status lvn_pre_tokenizer_expression(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                                             const char *expression) LVN_CHECKED;
/* Does the step only split, without changing the text? */
static inline bool lvn_pre_tokenizer_only_splits(const struct lvn_pre_tokenizer_step *s)
{
    return s->kind == LVN_PRE_SPLIT && s->prepend == LVN_PREPEND_NEVER && !s->replace_spaces;
}

/* Memory of one thread for one step. All zero is empty. */
struct lvn_pre_tokenizer_scratch {
    struct lvn_text text; /* after replacements */
    struct lvn_regex_scratch regex;
};
void lvn_pre_tokenizer_scratch_release(struct lvn_pre_tokenizer_scratch *s);

/* Call a function with each piece of p[0, n), in order. begins: the text, or piece, is the beginning of the whole
 * text.
 */
typedef enum lvn_status lvn_pre_tokenizer_piece(void *context, const uint8_t *p, int64_t n, bool begins);
enum lvn_status lvn_pre_tokenizer_run(const struct lvn_pre_tokenizer_step *step, struct lvn_pre_tokenizer_scratch *s,
                                      const uint8_t *p, int64_t n, bool begins, lvn_pre_tokenizer_piece *piece,
                                      void *context) LVN_CHECKED;
/* The next piece of BertPreTokenizer at or after p; NULL: none. */
const uint8_t *lvn_pre_tokenizer_bert_word(const uint8_t *p, const uint8_t *end, int64_t *bytes);

#endif
