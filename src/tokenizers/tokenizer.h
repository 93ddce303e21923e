/* tokenizer.h - text to token ids and back: byte-level BPE and WordPiece.
 *
 * A tokenizer is what its files say, read only, and shared by all threads. An encoder is one thread's way to use it: it
 * remembers the pieces (words, mostly) that it met, since language repeats itself. With BPE any bytes have ids, and
 * these give the same bytes back; bytes that are not UTF-8 are characters of their own. WordPiece forgets: see
 * wordpiece.h.
 *
 * Files: tokenizer.json; vocab.json + merges.txt; encoder.json + vocab.bpe; vocab.txt. In a tokenizer.json the added
 * tokens
 * (<|endoftext|>, runs of spaces) are recognised in text as it says; with the others everything is ordinary text unless
 * lvn_tokenizer_allow() names a token. Left out: SentencePiece, byte fallback, templates that put tokens
 * around a text, and regular expressions that split.c does not know; each is refused by name. */
#ifndef LVN_TOKENIZER_H
#define LVN_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "tokenizers/bpe.h"
#include "tokenizers/split.h"

struct lvn_added_token {
    const char *text;
    int64_t bytes;
    int32_t id;
    bool special, single_word, lstrip, rstrip;
    bool normalized; /* looked for in the text after normalization, not before */
};

/* Added tokens of one kind, ready to be looked for. */
struct lvn_added_set {
    const struct lvn_added_token **list; /* by first byte, longest first */
    int n, first[257];                   /* list[first[c] .. first[c + 1]) begin with byte c */
    uint64_t pair[1024];                 /* bits: two bytes with which one begins */
};

struct lvn_tokenizer_file {
    const char *name; /* as Hugging Face calls it */
    const char *text;
    int64_t bytes;
};

struct lvn_tokenizer {
    struct lvn_arena arena;
    const char *path;
    struct lvn_bpe bpe;
    struct lvn_wordpiece *wordpiece; /* NULL: BPE */
    enum lvn_split_kind split;
    bool prefix_space, nfc;
    int32_t *whole; /* pieces that are tokens as they are, merges or not: ids by hash, -1 free; NULL: none */
    uint64_t whole_mask;
    int64_t n;           /* ids are 0..n-1 */
    unsigned char *byte; /* of all tokens, and some more behind */
    uint32_t *start;     /* [n + 1] token id is byte[start[id] .. start[id + 1]); empty: no such token */
    int32_t end_id;      /* of the token that ends a document; -1: the files name none */
    struct lvn_added_token *added;
    int n_added;
    struct lvn_added_set before, after; /* not normalized, normalized */
    struct lvn_tokenizer_file file[2];  /* what a copy of this tokenizer is made of */
    int n_files;
    uint64_t sum; /* the same for tokenizers with the same tokens */
};

/* From a directory or one of the files (its partner beside it). LVN_FORMAT for files that are damaged, do not belong
 * together or are of another kind, LVN_UNSUPPORTED for those that are left out here, LVN_ARG when nothing is there. */
enum lvn_status lvn_tokenizer_open(struct lvn_tokenizer **out, const char *path) LVN_CHECKED;
void lvn_tokenizer_close(struct lvn_tokenizer *t); /* NULL: nothing */
/* True when the directory holds files of a tokenizer. */
bool lvn_tokenizer_there(const char *dir);
/* Recognise this token of the vocabulary (or added token) in text, too; before encoders are made. */
enum lvn_status lvn_tokenizer_allow(struct lvn_tokenizer *t, const char *name) LVN_CHECKED;
/* The id of a token by its text; -1: there is none. */
int32_t lvn_tokenizer_find(const struct lvn_tokenizer *t, const char *text, int64_t bytes);
/* Write the files into a directory (which is made). */
enum lvn_status lvn_tokenizer_save(const struct lvn_tokenizer *t, const char *dir) LVN_CHECKED;
/* Can a text be cut at lvn_split_safe() with the same ids? */
bool lvn_tokenizer_cuts(const struct lvn_tokenizer *t);

struct lvn_ids {
    int32_t *p;
    int64_t n, room;
};
void lvn_ids_release(struct lvn_ids *ids);
enum lvn_status lvn_ids_reserve(struct lvn_ids *ids, int64_t more) LVN_CHECKED;

/* Which added tokens are seen in text: ordinary leaves out those that are special, as data for training want it. */
enum lvn_encoding { LVN_ENCODE_ORDINARY, LVN_ENCODE_SPECIAL };

struct lvn_encoder;
struct lvn_encoder *lvn_encoder_new(const struct lvn_tokenizer *t); /* NULL when memory ran out */
void lvn_encoder_free(struct lvn_encoder *e);
/* Append the ids of a text. */
enum lvn_status lvn_encode(struct lvn_encoder *e, const void *text, int64_t bytes, enum lvn_encoding how,
                           struct lvn_ids *ids) LVN_CHECKED;

/* The bytes of one token; NULL when there is no such id. */
const void *lvn_token_bytes(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes);
/* Append the bytes of many. LVN_ARG for an id that is none. */
enum lvn_status lvn_decode(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n,
                           struct lvn_text *out) LVN_CHECKED;

#endif
