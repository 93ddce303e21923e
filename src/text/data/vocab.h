/* vocab.h - characters as token ids: a vocabulary of code points, text to ids and back, JSON. Called by data.kind=chars
 * and codec.h.
 *
 * A vocabulary is a set of Unicode code points; the id of a character is its rank among them, so the same text gives
 * the same ids in every process. It is stored as one bit per code point with running counts: a rank is one addition and
 * one population count. */
#ifndef LVN_VOCAB_H
#define LVN_VOCAB_H

#include "base/status.h"

enum { LVN_CODE_POINTS = 0x110000, LVN_VOCAB_WORDS = LVN_CODE_POINTS / 64 };

struct lvn_vocab {
    int64_t n;                       /* characters */
    uint32_t *points;                /* [n], ascending */
    uint64_t bits[LVN_VOCAB_WORDS];  /* bit set: the code point is in the vocabulary */
    int32_t before[LVN_VOCAB_WORDS]; /* number of bits set in the words before this one */
};

/* An empty vocabulary; NULL: out of memory. */
struct lvn_vocab *lvn_vocab_new(void);
void lvn_vocab_free(struct lvn_vocab *v);                    /* NULL: nothing */
struct lvn_vocab *lvn_vocab_copy(const struct lvn_vocab *v); /* NULL: out of memory */

/* Add the characters of a text and count them. LVN_FORMAT, with `name` (of the text) and the byte offset, if it is
 * not UTF-8 or contains a NUL byte. lvn_vocab_seal() must follow before the first lookup of an id. */
enum lvn_status lvn_vocab_add(struct lvn_vocab *v, const char *name, const void *text, int64_t bytes,
                              int64_t *n_chars) LVN_CHECKED;
enum lvn_status lvn_vocab_seal(struct lvn_vocab *v) LVN_CHECKED;

/* The id of a code point; -1 if the vocabulary lacks it. */
static inline int32_t lvn_vocab_id(const struct lvn_vocab *v, uint32_t point)
{
    uint64_t word = v->bits[point >> 6], bit = (uint64_t)1 << (point & 63);
    return word & bit ? v->before[point >> 6] + __builtin_popcountll(word & (bit - 1)) : -1;
}
/* Text to ids; the capacity of `ids` must be `bytes`. LVN_ARG for a character that the vocabulary lacks, with its byte
 * offset and `name` ("the prompt", a file). */
enum lvn_status lvn_vocab_encode(const struct lvn_vocab *v, const char *name, const void *text, int64_t bytes,
                                 int32_t *ids, int64_t *n_ids) LVN_CHECKED;
/* Fail with the message for a character that the vocabulary lacks. */
enum lvn_status lvn_vocab_refuse(const struct lvn_vocab *v, const char *name, uint32_t point,
                                 int64_t offset) LVN_CHECKED;
/* One id as zero-terminated UTF-8; U+FFFD for ids beyond the vocabulary (a padded head). Returns the bytes, 1 to 4. */
int lvn_vocab_decode(const struct lvn_vocab *v, int64_t id, char out[5]);

/* The vocabulary as a tokenizer.json of the library `tokenizers` (a BPE without merges) for Hugging Face's
 * AutoTokenizer; the caller frees it. lvn_vocab_tokenizer_config is the tokenizer_config.json for it. */
enum lvn_status lvn_vocab_to_tokenizer(const struct lvn_vocab *v, char **json) LVN_CHECKED;
extern const char lvn_vocab_tokenizer_config[];
/* {"kind":"chars","vocab_size":65,"vocabulary":"..."}, all characters in ascending order; the caller frees it. */
enum lvn_status lvn_vocab_to_json(const struct lvn_vocab *v, char **json) LVN_CHECKED;
/* The reverse; `name`: of the file, for messages. LVN_FORMAT. */
enum lvn_status lvn_vocab_from_json(struct lvn_vocab **out, const char *name, const char *json,
                                    int64_t bytes) LVN_CHECKED;
/* From the characters, which must be distinct and in ascending order; else LVN_FORMAT. */
enum lvn_status lvn_vocab_from_text(struct lvn_vocab **out, const char *name, const char *text,
                                    int64_t bytes) LVN_CHECKED;

#endif
