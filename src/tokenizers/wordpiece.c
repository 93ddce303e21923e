/* wordpiece.c - see wordpiece.h. Characters go one after the other from the text into the word at hand; no copy of the
 * text is made. Marks are taken off one by one and not put in order first: they go anyway. */
#include "tokenizers/wordpiece.h"

#include <string.h>

#include "tokenizers/unicode.h"

enum { LONGEST_WORD = 100, WORD_BYTES = 4 * LONGEST_WORD };

struct word {
    const struct lvn_tokenizer *t;
    struct lvn_ids *ids;
    uint8_t text[WORD_BYTES];
    int bytes, letters; /* letters: more than LONGEST_WORD are only counted */
    enum lvn_status status;
};

static uint64_t step(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * 0x100000001b3ULL; /* FNV-1a */
}

static uint64_t first_step(bool inner)
{
    return inner ? 0xcbf29ce484222325ULL : 0x84222325cbf29ce4ULL;
}

/* The token of these bytes: at the beginning of a word, or within one. */
static int32_t find(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, bool inner, uint64_t hash)
{
    const struct lvn_wordpiece *w = t->wordpiece;
    for (uint64_t i = lvn_bpe_hash(hash) & w->mask; w->slot[i] >= 0; i = (i + 1) & w->mask) {
        int32_t id = w->slot[i];
        const uint8_t *token = t->byte + t->start[id];
        int64_t bytes = t->start[id + 1] - t->start[id], skip = inner ? 2 : 0;
        if (bytes == n + skip && (!inner || !memcmp(token, "##", 2)) && !memcmp(token + skip, p, (size_t)n)) return id;
    }
    return -1;
}

void lvn_wordpiece_index(const struct lvn_tokenizer *t, struct lvn_wordpiece *w, int32_t id)
{
    const uint8_t *p = t->byte + t->start[id];
    int64_t n = t->start[id + 1] - t->start[id];
    bool inner = n > 2 && !memcmp(p, "##", 2);
    if (inner) p += 2, n -= 2;
    if (n == 0) return;
    uint64_t hash = first_step(inner);
    for (int64_t i = 0; i < n; i++) hash = step(hash, p[i]);
    uint64_t at = lvn_bpe_hash(hash) & w->mask;
    int32_t same = find(t, p, n, inner, hash);
    while (w->slot[at] >= 0 && w->slot[at] != same) at = (at + 1) & w->mask;
    w->slot[at] = id;
}

static void put(struct word *w, int32_t id)
{
    if (w->status == LVN_OK) w->status = lvn_ids_reserve(w->ids, 1);
    if (w->status == LVN_OK) w->ids->p[w->ids->n++] = id;
}

/* The longest piece at p[0..n); its bytes, 0: there is none. */
static int longest(const struct lvn_tokenizer *t, const uint8_t *p, int n, bool inner, int32_t *id)
{
    uint64_t hash[WORD_BYTES + 1] = {first_step(inner)};
    for (int i = 0; i < n; i++) hash[i + 1] = step(hash[i], p[i]);
    for (int end = n; end > 0; end--) {
        if (end < n && (p[end] & 0xc0) == 0x80) continue;
        *id = find(t, p, end, inner, hash[end]);
        if (*id >= 0) return end;
    }
    return 0;
}

static void end_word(struct word *w)
{
    int64_t before = w->ids->n;
    bool whole = w->letters <= LONGEST_WORD;
    for (int at = 0, used; whole && at < w->bytes; at += used) {
        int32_t id;
        used = longest(w->t, w->text + at, w->bytes - at, at > 0, &id);
        if (used)
            put(w, id);
        else
            whole = false;
    }
    if (!whole) {
        w->ids->n = before;
        put(w, w->t->wordpiece->unknown);
    }
    w->bytes = w->letters = 0;
}

static void add_letter(struct word *w, uint32_t c)
{
    char text[4];
    if (++w->letters > LONGEST_WORD) return;
    int n = lvn_utf8_encode((int32_t)c, text);
    memcpy(w->text + w->bytes, text, (size_t)n);
    w->bytes += n;
}

/* A character of the cleaned text. */
static void add(struct word *w, uint32_t c)
{
    enum lvn_word_class class = lvn_word_class(c);
    if (class == LVN_WORD_SPACE || class == LVN_WORD_MARKER) {
        if (w->letters) end_word(w);
        if (class == LVN_WORD_SPACE) return;
        add_letter(w, c);
        end_word(w);
    } else {
        add_letter(w, c);
    }
}

static void add_lower(struct word *w, uint32_t c)
{
    uint32_t low[2];
    int n = w->t->wordpiece->lower ? lvn_unicode_lower(c, low) : 0;
    if (!n) add(w, c);
    for (int i = 0; i < n; i++) add(w, low[i]);
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b820 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

static void character(struct word *w, uint32_t c)
{
    const struct lvn_wordpiece *rules = w->t->wordpiece;
    enum lvn_word_class class = lvn_word_class(c);
    if (class == LVN_WORD_NOTHING || c == 0xfffd) return;
    bool alone = rules->chinese && is_chinese(c);
    if (alone) add(w, ' ');
    if (rules->strip) {
        uint32_t parts[LVN_NFD_MOST];
        int n = lvn_unicode_nfd(c, parts);
        for (int i = 0; i < n; i++)
            if (lvn_word_class(parts[i]) != LVN_WORD_ACCENT) add_lower(w, parts[i]);
    } else {
        add_lower(w, c);
    }
    if (alone) add(w, ' ');
}

enum lvn_status lvn_wordpiece_encode(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, struct lvn_ids *ids)
{
    struct word w = {.t = t, .ids = ids};
    LVN_TRY(lvn_ids_reserve(ids, n / 4));
    for (const uint8_t *end = p + n; p < end && w.status == LVN_OK;) {
        int bytes;
        int32_t code = lvn_utf8_decode(p, end - p, &bytes);
        if (code >= 0) character(&w, (uint32_t)code); /* what is not UTF-8 is nothing, like U+FFFD */
        p += bytes;
    }
    if (w.letters) end_word(&w);
    return w.status;
}

void lvn_wordpiece_decode(const struct lvn_tokenizer *t, int32_t id, struct lvn_text *out)
{
    int64_t bytes = t->start[id + 1] - t->start[id];
    const unsigned char *p = t->byte + t->start[id];
    bool inner = bytes > 2 && !memcmp(p, "##", 2);
    if (!inner && out->n) lvn_text_add(out, " ");
    lvn_text_add_bytes(out, p + (inner ? 2 : 0), bytes - (inner ? 2 : 0));
}
