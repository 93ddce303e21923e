/* pre_tokenizer.h - cutting normalized text into the pieces that a model sees: the pre-tokenizers of a tokenizer.json,
 * in their order.
 *
 * ByteLevel, Metaspace, Split, Whitespace, WhitespaceSplit, Punctuation, Digits, BertPreTokenizer and Sequence of
 * these. Each finds places in the text and says what becomes of them; ByteLevel and Metaspace also put a space in
 * front. Others are refused by name. */
#ifndef LVN_PRE_TOKENIZER_H
#define LVN_PRE_TOKENIZER_H

#include "base/text.h"
#include "formats/json.h"
#include "tokenizers/regex/regex.h"
#include "tokenizers/split.h"

enum lvn_pre_kind {
    LVN_PRE_NOTHING,     /* the text is one piece */
    LVN_PRE_TILES,       /* one place behind the other: see split.h */
    LVN_PRE_EXPRESSION,  /* what an expression matches */
    LVN_PRE_LITERAL,     /* where a text stands */
    LVN_PRE_SPACE,       /* a character of white space */
    LVN_PRE_PUNCTUATION, /* a character of punctuation */
    LVN_PRE_DIGIT,       /* a digit */
    LVN_PRE_WORDS,       /* \w+|[^\w\s]+ */
    LVN_PRE_BERT,        /* a character of punctuation, or a run of what is neither that nor white space */
};
/* What becomes of a place. */
enum lvn_pre_way { LVN_PRE_ISOLATED, LVN_PRE_REMOVED, LVN_PRE_CONTIGUOUS, LVN_PRE_WITH_PREVIOUS, LVN_PRE_WITH_NEXT };
enum lvn_pre_front { LVN_FRONT_NEVER, LVN_FRONT_FIRST, LVN_FRONT_ALWAYS };

struct lvn_pre_step {
    enum lvn_pre_kind kind;
    enum lvn_pre_way way;
    bool invert; /* what lies between the places is meant */
    enum lvn_split_kind tiles;
    struct lvn_regex *expression;
    const char *literal;
    int64_t n_literal;
    enum lvn_pre_front front; /* a mark before a text that does not begin with one: before the first piece, or all */
    const char *mark;
    int64_t n_mark;
    bool spaces; /* they become marks */
    bool bytes;  /* ByteLevel: the model's letters are bytes */
};

enum { LVN_PRE_MAX = 8 };
struct lvn_pre_steps {
    struct lvn_pre_step step[LVN_PRE_MAX];
    int n;
};

/* The "pre_tokenizer" of the tokenizer file `name`; `object` may be NULL or null. */
enum lvn_status lvn_pre_read(struct lvn_pre_steps *out, struct lvn_arena *a, const char *name,
                             const json_t *object) LVN_CHECKED;
struct lvn_pre_step lvn_pre_tiles(enum lvn_split_kind kind);
struct lvn_pre_step lvn_pre_bert(void);
/* Does the step cut only, and always into the same tiles? */
static inline bool lvn_pre_is_plain(const struct lvn_pre_step *s)
{
    return s->kind == LVN_PRE_TILES && s->front == LVN_FRONT_NEVER && !s->spaces;
}

/* Memory of one thread for one step. All zero is empty. */
struct lvn_pre_scratch {
    struct lvn_text marked;
    struct lvn_regex_scratch places;
};
void lvn_pre_scratch_release(struct lvn_pre_scratch *s);

/* Every piece of p[0..n) to a function, in order. `begins`: it stands at the beginning of the whole text. */
typedef enum lvn_status lvn_pre_piece(void *context, const uint8_t *p, int64_t n, bool begins);
enum lvn_status lvn_pre_run(const struct lvn_pre_step *step, struct lvn_pre_scratch *s, const uint8_t *p, int64_t n,
                            bool begins, lvn_pre_piece *piece, void *context) LVN_CHECKED;
/* The next word of BERT's at or after p; NULL: there is none. */
const uint8_t *lvn_pre_bert_word(const uint8_t *p, const uint8_t *end, int64_t *bytes);

#endif
