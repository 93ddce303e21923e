/* normalizer.h - what happens to text before it is cut into pieces: the normalizers of a tokenizer.json, in their
 * order.
 *
 * NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, Nmt, BertNormalizer, Precompiled (the map of
 * characters that SentencePiece models carry), and Sequence of these. Others are refused by name. */
#ifndef LVN_NORMALIZER_H
#define LVN_NORMALIZER_H

#include "base/text.h"
#include "formats/json.h"
#include "tokenizers/regex/regex.h"
#include "tokenizers/unicode/unicode.h"

struct lvn_normal_kind;
struct lvn_normal_step {
    const struct lvn_normal_kind *kind;
    enum lvn_normal_form form;
    bool left, right;                    /* Strip */
    bool clean, chinese, accents, lower; /* BertNormalizer; accents: taken off */
    const char *from, *to;               /* Replace, Prepend; from: looked for as it is, without an expression */
    int64_t n_from, n_to;
    struct lvn_regex *expression;
    const uint32_t *trie; /* Precompiled: a double array, and the texts that its leaves point to */
    int64_t n_trie, n_texts;
    const char *texts;
};

enum { LVN_NORMAL_MAX = 16 };
struct lvn_normal_steps {
    struct lvn_normal_step step[LVN_NORMAL_MAX];
    int n;
};

/* The "normalizer" of the tokenizer file `name`; `object` may be NULL or null. */
enum lvn_status lvn_normal_read(struct lvn_normal_steps *out, struct lvn_arena *a, const char *name,
                                const json_t *object) LVN_CHECKED;
/* BertNormalizer without a file. */
struct lvn_normal_step lvn_normal_bert(bool lower, bool accents, bool chinese);

/* Does each changed character depend on its neighbours at most, and on no white space among them? */
bool lvn_normal_is_local(const struct lvn_normal_steps *steps);

/* Memory of one thread. All zero is empty. */
struct lvn_normal_scratch {
    struct lvn_text text[2];
    struct lvn_regex_scratch places;
};
void lvn_normal_scratch_release(struct lvn_normal_scratch *s);
/* *p, *n become the normalized text, which lies in the scratch or is the same; *begins turns false when the first
 * character that is left was not the first. */
enum lvn_status lvn_normal_text(const struct lvn_normal_steps *steps, struct lvn_normal_scratch *s, const uint8_t **p,
                                int64_t *n, bool *begins) LVN_CHECKED;

/* normalizer_precompiled.c */
enum lvn_status lvn_precompiled_read(struct lvn_normal_step *s, struct lvn_arena *a, const char *name,
                                     const json_t *object) LVN_CHECKED;
void lvn_precompiled_run(const struct lvn_normal_step *s, const uint8_t *p, int64_t n, struct lvn_text *out);

#endif
