/* tokenizer.h - a tokenizer and its files: byte-level and character-level BPE, WordPiece, Unigram. Called by data sets,
 * inference and the commands.
 *
 * A tokenizer holds the contents of its files; it is read-only and shared by all threads. An encoder is the state of
 * one thread; it caches the ids of pieces (mostly words). The stages are those of Hugging Face's tokenizers:
 * normalizer, pre-tokenizer, model, post-processor, decoder. Byte-level BPE encodes any bytes, and decoding gives the
 * same bytes back, except for bytes without a token in the vocabulary: these become the unknown token, or are dropped.
 * A byte that is not UTF-8 counts as one character.
 *
 * Files: NAME.gguf (gguf_tokenizer.h); tokenizer.json; vocab.json + merges.txt; encoder.json + vocab.bpe; vocab.txt;
 * and beside these tokenizer_config.json, special_tokens_map.json and added_tokens.json (tokenizer_config.h). Added
 * tokens (<|endoftext|>, runs of spaces) are recognized in text; lvn_tokenizer_allow() adds further ones. Supported
 * members of tokenizer.json: see normalizer.h, pre_tokenizer.h, decoder.c and post_processor.c. All other members
 * are refused with an error that names them. Text is encoded by encoder.h, with added tokens by post_processor.h, and
 * decoded by decoder.h. */
#ifndef LVN_TOKENIZER_H
#define LVN_TOKENIZER_H

#include "base/arena.h"
#include "base/text.h"
#include "tokenizers/bpe.h"
#include "tokenizers/normalizer.h"
#include "tokenizers/pre_tokenizer.h"

struct lvn_added_token {
    const char *text;
    int64_t bytes;
    int32_t id;
    bool special;        /* ignored by LVN_ENCODE_ORDINARY */
    bool single_word;    /* recognized only if no word character precedes or follows */
    bool lstrip;         /* also matches white space before it */
    bool rstrip;         /* also matches white space after it */
    bool normalized;     /* searched in the text after normalization, not before */
    const char *pattern; /* the text to search; empty: none */
    int64_t n_pattern;
};

/* Added tokens indexed for search. */
struct lvn_added_set {
    const struct lvn_added_token **list; /* by first byte, longest first */
    int n;
    int first[257];      /* list[first[c], first[c + 1]) begin with byte c */
    uint64_t pair[1024]; /* bit set: a token begins with these two bytes */
    int only;            /* first byte of all tokens, if they share one that is not white space; else -1 */
};

enum { LVN_TOKENIZER_FILES = 24 }; /* all that stores/store.h names */
struct lvn_tokenizer_file {
    const char *name; /* Hugging Face's name of the file */
    const char *text;
    int64_t bytes;
};

/* Tokens by their text: open addressing. */
struct lvn_token_index {
    int32_t *slot; /* ids, -1 free */
    uint64_t mask;
};

enum lvn_tokenizer_model {
    LVN_TOKENIZER_BYTES,      /* BPE of bytes */
    LVN_TOKENIZER_CHARACTERS, /* BPE of characters */
    LVN_TOKENIZER_WORDPIECE,
    LVN_TOKENIZER_UNIGRAM,
};

/* A piece of a post-processor's template: the first text, the second text, or a token. */
enum lvn_template_piece_kind { LVN_TEMPLATE_A, LVN_TEMPLATE_B, LVN_TEMPLATE_TOKEN };
struct lvn_template_piece {
    enum lvn_template_piece_kind kind;
    int32_t id;   /* of a token */
    int32_t type; /* BERT's token type: 0 or 1 */
};
enum { LVN_TEMPLATE_MAX = 16 };
struct lvn_template {
    struct lvn_template_piece piece[LVN_TEMPLATE_MAX];
    int n;
};

