/* text_write.h - the writing end of text_prepare: which part a document belongs to, and the files and their state. */
#ifndef LVN_TEXT_WRITE_H
#define LVN_TEXT_WRITE_H

#include "base/hash_set.h"
#include "data/resumable_file.h"
#include "data/text_prepare.h"

enum lvn_document_open { LVN_DOCUMENT_NONE, LVN_DOCUMENT_TRAIN, LVN_DOCUMENT_VAL, LVN_DOCUMENT_DROPPED };

struct lvn_text_writer {
    const struct lvn_text_options *o;
    struct lvn_arena arena;
    uint64_t settings; /* a number that changes when anything that decides on the result does */
    struct lvn_resumable_file part[LVN_SPLITS_TRAINED], hashes;
    struct lvn_hash_set seen;
    struct lvn_text_counts counts;
    int64_t open;             /* enum lvn_document_open: of a document that goes on in the next batch */
    int64_t min, max;         /* numbers of the documents so far, which decide where they go */
    int64_t again;            /* 1: the second reading, in which the least one validates and the most one trains */
    int64_t cut;              /* token at which validation begins, where all documents are one and the same; 0: else */
    int64_t batches;          /* written */
    int64_t file, file_batch; /* a place to begin reading again: this file, whose first batch has this number */
    bool finished;            /* only the renaming is left */
    bool made;                /* OUT is new */
    double saved;             /* when */
    void *ids;                /* of one document, as they are stored */
    int64_t ids_capacity;
};

/* Goes on from the state in OUT when it is of the same settings, else begins. */
enum lvn_status lvn_text_writer_open(struct lvn_text_writer *w, const struct lvn_text_options *o,
                                     uint64_t settings) LVN_CHECKED;
/* The next batch, in order. */
enum lvn_status lvn_text_writer_batch(struct lvn_text_writer *w, const struct lvn_batch *b) LVN_CHECKED;
/* True when all was read, and one of the parts got nothing that should have got something: the writer is then at its
 * beginning again, and all is to be read once more, by numbers that are known now. */
enum lvn_status lvn_text_writer_again(struct lvn_text_writer *w, bool *again) LVN_CHECKED;
/* So that a later run can go on from here. */
enum lvn_status lvn_text_writer_save(struct lvn_text_writer *w) LVN_CHECKED;
/* Give the files their names. */
enum lvn_status lvn_text_writer_finish(struct lvn_text_writer *w) LVN_CHECKED;
/* Before closing, after a failure: what cannot be gone on from goes. */
void lvn_text_writer_abandon(struct lvn_text_writer *w);
void lvn_text_writer_close(struct lvn_text_writer *w);

#endif
