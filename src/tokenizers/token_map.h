/* token_map.h - the tokens of a file by their text, as {"token": id} has them, and the merges of these; for
 * src/tokenizers alone. */
#ifndef LVN_TOKEN_MAP_H
#define LVN_TOKEN_MAP_H

#include "formats/json_scan.h"
#include "tokenizers/tokenizer.h"

/* A token as a file has it. */
struct lvn_written {
    const char *text; /* NULL: there is none */
    int64_t bytes;
    int32_t id;   /* where it stands in a list that is not in the order of ids */
    bool literal; /* an added token: not written in the alphabet */
};

struct lvn_token_map {
    const char *name;          /* of the file, for messages */
    struct lvn_arena arena;    /* of texts with escapes; the others lie in the file's own text */
    struct lvn_written *token; /* [n] in the file's order */
    int64_t n;
    int64_t capacity; /* of `token` */
    int64_t max_id;   /* -1: there are no tokens */
    uint64_t *slot;   /* [mask + 1] open addressing: upper half of the hash, place in `token` + 1; 0: free */
    uint64_t mask;
};

/* Read {"token": id}, of which each token and each id may be there once. `name` and the scan's text must outlive the
 * map, which is released after a failure, too. */
enum { LVN_TOKENS_MAX = 1 << 24 };
enum lvn_status lvn_token_map_read(struct lvn_token_map *m, struct lvn_json_scan *scan) LVN_CHECKED;
/* The id of a token; -1: there is none. */
int32_t lvn_token_map_find(const struct lvn_token_map *m, const char *text);
void lvn_token_map_release(struct lvn_token_map *m);

/* Merges into t->bpe, in the order of their ranks: found in groups, since each lookup waits for memory. */
enum { LVN_MERGES_AT_ONCE = 64 };
struct lvn_merge_text {
    const char *left;
    const char *right;
    int64_t n_left;
    int64_t n_right;
    int64_t line;     /* for messages */
    uint64_t hash[3]; /* of the left, the right, and both together */
    int64_t made;     /* the place of both together in the map, where it is known already; -1: it is to be found */
};
struct lvn_merge_reader {
    struct lvn_bpe *bpe;
    const struct lvn_token_map *map;
    const char *name; /* of the file with the merges, for messages */
    struct lvn_merge_text merge[LVN_MERGES_AT_ONCE];
    int n;
    int64_t last; /* the place in the map of the token that a merge made last */
};
/* Add one; its texts must live until lvn_merges_end(). */
enum lvn_status lvn_merges_add(struct lvn_merge_reader *r, int64_t line, const char *left, int64_t n_left,
                               const char *right, int64_t n_right) LVN_CHECKED;
enum lvn_status lvn_merges_end(struct lvn_merge_reader *r) LVN_CHECKED;

#endif
