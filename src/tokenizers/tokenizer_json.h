/* tokenizer_json.h - splits a tokenizer.json in two: vocabulary and merges, with hundreds of thousands of entries,
 * which load_json.c scans without building a tree, and the rest, which is parsed; for src/tokenizers alone. */
#ifndef LVN_TOKENIZER_JSON_H
#define LVN_TOKENIZER_JSON_H

#include "formats/json.h"
#include "formats/json_scan.h"

struct lvn_tokenizer_json {
    json_t *root;                /* with model.vocab and model.merges empty */
    struct lvn_json_scan vocab;  /* at the value of model.vocab; at NULL: it is no list or object */
    struct lvn_json_scan merges; /* the same for model.merges, a list */
    int64_t n_vocab;             /* entries */
    int64_t n_merges;
};
/* `name` and `text` must outlive it. lvn_tokenizer_json_release() must follow, after a failure too. */
enum lvn_status lvn_tokenizer_json_read(struct lvn_tokenizer_json *j, const char *name, const char *text,
                                        int64_t bytes) LVN_CHECKED;
void lvn_tokenizer_json_release(struct lvn_tokenizer_json *j);

#endif
