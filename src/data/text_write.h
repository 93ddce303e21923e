/* text_write.h - the writing end of text_prepare: which part a document belongs to, and the files and their state. */
#ifndef LVN_TEXT_WRITE_H
#define LVN_TEXT_WRITE_H

#include "data/part_file.h"
#include "data/text_prepare.h"

/* Hashes of the documents seen: open addressing, two words each, no zero word pair. */
struct lvn_hash_set {
    uint64_t *slot;
    int64_t n, room;
};

enum lvn_document_open { LVN_DOCUMENT_NONE, LVN_DOCUMENT_TRAIN, LVN_DOCUMENT_VAL, LVN_DOCUMENT_DROPPED };

struct lvn_text_writer {
    const struct lvn_text_options *o;
    struct lvn_arena arena;
    uint64_t settings; /* a number that changes when anything that decides on the result does */
    struct lvn_part_file part[LVN_SPLIT_COUNT], hashes;
    struct lvn_hash_set seen;
    struct lvn_text_counts counts;
    int64_t open;             /* enum lvn_document_open: of a document that goes on in the next batch */
    int64_t batches;          /* written */
    int64_t file, file_batch; /* a place to begin reading again: this file, whose first batch has this number */
    bool finished;            /* only the renaming is left */
    double saved;             /* when */
    void *ids;                /* of one document, as they are stored */
    int64_t ids_room;
};

/* Goes on from the state in OUT when it is of the same settings, else begins. */
enum lvn_status lvn_text_writer_open(struct lvn_text_writer *w, const struct lvn_text_options *o,
                                     uint64_t settings) LVN_CHECKED;
/* The next batch, in order. */
enum lvn_status lvn_text_writer_batch(struct lvn_text_writer *w, const struct lvn_batch *b) LVN_CHECKED;
/* So that a later run can go on from here. */
enum lvn_status lvn_text_writer_save(struct lvn_text_writer *w) LVN_CHECKED;
/* Give the files their names. */
enum lvn_status lvn_text_writer_finish(struct lvn_text_writer *w) LVN_CHECKED;
void lvn_text_writer_close(struct lvn_text_writer *w);

#endif
