/* continuation.h - decodes the tokens of a sample to text while they are generated: whole characters, up to a stop
 * text.
 *
 * generation and the command line call it. A character or a stop text may span several tokens. Bytes that could still
 * become part of a stop text are held back, so ready bytes never change. The first complete stop text ends the text; if
 * several end at the same byte, the longest one does. The result does not depend on the division into tokens. */
#ifndef LVN_CONTINUATION_H
#define LVN_CONTINUATION_H

#include "data/codec.h"

struct lvn_continuation {
    const struct lvn_codec *codec;
    const char *const *stops; /* [n_stops] texts of at least one byte, UTF-8 */
    int n_stops;
    /* Private; all zero at first. */
    struct lvn_text text; /* prompt and continuation */
    int64_t prompt_bytes;
    int64_t ready; /* bytes of the text that will not change */
    bool stopped;
    struct lvn_codec_stream decoding;
};

/* Call this first, with the tokens of the prompt. */
void lvn_continuation_prompt(struct lvn_continuation *c, const int32_t *ids, int64_t n);
/* Add one token. False: a stop text is complete; the text ends before it. */
bool lvn_continuation_add(struct lvn_continuation *c, int32_t id);
/* No more tokens: all of the text is ready. */
void lvn_continuation_end(struct lvn_continuation *c);
void lvn_continuation_release(struct lvn_continuation *c);

#endif
