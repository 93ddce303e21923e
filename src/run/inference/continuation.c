/* continuation.c - see continuation.h. */
#include "inference/continuation.h"

/* Does the text after the prompt, up to `end`, end with these bytes? */
static bool ends_with(const struct lvn_continuation *c, int64_t end, const char *bytes, int64_t n)
{
    return end - c->prompt_bytes >= n && memcmp(c->text.p + end - n, bytes, (size_t)n) == 0;
}

/* Bytes of the longest stop text that ends at `end`; 0: none. */
static int64_t stop_at(const struct lvn_continuation *c, int64_t end)
{
    int64_t longest = 0;
    for (int i = 0; i < c->n_stops; i++) {
        int64_t n = (int64_t)strlen(c->stops[i]);
        if (n > longest && ends_with(c, end, c->stops[i], n)) longest = n;
    }
    return longest;
}

/* Bytes at the end of the text that may be the beginning of a stop text. */
static int64_t undecided(const struct lvn_continuation *c)
{
    int64_t longest = 0;
    for (int i = 0; i < c->n_stops; i++)
        for (int64_t n = (int64_t)strlen(c->stops[i]) - 1; n > longest; n--)
            if (ends_with(c, c->text.n, c->stops[i], n)) longest = n;
    return longest;
}

/* Find a stop text that ends after byte `at`. */
static void find_stop(struct lvn_continuation *c, int64_t at)
{
    if (c->text.failed) return;
    while (!c->stopped && at < c->text.n) {
        int64_t n = stop_at(c, ++at);
        c->stopped = n > 0;
        if (c->stopped) c->text.n = at - n;
    }
    if (c->stopped) c->text.p[c->text.n] = '\0';
    c->ready = c->text.n - (c->stopped ? 0 : undecided(c));
}

void lvn_continuation_prompt(struct lvn_continuation *c, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) lvn_codec_decode(c->codec, &c->decoding, ids[i], &c->text);
    c->prompt_bytes = c->ready = c->text.n;
}

bool lvn_continuation_add(struct lvn_continuation *c, int32_t id)
{
    int64_t before = c->text.n;
    if (c->stopped) return false;
    lvn_codec_decode(c->codec, &c->decoding, id, &c->text);
    find_stop(c, before);
    return !c->stopped;
}

void lvn_continuation_end(struct lvn_continuation *c)
{
    int64_t before = c->text.n;
    if (c->stopped) return;
    lvn_codec_decode_end(&c->decoding, &c->text);
    find_stop(c, before);
    c->ready = c->text.n;
}

void lvn_continuation_release(struct lvn_continuation *c)
{
    lvn_text_release(&c->text);
    *c = (struct lvn_continuation){0};
}
