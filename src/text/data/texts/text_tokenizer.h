/* text_tokenizer.h - the tokenizer of a data set of texts, and the texts on which a vocabulary is trained. Called by
 * the kinds of data that hold texts, and by `levin tokenizer train`. */
#ifndef LVN_TEXT_TOKENIZER_H
#define LVN_TEXT_TOKENIZER_H

#include "data/dataset.h"
#include "data/table.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/training/bpe_trainer.h"

struct lvn_vocabulary_text {
    struct lvn_vocabulary *v;  /* counts the words */
    const char *field;         /* columns of tables, "text|document": the first that exists holds the text */
    const char *column_option; /* names another column: "--field" or "data.text_column" */
    const char *name;          /* of the file that is read */
    bool is_table;             /* of rows with columns */
    bool begun;                /* `table` is open */
    struct lvn_table table;
    struct lvn_text raw;       /* bytes of the file that are not processed yet */
    struct lvn_text text;      /* not counted yet */
    int64_t offset;            /* of `raw` in the file */
    int64_t bytes;             /* of text */
    int64_t bad;               /* rows that cannot be used */
    int64_t passed_over;       /* files of other types */
    struct lvn_text first_bad; /* why, of the first bad row */
};
/* Count the words of all texts of a file, a folder or an archive, local or in a store. Set v, field and column_option
 * before. */
enum lvn_status lvn_vocabulary_text_read(struct lvn_vocabulary_text *r, struct lvn_arena *a,
                                         const char *input) LVN_CHECKED;
void lvn_vocabulary_text_release(struct lvn_vocabulary_text *r);

/* The tokenizer of data.tokenizer, else of the model; else, if o->trains_tokenizer, one that is trained on data.path:
 * WordPiece, as BERT's, or byte-level BPE, as GPT-2's. The same texts give the same tokenizer. Sets d->vocab_size, and
 * d->tokenizer if it is not the model's. */
enum lvn_status lvn_text_tokenizer(struct lvn_dataset *d, const struct lvn_data_options *o, bool wordpiece,
                                   const struct lvn_tokenizer **out) LVN_CHECKED;

#endif
