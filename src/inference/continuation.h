/* continuation.h - the text of a sample while its tokens come: whole characters, up to a stop text.
 *
 * A character, and a stop text, may be spread over tokens. What could still become a stop text is held back until it is
 * decided, so what was ready once stays. The first stop text that is complete ends the text; of several that end at the
 * same byte the longest one does. So how a text is cut into tokens plays no part. */
#ifndef LVN_CONTINUATION_H
#define LVN_CONTINUATION_H

#include "data/codec.h"

struct lvn_continuation {
    const struct lvn_codec *codec;
    const char *const *stops; /* (n_stops) texts of at least one byte, UTF-8 */
    int n_stops;
    /* What follows is this file's; all zero at first. */
    struct lvn_text text; /* the prompt and what comes behind it */
    int64_t begin;        /* where the prompt ends */
    int64_t ready;        /* so many bytes of the text are there to stay */
    bool stopped;
    struct lvn_codec_stream decoding;
};

/* First of all, the tokens that are continued. */
void lvn_continuation_prompt(struct lvn_continuation *c, const int32_t *ids, int64_t n);
/* One more token. False: a stop text has come; the text ends before it. */
bool lvn_continuation_add(struct lvn_continuation *c, int32_t id);
/* Nothing follows: all of the text is ready. */
void lvn_continuation_end(struct lvn_continuation *c);
void lvn_continuation_release(struct lvn_continuation *c);

#endif