struct lvn_tokenizer {
    struct lvn_arena arena;
    const char *path;
    struct lvn_normalizer normalizer;
    struct lvn_pre_tokenizer pre_tokenizer;
    enum lvn_tokenizer_model model;
    struct lvn_bpe bpe;
    struct lvn_wordpiece *wordpiece;
    struct lvn_unigram *unigram;
    struct lvn_token_index index; /* of the model's tokens; empty for models that do not need it */
    bool missing_bytes;           /* byte-level BPE: some byte has no token, see bpe.byte_id */
    bool ignore_merges;           /* a piece that is a token becomes this token without merging */
    int32_t unknown;              /* token for unknown characters; -1: these are dropped */
    bool fuse_unknown;            /* one token for a run of unknown characters */
    bool byte_fallback;           /* unknown characters become byte tokens, if all of their bytes have one */
    int32_t fallback[256];        /* byte tokens <0x00>, ...; -1: none */
    int64_t n;                    /* ids are 0..n-1 */
    int64_t n_vocabulary;         /* lower ids are from the vocabulary files; tokenizer_config.h may add higher ones */
    unsigned char *byte;          /* of all tokens, with some bytes of slack at the end */
    uint32_t *start;              /* [n + 1] token id is byte[start[id], start[id + 1]); empty: no such token */
    bool *in_model;               /* [n] false: only an added token */
    struct lvn_decoders *decoder; /* NULL: the tokens of byte-level BPE are their bytes */
    unsigned char *decoded;       /* the decoder's output for each token; may be the same memory as `byte` */
    uint32_t *decoded_start;      /* [n + 1] offsets in `decoded` */
    int64_t strip_first;          /* spaces that are removed from the beginning of a text's first token */
    const char *metaspace;        /* not NULL: remove one space for each leading occurrence of this text instead */
    bool keep_first;              /* a text's first token is written as in the vocabulary, without the decoder */
    struct lvn_template single;   /* the post-processor's template for one text */
    struct lvn_template pair;     /* the post-processor's template for two texts */
    int32_t end_id;               /* of the token that ends a document; -1: the files name none */
    int32_t mask_id;              /* of the token that replaces a masked one; -1: the files name none */
    struct lvn_added_token *added;
    int n_added;
    struct lvn_added_set added_raw;                      /* searched before normalization */
    struct lvn_added_set added_normalized;               /* searched after normalization */
    struct lvn_tokenizer_file file[LVN_TOKENIZER_FILES]; /* for copies of this tokenizer */
    int n_files;
    char *text[LVN_TOKENIZER_FILES]; /* contents of files that the tokenizer owns */
    int n_texts;
    uint64_t sum; /* checksum of the tokens of the vocabulary files */
};

/* Open a directory or one of the files (the other one of a pair must be in the same directory), local or in a store.
 * LVN_FORMAT for files that are damaged, do not belong together or are of another kind, LVN_UNSUPPORTED for members
 * that levin does not support, LVN_ARG if there is no tokenizer. */
enum lvn_status lvn_tokenizer_open(struct lvn_tokenizer **out, const char *path) LVN_CHECKED;
void lvn_tokenizer_close(struct lvn_tokenizer *t); /* NULL: nothing */
/* Does the directory, or the GGUF file, contain tokenizer files, even if they cannot be opened? */
bool lvn_tokenizer_exists(const char *dir);
/* Make encoders recognize this token of the vocabulary in text, as a special one. Call it before encoders are made.
 * LVN_ARG if there is no such token. */
enum lvn_status lvn_tokenizer_allow(struct lvn_tokenizer *t, const char *name) LVN_CHECKED;
/* The id of a token by its text; -1: none. */
int32_t lvn_tokenizer_find(const struct lvn_tokenizer *t, const char *text, int64_t bytes);
/* Add a file, or replace its contents, for copies of the tokenizer. `text` is copied; the tokens stay the same. */
enum lvn_status lvn_tokenizer_put_file(struct lvn_tokenizer *t, const char *name, const char *text) LVN_CHECKED;
/* Replace the chat template, and the template for conversations with tools if the tokenizer has one. */
enum lvn_status lvn_tokenizer_put_template(struct lvn_tokenizer *t, const char *text) LVN_CHECKED;
/* Write the files into a directory, which is created. */
enum lvn_status lvn_tokenizer_save(const struct lvn_tokenizer *t, const char *dir) LVN_CHECKED;

#endif
