/* gguf_tokenizer.h - the tokenizers in the metadata of llama.cpp's GGUF files. Called by tokenizer.c and by `levin
 * export`.
 *
 * Such a file has tokens with types, and merges (byte-level BPE, "gpt2") or scores (SentencePiece's BPE, "llama"); the
 * splitting of text has only a name ("tokenizer.ggml.pre"), which gguf_tokenizer_pre.c translates. Reading makes the
 * texts of a tokenizer.json and a tokenizer_config.json, which are then read as those of a model's folder, and copied
 * into checkpoints. Left out, and refused by name: other kinds (Unigram, WordPiece), other names of splitting. */
#ifndef LVN_GGUF_TOKENIZER_H
#define LVN_GGUF_TOKENIZER_H

#include "formats/gguf.h"
#include "formats/json.h"
#include "tokenizers/tokenizer.h"

/* The kinds of tokens, tokenizer.ggml.token_type. */
enum lvn_gguf_token {
    LVN_GGUF_TOKEN_NORMAL = 1,
    LVN_GGUF_TOKEN_UNKNOWN = 2,
    LVN_GGUF_TOKEN_CONTROL = 3, /* special */
    LVN_GGUF_TOKEN_USER = 4,    /* added, but text */
    LVN_GGUF_TOKEN_UNUSED = 5,
    LVN_GGUF_TOKEN_BYTE = 6,
};

/* How a name of llama.cpp's splits text. */
struct lvn_gguf_pre {
    const char *names;   /* separated by spaces; files that levin writes have the first */
    const char *steps;   /* pre_tokenizer of a tokenizer.json */
    const char *nfc;     /* its normalizer */
    bool ignores_merges; /* ignore_merges of the model */
    bool adds_bos;       /* if the file does not say it */
};
extern const struct lvn_gguf_pre lvn_gguf_pre_tokenizers[]; /* ends with NULL names */
/* By name; NULL: not known. */
const struct lvn_gguf_pre *lvn_gguf_pre_find(const char *name);
/* The row that splits text as the object of a tokenizer.json does; NULL: there is none. nfc, ignores_merges: of that
 * tokenizer. */
const struct lvn_gguf_pre *lvn_gguf_pre_of(const json_t *pre_tokenizer, bool nfc, bool ignores_merges);

/* Does the file have a tokenizer, be it of a kind that is not supported? */
bool lvn_gguf_tokenizer_exists(const char *path);
/* Read the tokenizer of the file as lvn_load_json() does. */
enum lvn_status lvn_gguf_tokenizer_read(struct lvn_tokenizer *t, const char *path) LVN_CHECKED;
/* The same for a file that is open. */
enum lvn_status lvn_gguf_tokenizer_parse(struct lvn_tokenizer *t, struct lvn_gguf *file) LVN_CHECKED;

/* Tokens that a model's config.json names. */
struct lvn_gguf_named_tokens {
    int64_t bos;   /* -1: none */
    int64_t *ends; /* [n_ends] */
    int n_ends;
};
/* Add the tokenizer to the metadata, with `rows` tokens, the rows of the model's embedding. UNSUPPORTED, with the
 * reason, for a tokenizer that llama.cpp cannot represent. NULL: no tokenizer. */
enum lvn_status lvn_gguf_tokenizer_write(const struct lvn_tokenizer *t, int64_t rows,
                                         const struct lvn_gguf_named_tokens *named,
                                         struct lvn_gguf_writer *w) LVN_CHECKED;

#endif
