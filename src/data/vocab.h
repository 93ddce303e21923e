/* vocab.h - characters as token ids.
 *
 * A vocabulary is a set of Unicode code points; the id of a character is its rank among them, so the same text gives
 * the same ids in every process. Kept as one bit per code point with running counts: the rank is one addition and one
 * count of bits. */
#ifndef LVN_VOCAB_H
#define LVN_VOCAB_H

#include <stdint.h>

#include "base/status.h"

enum { LVN_CODE_POINTS = 0x110000, LVN_VOCAB_WORDS = LVN_CODE_POINTS / 64 };

struct lvn_vocab {
    int64_t n;                       /* characters */
    uint32_t *points;                /* [n], ascending */
    uint64_t bits[LVN_VOCAB_WORDS];  /* which code points are in */
    int32_t before[LVN_VOCAB_WORDS]; /* characters in the words before this one */
};

/* An empty vocabulary; NULL when memory ran out. */
struct lvn_vocab *lvn_vocab_new(void);
void lvn_vocab_free(struct lvn_vocab *v);                    /* NULL: nothing */
struct lvn_vocab *lvn_vocab_copy(const struct lvn_vocab *v); /* NULL when memory ran out */

/* Add the characters of a text and count them. Fails, naming `what` and the byte offset, where the bytes are not UTF-8
 * or hold a zero byte. lvn_vocab_seal() must follow before ids are asked for. */
enum lvn_status lvn_vocab_add(struct lvn_vocab *v, const char *what, const void *text, int64_t bytes,
                              int64_t *n_chars) LVN_CHECKED;
enum lvn_status lvn_vocab_seal(struct lvn_vocab *v) LVN_CHECKED;

/* The id of a code point; -1 when the vocabulary lacks it. */
static inline int32_t lvn_vocab_id(const struct lvn_vocab *v, uint32_t point)
{
    uint64_t word = v->bits[point >> 6], bit = (uint64_t)1 << (point & 63);
    return word & bit ? v->before[point >> 6] + __builtin_popcountll(word & (bit - 1)) : -1;
}
/* Text to ids; `ids` has room for `bytes` of them. Fails for a character that the vocabulary lacks, naming it, its byte
 * offset and `what` ("the prompt", a file). */
enum lvn_status lvn_vocab_encode(const struct lvn_vocab *v, const char *what, const void *text, int64_t bytes,
                                 int32_t *ids, int64_t *n_ids) LVN_CHECKED;
/* That sentence. */
enum lvn_status lvn_vocab_refuse(const struct lvn_vocab *v, const char *what, uint32_t point,
                                 int64_t offset) LVN_CHECKED;
/* One id as zero-terminated UTF-8; U+FFFD for ids beyond the vocabulary (a padded head). Returns the bytes, 1 to 4. */
int lvn_vocab_decode(const struct lvn_vocab *v, int64_t id, char out[5]);

/* The same characters as a tokenizer.json of the library `tokenizers` (a BPE without merges), with which Hugging Face's
 * AutoTokenizer reads them; the caller frees it. And the tokenizer_config.json that belongs beside it. */
enum lvn_status lvn_vocab_to_tokenizer(const struct lvn_vocab *v, char **json) LVN_CHECKED;
extern const char lvn_vocab_tokenizer_config[];
/* {"kind":"chars","vocab_size":65,"vocabulary":"..."}, all characters in ascending order; the caller frees it.
 */
enum lvn_status lvn_vocab_to_json(const struct lvn_vocab *v, char **json) LVN_CHECKED;
/* The reverse; `what` names the file in messages. */
enum lvn_status lvn_vocab_from_json(struct lvn_vocab **out, const char *what, const char *json,
                                    int64_t bytes) LVN_CHECKED;
/* From the characters themselves, which must be in ascending order. */
enum lvn_status lvn_vocab_from_text(struct lvn_vocab **out, const char *what, const char *text,
                                    int64_t bytes) LVN_CHECKED;

#endif
