/* tokenizer.h - text to token ids and back: BPE of bytes and of characters, WordPiece, Unigram.
 *
 * A tokenizer is what its files say, read only, and shared by all threads. An encoder is one thread's way to use it: it
 * remembers the pieces (words, mostly) that it met, since language repeats itself. With byte-level BPE any bytes have
 * ids, and these give the same bytes back (but for bytes that the vocabulary has no token for: these become the unknown
 * token, or are dropped); bytes that are not UTF-8 are characters of their own.
 *
 * Files: tokenizer.json; vocab.json + merges.txt; encoder.json + vocab.bpe; vocab.txt. In a tokenizer.json the added
 * tokens (<|endoftext|>, runs of spaces) are recognised in text as it says; with the others everything is ordinary text
 * unless lvn_tokenizer_allow() names a token. What a tokenizer.json may hold: normalizer.h, pre_tokenizer.h, decoder.c
 * and post_processor.c; other parts are refused by name. */
#ifndef LVN_TOKENIZER_H
#define LVN_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "tokenizers/bpe.h"
#include "tokenizers/normalizer.h"
#include "tokenizers/pre_tokenizer.h"

struct lvn_added_token {
    const char *text;
    int64_t bytes;
    int32_t id;
    bool special, single_word, lstrip, rstrip;
    bool normalized;    /* looked for in the text after normalization, not before */
    const char *sought; /* what is looked for; empty: nothing */
    int64_t n_sought;
};

/* Added tokens of one kind, ready to be looked for. */
struct lvn_added_set {
    const struct lvn_added_token **list; /* by first byte, longest first */
    int n, first[257];                   /* list[first[c] .. first[c + 1]) begin with byte c */
    uint64_t pair[1024];                 /* bits: two bytes with which one begins */
};

enum { LVN_TOKENIZER_FILES = 8 };
struct lvn_tokenizer_file {
    const char *name; /* as Hugging Face calls it */
    const char *text;
    int64_t bytes;
};

/* Tokens by their text: open addressing. */
struct lvn_token_index {
    int32_t *slot; /* ids, -1 free */
    uint64_t mask;
};

enum lvn_model_kind {
    LVN_MODEL_BYTES,      /* BPE of bytes */
    LVN_MODEL_CHARACTERS, /* BPE of characters */
    LVN_MODEL_WORDPIECE,
    LVN_MODEL_UNIGRAM,
};

/* What stands in a frame: one of the texts, or a token. */
enum lvn_post_part_kind { LVN_POST_FIRST, LVN_POST_SECOND, LVN_POST_TOKEN };
struct lvn_post_part {
    enum lvn_post_part_kind kind;
    int32_t id, type; /* type: 0 or 1, as BERT's token types */
};
enum { LVN_POST_PARTS_MAX = 16 };
struct lvn_post_processor {
    struct lvn_post_part part[LVN_POST_PARTS_MAX];
    int n;
};

struct lvn_tokenizer {
    struct lvn_arena arena;
    const char *path;
    struct lvn_normal_steps normal;
    struct lvn_pre_steps pre;
    enum lvn_model_kind model;
    struct lvn_bpe bpe;
    struct lvn_wordpiece *wordpiece;
    struct lvn_unigram *unigram;
    struct lvn_token_index index; /* of the model's tokens; empty where it needs none */
    bool holes;                   /* BPE of bytes: some byte has no token, see bpe.byte_id */
    bool whole_first;             /* pieces that are tokens as they are, merges or not */
    int32_t unknown;              /* -1: what is unknown is left out */
    bool fuse_unknown;            /* one token for a run of it */
    bool byte_fallback;           /* what is unknown is written in bytes, where all of these have tokens */
    int32_t fallback[256];        /* <0x00> and so on; -1: there is none */
    int64_t n;                    /* ids are 0..n-1 */
    unsigned char *byte;          /* of all tokens, and some more behind */
    uint32_t *start;              /* [n + 1] token id is byte[start[id] .. start[id + 1]); empty: no such token */
    bool *own;                    /* [n] of the model, not only added */
    unsigned char *shown;         /* what tokens become in text: the same memory, or other */
    uint32_t *shown_start;        /* [n + 1] */
    int64_t first_stripped;       /* of the first token of a text: so many spaces of its beginning are not written */
    const char *mark;             /* not NULL: of these, as many as that token begins with; they are spaces in text */
    bool first_as_written;        /* it is written as the vocabulary has it */
    struct lvn_post_processor single, pair; /* what the post-processor makes of one text and of two */
    int32_t end_id;                         /* of the token that ends a document; -1: the files name none */
    struct lvn_added_token *added;
    int n_added;
    struct lvn_added_set before, after;                  /* not normalized, normalized */
    struct lvn_tokenizer_file file[LVN_TOKENIZER_FILES]; /* what a copy of this tokenizer is made of */
    int n_files;
    char *text[LVN_TOKENIZER_FILES]; /* of these files, where the tokenizer has read them itself */
    int n_texts;
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
    int64_t n, capacity;
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

/* --- what the post-processor adds --- */

/* BOS, [CLS], [SEP] and the like stand around a text where a model reads it: `generate`, `predict` and `prepare` add
 * them, `tokenize` does not. How many tokens that are for one text, or for a pair; so many fewer of the text fit. */
int64_t lvn_post_processor_extra(const struct lvn_tokenizer *t, bool pair);
/* Append the ids of one text (b NULL) or of a pair, already cut to length, with the tokens around them; `types` (or
 * NULL) becomes as long: 0 or 1, the token types. */
enum lvn_status lvn_post_processor_put(const struct lvn_tokenizer *t, const struct lvn_ids *a, const struct lvn_ids *b,
                                       struct lvn_ids *ids, struct lvn_ids *types) LVN_CHECKED;
/* For a text that comes in parts: append the tokens before it, and those behind it. */
enum lvn_status lvn_post_processor_begin(const struct lvn_tokenizer *t, struct lvn_ids *ids) LVN_CHECKED;
enum lvn_status lvn_post_processor_end(const struct lvn_tokenizer *t, struct lvn_ids *ids) LVN_CHECKED;
/* Does the token stand before a single text? */
bool lvn_post_processor_begins(const struct lvn_tokenizer *t, int32_t id);

/* --- back to text --- */

/* The bytes of one token within a text; NULL when there is no such id. */
const void *lvn_token_bytes(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes);
/* The same of a token that a text begins with (of what was written before it, nothing was left): files say that its
 * space is not written. */
const void *lvn_token_bytes_first(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes);
/* Append the bytes of many. LVN_ARG for an id that is none. */
enum lvn_status lvn_decode(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n,
                           struct lvn_text *out) LVN_CHECKED;

#endif
