/* mask.c - see mask.h. The random numbers of a token are those of Philox with the seed as key and (token, order,
 * sample) as counter. */
#include "data/mask.h"

#include "base/random.h"
#include "tokenizers/wordpiece.h"

enum lvn_status lvn_mask_init(struct lvn_mask *m, const struct lvn_tokenizer *t, double fraction, bool whole_words,
                              uint64_t seed)
{
    static const char *const names[LVN_MASK_SPECIAL] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                        "<pad>", "<unk>", "<s>",   "</s>"};
    *m = (struct lvn_mask){.fraction = fraction, .whole_words = whole_words, .tokenizer = t, .n_tokens = t->n};
    m->seed = seed ^ lvn_name_hash("data.mask");
    for (int i = 0; i < LVN_MASK_SPECIAL; i++)
        m->special[i] = lvn_tokenizer_find(t, names[i], (int64_t)strlen(names[i]));
    m->mask = t->mask_id;
    LVN_CHECK(m->mask >= 0, ARG,
              "task.kind=mlm requires a mask token, and the tokenizer '%s' has none ([MASK], <mask>, or the one that "
              "mask_token names); use another tokenizer",
              t->path);
    LVN_CHECK(
        !whole_words || (t->wordpiece && t->wordpiece->n_prefix), ARG,
        "task.whole_words requires a WordPiece tokenizer with continuation prefixes (##), which '%s' is not; omit "
        "task.whole_words",
        t->path);
    return LVN_OK;
}

static bool is_special(const struct lvn_mask *m, int32_t id)
{
    for (int i = 0; i < LVN_MASK_SPECIAL; i++)
        if (id == m->special[i]) return true;
    if (id == m->mask) return true;
    for (int i = 0; i < m->tokenizer->n_added; i++)
        if (m->tokenizer->added[i].special && m->tokenizer->added[i].id == id) return true;
    return false;
}

/* True if whole words are masked and the token continues a word (it begins with the prefix ##). */
static bool continues_word(const struct lvn_mask *m, int32_t id)
{
    const struct lvn_tokenizer *t = m->tokenizer;
    if (!m->whole_words || id < 0 || id >= t->n) return false;
    const struct lvn_wordpiece *w = t->wordpiece;
    return t->start[id + 1] - t->start[id] > w->n_prefix && /* longer than the prefix */
           !memcmp(t->byte + t->start[id], w->prefix, (size_t)w->n_prefix);
}

void lvn_mask_sample(const struct lvn_mask *m, uint64_t order, int64_t at, int64_t n, int32_t *ids, int32_t *labels)
{
    const double range = 4294967296.0;
    bool chosen = false;
    for (int64_t t = 0; t < n; t++) {
        struct lvn_philox r = lvn_philox(m->seed, (uint32_t)t, (uint32_t)order, (uint32_t)at,
                                         (uint32_t)(at >> 32) ^ (uint32_t)(order >> 32) << 16);
        if (!continues_word(m, ids[t])) chosen = r.v[0] < m->fraction * range;
        labels[t] = chosen && !is_special(m, ids[t]) ? ids[t] : -1;
        if (labels[t] < 0) continue;
        if (r.v[1] < 0.8 * range)
            ids[t] = m->mask;
        else if (r.v[1] < 0.9 * range)
            ids[t] = (int32_t)((uint64_t)r.v[2] * (uint64_t)m->n_tokens >> 32);
    }
}
