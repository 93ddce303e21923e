/* normalizer.h - the normalizers of a tokenizer.json, which change text before pre-tokenization. Called by encoder.c,
 * word_count.c and the readers of files.
 *
 * NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, Nmt, BertNormalizer, Precompiled (the
 * character map of a SentencePiece model), and Sequence of these. Left out, and refused by name: all others. */
#ifndef LVN_NORMALIZER_H
#define LVN_NORMALIZER_H

#include "base/text.h"
#include "formats/json.h"
#include "tokenizers/regex/regex.h"
#include "tokenizers/unicode/unicode.h"

struct lvn_normalizer_kind;
struct lvn_normalizer_step {
    const struct lvn_normalizer_kind *kind;
    enum lvn_unicode_form form;   /* NFC, NFD, NFKC, NFKD */
    bool left;                    /* Strip: at the beginning */
    bool right;                   /* Strip: at the end */
    bool clean;                   /* BertNormalizer: clean_text */
    bool chinese;                 /* BertNormalizer: handle_chinese_chars */
    bool accents;                 /* BertNormalizer: strip_accents */
    bool lower;                   /* BertNormalizer: lowercase */
    const char *from;             /* Replace: a literal pattern, if there is no expression */
    const char *to;               /* Replace: the new content; Prepend: the text */
    int64_t n_from;               /* bytes of from */
    int64_t n_to;                 /* bytes of to */
    struct lvn_regex *expression; /* Replace */
    const uint32_t *trie;         /* Precompiled: a double array, whose leaves are offsets in texts */
    int64_t n_trie;
    int64_t n_texts;
    const char *texts; /* Precompiled: replacements, each ended by a zero */
};

enum { LVN_NORMALIZER_MAX = 16 };
struct lvn_normalizer {
    struct lvn_normalizer_step step[LVN_NORMALIZER_MAX];
    int n;
};

/* Read the "normalizer" of the tokenizer file `name`; `object` may be NULL or null. */
enum lvn_status lvn_normalizer_read(struct lvn_normalizer *out, struct lvn_arena *a, const char *name,
                                    const json_t *object) LVN_CHECKED;
/* BertNormalizer without a file, with clean_text. */
struct lvn_normalizer_step lvn_normalizer_bert(bool lower, bool accents, bool chinese);

/* Does a step put a text before the input? */
bool lvn_normalizer_prepends(const struct lvn_normalizer *steps);

/* Does the result for each character depend at most on its neighbors, and on no white space among them? */
bool lvn_normalizer_is_local(const struct lvn_normalizer *steps);

/* Memory of one thread. All zero is empty. */
struct lvn_normalizer_scratch {
    struct lvn_text text[2];
    struct lvn_regex_scratch regex;
};
void lvn_normalizer_scratch_release(struct lvn_normalizer_scratch *s);
/* Set *p, *n to the normalized text, in the scratch or unchanged. *begins becomes false if the first character was
 * removed. */
enum lvn_status lvn_normalizer_run(const struct lvn_normalizer *steps, struct lvn_normalizer_scratch *s,
                                   const uint8_t **p, int64_t *n, bool *begins) LVN_CHECKED;

#endif
