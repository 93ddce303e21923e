/* tokenizer_json.h - a tokenizer.json in two: the vocabulary and the merges, hundreds of thousands of entries that are
 * scanned, and the rest, which is parsed; for src/tokenizers alone. */
#ifndef LVN_TOKENIZER_JSON_H
#define LVN_TOKENIZER_JSON_H

#include "formats/json.h"
#include "formats/json_scan.h"

struct lvn_tokenizer_json {
    json_t *root;                /* in it model.vocab and model.merges are empty */
    struct lvn_json_scan vocab;  /* at the value of model.vocab; at NULL: there is none, or no list or object */
    struct lvn_json_scan merges; /* the same of model.merges, a list */
    int64_t n_vocab;             /* entries */
    int64_t n_merges;
};
/* `name` and `text` must outlive it. It is released after a failure, too. */
enum lvn_status lvn_tokenizer_json_read(struct lvn_tokenizer_json *j, const char *name, const char *text,
                                        int64_t bytes) LVN_CHECKED;
void lvn_tokenizer_json_release(struct lvn_tokenizer_json *j);

#endif
