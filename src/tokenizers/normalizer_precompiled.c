/* normalizer_precompiled.c - the map of characters of a SentencePiece model, as the normalizer Precompiled: base64 of
 * the bytes of a trie (Darts' double array: its size, its units) and of the texts, each ended by a NUL, that take the
 * place of what the trie finds. What is short is looked up as a whole grapheme cluster, else each character; of a
 * cluster the shortest beginning that is in the trie decides, and what lies behind it is lost. That is the reference's
 * way. */
#include <string.h>

#include "tokenizers/normalizer.h"

/* The bytes that base64 stands for; -1 when it is none. */
static int64_t from_base64(const char *text, unsigned char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int64_t n = 0;
    uint32_t bits = 0;
    int held = 0;
    for (; *text && *text != '='; text++) {
        const char *at = strchr(digits, *text);
        if (!at) return -1;
        bits = bits << 6 | (uint32_t)(at - digits);
        held += 6;
        if (held < 8) continue;
        held -= 8;
        out[n++] = (unsigned char)(bits >> held);
    }
    return n;
}

enum lvn_status lvn_precompiled_read(struct lvn_normal_step *s, struct lvn_arena *a, const char *name,
                                     const json_t *object)
{
    const char *text = NULL;
    uint32_t bytes;
    LVN_TRY(lvn_json_string(name, object, "precompiled_charsmap", false, &text));
    if (!text || !*text) return LVN_OK;
    unsigned char *map = lvn_arena_alloc(a, strlen(text) + 1);
    if (!map) return LVN_MEMORY;
    int64_t n = from_base64(text, map);
    bool good = n >= 8;
    if (good) memcpy(&bytes, map, 4);
    good = good && bytes >= 4 && bytes % 4 == 0 && bytes <= n - 4;
    LVN_CHECK(good, FORMAT, "'%s': precompiled_charsmap is no map of characters of SentencePiece: it is damaged", name);
    s->trie = (const uint32_t *)(map + 4); /* the arena's memory is aligned for any type */
    s->n_trie = bytes / 4;
    s->texts = (const char *)map + 4 + bytes;
    s->n_texts = n - 4 - bytes;
    return LVN_OK;
}

/* The text that takes the place of what stands at p[0..n); -1: nothing does. */
static int64_t find(const struct lvn_normal_step *s, const uint8_t *p, int64_t n)
{
    uint32_t unit = s->trie[0];
    uint64_t at = (uint64_t)(unit >> 10) << ((unit & 0x200) >> 6);
    for (int64_t i = 0; i < n && p[i]; i++) {
        at ^= p[i];
        if (at >= (uint64_t)s->n_trie) return -1;
        unit = s->trie[at];
        if ((unit & 0x800000ff) != p[i]) return -1;
        at ^= (uint64_t)(unit >> 10) << ((unit & 0x200) >> 6);
        if (!(unit >> 8 & 1)) continue;
        int64_t text = at < (uint64_t)s->n_trie ? (int64_t)(s->trie[at] & 0x7fffffff) : -1;
        return text < s->n_texts ? text : -1;
    }
    return -1;
}

static bool put(const struct lvn_normal_step *s, const uint8_t *p, int64_t n, struct lvn_text *out)
{
    int64_t text = find(s, p, n);
    if (text >= 0)
        lvn_text_add_bytes(out, s->texts + text, (int64_t)strnlen(s->texts + text, (size_t)(s->n_texts - text)));
    return text >= 0;
}

void lvn_precompiled_run(const struct lvn_normal_step *s, const uint8_t *p, int64_t n, struct lvn_text *out)
{
    enum { SHORT = 6 };
    for (const uint8_t *end = p + n; p < end;) {
        bool plain = *p < 0x80 && (end - p == 1 || p[1] < 0x80) && *p != '\r';
        int64_t cluster = plain ? 1 : lvn_grapheme(p, end - p);
        const uint8_t *stop = p + cluster;
        if (cluster < SHORT && put(s, p, cluster, out)) p = stop;
        for (int bytes; p < stop; p += bytes) {
            (void)lvn_utf8_decode(p, end - p, &bytes);
            if (!put(s, p, bytes, out)) lvn_text_add_bytes(out, p, bytes);
        }
    }
}
