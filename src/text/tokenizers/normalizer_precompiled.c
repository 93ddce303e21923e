/* normalizer_precompiled.c - see normalizer.h: the normalizer Precompiled, the character map of a SentencePiece model.
 *
 * It is base64 of a trie (Darts' double array: its size, its units) and of the replacements, each ended by a NUL. As in
 * the reference, a grapheme cluster of less than 6 bytes is looked up as a whole, otherwise each character; the
 * shortest prefix of a cluster in the trie determines the replacement, and the rest of the cluster is dropped. */

#include "tokenizers/normalizer.h"

/* Decode base64; returns the number of bytes, -1 if it is malformed. */
static int64_t from_base64(const char *text, unsigned char *out)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int64_t n = 0;
    uint32_t bits = 0;
    int n_bits = 0;
    for (; *text && *text != '='; text++) {
        const char *at = strchr(alphabet, *text);
        if (!at) return -1;
        bits = bits << 6 | (uint32_t)(at - alphabet);
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        out[n++] = (unsigned char)(bits >> n_bits);
    }
    return n;
}

enum lvn_status lvn_precompiled_read(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name,
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
    LVN_CHECK(good, FORMAT, "'%s': precompiled_charsmap is not a map of characters of SentencePiece: it is damaged",
              name);
    s->trie = (const uint32_t *)(map + 4); /* the arena's memory is aligned for any type */
    s->n_trie = bytes / 4;
    s->texts = (const char *)map + 4 + bytes;
    s->n_texts = n - 4 - bytes;
    return LVN_OK;
}

/* The offset of the replacement for p[0, n); -1: none. */
static int64_t find_replacement(const struct lvn_normalizer_step *s, const uint8_t *p, int64_t n)
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

static bool replace(const struct lvn_normalizer_step *s, const uint8_t *p, int64_t n, struct lvn_text *out)
{
    int64_t text = find_replacement(s, p, n);
    if (text >= 0)
        lvn_text_add_bytes(out, s->texts + text, (int64_t)strnlen(s->texts + text, (size_t)(s->n_texts - text)));
    return text >= 0;
}

void lvn_precompiled_run(const struct lvn_normalizer_step *s, const uint8_t *p, int64_t n, struct lvn_text *out)
{
    enum { SHORT = 6 };
    for (const uint8_t *end = p + n; p < end;) {
        bool plain = *p < 0x80 && (end - p == 1 || p[1] < 0x80) && *p != '\r';
        int64_t cluster = plain ? 1 : lvn_grapheme(p, end - p);
        const uint8_t *stop = p + cluster;
        if (cluster < SHORT && replace(s, p, cluster, out)) p = stop;
        for (int bytes; p < stop; p += bytes) {
            (void)lvn_utf8_decode(p, end - p, &bytes);
            if (!replace(s, p, bytes, out)) lvn_text_add_bytes(out, p, bytes);
        }
    }
}
