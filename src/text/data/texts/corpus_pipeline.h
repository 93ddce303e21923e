/* corpus_pipeline.h - encodes the documents of files with several threads and passes them on in the order of the files.
 *
 * The calling thread reads files and passes encoded batches on, the others encode. Batches are in a ring buffer: the
 * caller fills the next free slot, passes on the oldest batch as soon as it is encoded, and waits for that batch if the
 * ring is full. This bounds memory and preserves order. Called by text_prepare.c and data.kind=documents. */
#ifndef LVN_CORPUS_PIPELINE_H
#define LVN_CORPUS_PIPELINE_H

#include "data/texts/corpus.h"

struct lvn_corpus_pipeline {
    const struct lvn_corpus_options *corpus;
    const struct lvn_source_files *files;
    int threads; /* that encode */
    /* To continue: the first file that is read, the number of its first batch, and the number of the first batch that
     * is passed on. */
    int64_t first_file, first_number, written;
    enum lvn_status (*each)(void *context, const struct lvn_batch *b); /* b->status is LVN_OK */
    void *context;
};

/* The status of the first batch that could not be encoded, of reading, or of each(). The files that were skipped, and
 * the warnings about them, are those of a batch; the last one may have nothing else. */
enum lvn_status lvn_corpus_pipeline_run(const struct lvn_corpus_pipeline *o) LVN_CHECKED;

#endif
