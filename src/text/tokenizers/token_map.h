/* token_map.h - reads {"token": id} into a hash table of tokens by their text, and merges of these tokens; for
 * src/text/tokenizers alone. */
#ifndef LVN_TOKEN_MAP_H
#define LVN_TOKEN_MAP_H

#include "formats/json_scan.h"
#include "tokenizers/tokenizer.h"

/* A token as it is in a file. */
struct lvn_raw_token {
    const char *text; /* NULL: none */
    int64_t bytes;
    int32_t id;   /* set in lists that are not ordered by id */
    bool literal; /* an added token: not in the alphabet of byte-level BPE */
};

struct lvn_token_map {
    const char *name;            /* of the file, for messages */
    struct lvn_arena arena;      /* texts of tokens with escapes; other tokens point into the file's text */
    struct lvn_raw_token *token; /* [n] in the file's order */
    int64_t n;
    int64_t capacity; /* of `token` */
    int64_t max_id;   /* -1: no tokens */
    uint64_t *slot;   /* [mask + 1] open addressing: upper half of the hash, index in `token` + 1; 0: free */
    uint64_t mask;
};

enum { LVN_TOKENS_MAX = 1 << 24 };
/* Read {"token": id}; FORMAT if a token or an id is not unique. `name` and the scan's text must outlive the map.
 * Always call lvn_token_map_release() afterwards, even after a failure. */
enum lvn_status lvn_token_map_read(struct lvn_token_map *m, struct lvn_json_scan *scan) LVN_CHECKED;
/* The id of a token; -1: none. */
int32_t lvn_token_map_find(const struct lvn_token_map *m, const char *text);
int32_t lvn_token_map_find_bytes(const struct lvn_token_map *m, const char *text, int64_t bytes);
void lvn_token_map_release(struct lvn_token_map *m);

/* Add merges to t->bpe in the order of their ranks. Tokens are looked up in groups with prefetching, since each lookup
 * is a cache miss. */
enum { LVN_MERGES_AT_ONCE = 64 };
struct lvn_merge_text {
    const char *left;
    const char *right;
    int64_t n_left;
    int64_t n_right;
    int64_t line;     /* for messages */
    uint64_t hash[3]; /* of the left, the right, and the merged text */
    int64_t merged;   /* index in the map of the merged token; -1: not known yet */
};
struct lvn_merge_reader {
    struct lvn_bpe *bpe;
    const struct lvn_token_map *map;
    const char *name; /* of the file with the merges, for messages */
    struct lvn_merge_text merge[LVN_MERGES_AT_ONCE];
    int n;
    int64_t last; /* index in the map of the token of the last merge */
};
/* Add one merge; its texts must be valid until lvn_merges_end(). FORMAT if a token is missing in the vocabulary. */
enum lvn_status lvn_merges_add(struct lvn_merge_reader *r, int64_t line, const char *left, int64_t n_left,
                               const char *right, int64_t n_right) LVN_CHECKED;
enum lvn_status lvn_merges_end(struct lvn_merge_reader *r) LVN_CHECKED;

#endif
