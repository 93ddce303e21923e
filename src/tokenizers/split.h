/* split.h - cutting text into the pieces that byte-level BPE merges within.
 *
 * Tokenizer files write this as a regular expression. There are few of them, and each is a short walk over classes of
 * characters, written out here by hand: several times as fast as regex.c, which takes all others. */
#ifndef LVN_SPLIT_H
#define LVN_SPLIT_H

#include <stdint.h>

enum lvn_split_kind {
    LVN_SPLIT_NONE,       /* the whole text is one piece */
    LVN_SPLIT_BYTE_LEVEL, /* GPT-2, GPT-NeoX */
    LVN_SPLIT_LLAMA3,     /* Llama 3, GPT-4: contractions in any case, numbers in threes, line ends apart */
    LVN_SPLIT_QWEN2,      /* the same with numbers one by one */
    LVN_SPLIT_MARKED,     /* U+2581s, and what follows up to the next: words of SentencePiece */
};

/* The kind of a regular expression; -1: not one of them. */
int lvn_split_find(const char *expression);

/* Bytes of the first piece of p[0..n), n > 0. A piece depends on nothing before it, and on at most LVN_SPLIT_AHEAD
 * bytes behind it. */
enum { LVN_SPLIT_AHEAD = 8 };
int64_t lvn_split_next(enum lvn_split_kind kind, const uint8_t *p, int64_t n);

/* Where a long text can be cut so that its parts may be split on their own: the first place at or after `from` where
 * ASCII white space follows an ASCII letter or digit; n when there is none. */
int64_t lvn_split_safe(const uint8_t *p, int64_t n, int64_t from);
/* The last such place; 0 when there is none. */
int64_t lvn_split_safe_last(const uint8_t *p, int64_t n);

#endif
