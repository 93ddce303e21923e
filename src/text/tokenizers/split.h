/* split.h - splits text into pieces by well-known expressions of byte-level BPE. Called by pre_tokenizer.c and
 * encoder.c.
 *
 * Tokenizer files have these as regular expressions. The common ones are implemented by hand as scans over character
 * classes, several times as fast as regex.c, which handles all others. Also finds positions at which a text can be cut
 * into parts. */
#ifndef LVN_SPLIT_H
#define LVN_SPLIT_H

#include <stdint.h>

enum lvn_split_kind {
    LVN_SPLIT_NONE,       /* the whole text is one piece */
    LVN_SPLIT_BYTE_LEVEL, /* GPT-2, GPT-NeoX */
    LVN_SPLIT_LLAMA3,     /* Llama 3, GPT-4: contractions in any case, up to 3 digits, line ends separately */
    LVN_SPLIT_QWEN2,      /* the same with single digits */
    LVN_SPLIT_NANOCHAT,   /* the same with up to 2 digits */
    LVN_SPLIT_METASPACE,  /* U+2581s and the text up to the next one: words of SentencePiece */
};

/* The kind of a regular expression; -1: not one of them. */
int lvn_split_find(const char *expression);

/* Bytes of the first piece of p[0, n), n > 0. A piece does not depend on the text before it, and depends on at most
 * LVN_SPLIT_LOOKAHEAD bytes after it. */
enum { LVN_SPLIT_LOOKAHEAD = 8 };
int64_t lvn_split_next(enum lvn_split_kind kind, const uint8_t *p, int64_t n);

/* A position at which a long text can be cut without changing its pieces: the first one at or after `from` where ASCII
 * white space follows an ASCII letter or digit; n if there is none. */
int64_t lvn_split_safe(const uint8_t *p, int64_t n, int64_t from);
/* The last such position; 0 if there is none. */
int64_t lvn_split_safe_last(const uint8_t *p, int64_t n);

#endif
