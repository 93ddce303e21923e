/* packing.c - see packing.h. Open rows are the slots of a tree whose nodes hold the largest room below them, so that
 * the first row with enough room is found in a few steps. A window adds at most WINDOW rows; between two windows full
 * rows are closed, then the oldest ones, until that many slots are free. */
#include "data/packing/packing.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"

enum { WINDOW = 4096, SLOTS = 2 * WINDOW };

/* --- pieces --- */

static int64_t piece_first(const struct lvn_pack *p, struct lvn_pack_piece x)
{
    return x.part * p->T;
}

static int64_t piece_length(const struct lvn_pack *p, struct lvn_pack_piece x)
{
    const int64_t rest = p->source.length(p->source.context, x.document) - piece_first(p, x);
    return rest < p->T ? rest : p->T;
}

/* Does the piece end before its document does, and the next part follow in a row or as its last label? */
static bool continues(const struct lvn_pack *p, struct lvn_pack_piece x)
{
    return p->overlong == LVN_OVERLONG_SPLIT &&
           piece_first(p, x) + p->T < p->source.length(p->source.context, x.document);
}

static int64_t piece_labels(const struct lvn_pack *p, struct lvn_pack_piece x)
{
    const int64_t n = piece_length(p, x), labeled = n - !continues(p, x);
    if (!p->source.labels) return labeled;
    return p->source.labels(p->source.context, x.document, piece_first(p, x), labeled);
}

/* Parts of a document of `length` tokens that are placed into rows. A part of one token, the last, is a label already.
 */
static int64_t parts_of(const struct lvn_pack *p, int64_t length)
{
    if (p->overlong == LVN_OVERLONG_SPLIT && length > 1) return (length - 2) / p->T + 1;
    return length > p->T && p->overlong == LVN_OVERLONG_DROP ? 0 : 1;
}

/* Find the pieces and count what is cut, lost and left out. p->piece NULL: count only. */
static enum lvn_status find_pieces(struct lvn_pack *p)
{
    p->n_pieces = p->tokens = p->cut = p->lost = p->unlabeled = 0;
    for (int64_t i = 0; i < p->source.n; i++) {
        const int64_t length = p->source.length(p->source.context, i), parts = parts_of(p, length);
        LVN_CHECK(length <= p->T || p->overlong != LVN_OVERLONG_REFUSE, ARG,
                  "document %lld of '%s' has %lld tokens, and a row of model.block_size has %lld: use a larger "
                  "model.block_size, or set data.overlong to split, truncate or drop",
                  (long long)i + 1, p->source.name, (long long)length, (long long)p->T);
        p->cut += length > p->T;
        if (length > p->T && p->overlong != LVN_OVERLONG_SPLIT) p->lost += length - parts * p->T;
        for (int64_t k = 0; k < parts; k++) {
            const struct lvn_pack_piece x = {(uint32_t)i, (uint32_t)k};
            const int64_t n = piece_length(p, x);
            if (piece_labels(p, x) == 0) {
                p->unlabeled++;
                p->lost += n;
                continue;
            }
            if (p->piece) p->piece[p->n_pieces] = x;
            p->n_pieces++;
            p->tokens += n;
        }
    }
    return LVN_OK;
}

static enum lvn_status collect_pieces(struct lvn_pack *p)
{
    char some[LVN_NUMBER_TEXT];
    LVN_CHECK(p->source.n < UINT32_MAX, UNSUPPORTED, "'%s' has %s documents; data.pack supports 2^32 of them",
              p->source.name, lvn_count_text(p->source.n, some));
    LVN_TRY(find_pieces(p));
    LVN_CHECK(p->n_pieces, FORMAT,
              "data.pack: none of the %lld documents of '%s' can be learned from: each is a single token%s%s",
              (long long)p->source.n, p->source.name, p->source.labels ? ", or none of its tokens has a label" : "",
              p->overlong == LVN_OVERLONG_DROP ? ", or longer than a row of model.block_size (data.overlong=drop)"
                                               : "");
    LVN_CHECK(p->n_pieces < UINT32_MAX, UNSUPPORTED, "'%s' has %s parts of documents; data.pack supports 2^32 of them",
              p->source.name, lvn_count_text(p->n_pieces, some));
    p->piece = lvn_malloc(sizeof *p->piece * (size_t)p->n_pieces);
    return p->piece ? find_pieces(p) : LVN_MEMORY;
}

/* --- placing --- */

struct placement {
    int32_t room[2 * SLOTS]; /* a tree: node i has the nodes 2 i and 2 i + 1 below it; slot s is node SLOTS + s */
    uint32_t row[SLOTS];     /* of each slot in use */
    int open;                /* slots in use, the oldest rows first */
    int64_t rows;
    struct entry {
        int32_t length, order; /* order: in the window, which is random */
        uint32_t piece;
    } window[WINDOW];
};

static void set_room(struct placement *w, int slot, int32_t room)
{
    int i = SLOTS + slot;
    w->room[i] = room;
    for (i /= 2; i; i /= 2) w->room[i] = w->room[2 * i] > w->room[2 * i + 1] ? w->room[2 * i] : w->room[2 * i + 1];
}

/* The row of a piece: the first open one with enough room, or a new one. */
static uint32_t place(struct placement *w, int32_t length, int64_t T)
{
    int i = 1;
    if (w->room[1] < length) {
        w->row[w->open] = (uint32_t)w->rows++;
        set_room(w, w->open++, (int32_t)T);
    }
    while (i < SLOTS) i = w->room[2 * i] >= length ? 2 * i : 2 * i + 1;
    set_room(w, i - SLOTS, w->room[i] - length);
    return w->row[i - SLOTS];
}

/* Close the full rows, and the oldest ones if more than WINDOW are left. */
static void close_rows(struct placement *w)
{
    int kept = 0, open = w->open, with_room = 0;
    for (int s = 0; s < open; s++) with_room += w->room[SLOTS + s] > 0;
    for (int s = 0; s < open; s++) {
        const int32_t room = w->room[SLOTS + s];
        if (room == 0 || with_room-- > WINDOW) continue;
        w->row[kept] = w->row[s];
        w->room[SLOTS + kept++] = room;
    }
    for (int s = kept; s < open; s++) w->room[SLOTS + s] = 0;
    for (int i = SLOTS - 1; i; i--)
        w->room[i] = w->room[2 * i] > w->room[2 * i + 1] ? w->room[2 * i] : w->room[2 * i + 1];
    w->open = kept;
}

static int longest_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? 1 : -1;
    return x->order - y->order;
}

/* Set row[i] for each piece. */
static void place_all(struct lvn_pack *p, struct placement *w, uint32_t *row, uint64_t seed)
{
    for (int64_t first = 0; first < p->n_pieces; first += WINDOW) {
        const int64_t n = p->n_pieces - first < WINDOW ? p->n_pieces - first : WINDOW;
        for (int64_t i = 0; i < n; i++) {
            const int64_t piece = lvn_random_permute(seed, 0, p->n_pieces, first + i);
            const int64_t length = piece_length(p, p->piece[piece]);
            w->window[i] = (struct entry){(int32_t)length, (int32_t)i, (uint32_t)piece};
        }
        qsort(w->window, (size_t)n, sizeof *w->window, longest_first);
        for (int64_t i = 0; i < n; i++) row[w->window[i].piece] = place(w, w->window[i].length, p->T);
        close_rows(w);
    }
    p->rows = w->rows;
}

/* Sort the pieces by row (counting sort); those of a row stay in the order of the file. */
static enum lvn_status sort_pieces(struct lvn_pack *p, const uint32_t *row)
{
    struct lvn_pack_piece *sorted = lvn_malloc(sizeof *sorted * (size_t)p->n_pieces);
    p->first = lvn_calloc((size_t)p->rows + 2, sizeof *p->first);
    if (!sorted || !p->first) {
        free(sorted);
        return LVN_MEMORY;
    }
    int64_t *next = p->first + 1; /* next[r]: where the next piece of row r goes; in the end the first of row r + 1 */
    for (int64_t i = 0; i < p->n_pieces; i++) next[row[i] + 1]++;
    for (int64_t r = 0; r < p->rows; r++) next[r + 1] += next[r];
    for (int64_t i = 0; i < p->n_pieces; i++) sorted[next[row[i]]++] = p->piece[i];
    free(p->piece);
    p->piece = sorted;
    return LVN_OK;
}

static enum lvn_status build(struct lvn_pack *p, uint64_t seed)
{
    LVN_TRY(collect_pieces(p));
    struct placement *w = lvn_calloc(1, sizeof *w);
    uint32_t *row = lvn_malloc(sizeof *row * (size_t)p->n_pieces);
    enum lvn_status status = w && row ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) place_all(p, w, row, seed ^ lvn_name_hash("data.pack"));
    if (status == LVN_OK) status = sort_pieces(p, row);
    free(row);
    free(w);
    return status;
}

enum lvn_status lvn_pack_new(struct lvn_pack **out, const struct lvn_pack_source *source, int64_t T,
                             enum lvn_overlong overlong, uint64_t seed)
{
    *out = NULL;
    LVN_CHECK(T >= 1 && T < INT32_MAX, ARG, "model.block_size is %lld; it must be at least 1", (long long)T);
    struct lvn_pack *p = lvn_calloc(1, sizeof *p);
    if (!p) return LVN_MEMORY;
    p->source = *source;
    p->T = T;
    p->overlong = overlong;
    enum lvn_status status = build(p, seed);
    if (status == LVN_OK)
        *out = p;
    else
        lvn_pack_free(p);
    return status;
}

void lvn_pack_free(struct lvn_pack *p)
{
    if (!p) return;
    free(p->first);
    free(p->piece);
    free(p);
}

void lvn_pack_report(const struct lvn_pack *p)
{
    static const char *const done[] = {[LVN_OVERLONG_SPLIT] = "split into parts",
                                       [LVN_OVERLONG_TRUNCATE] = "truncated",
                                       [LVN_OVERLONG_DROP] = "left out",
                                       [LVN_OVERLONG_REFUSE] = "refused"};
    char documents[LVN_NUMBER_TEXT], rows[LVN_NUMBER_TEXT], some[LVN_NUMBER_TEXT];
    LVN_LOCAL_TEXT(t);
    lvn_text_printf(&t, "data.pack: %s document%s of '%s' in %s row%s of %lld tokens, %.2f%% of them padding",
                    lvn_count_text(p->source.n, documents), lvn_plural(p->source.n), p->source.name,
                    lvn_count_text(p->rows, rows), lvn_plural(p->rows), (long long)p->T,
                    100.0 * (double)(p->rows * p->T - p->tokens) / (double)(p->rows * p->T));
    if (p->cut)
        lvn_text_printf(&t, "; %s document%s longer than a row %s %s (data.overlong)", lvn_count_text(p->cut, some),
                        lvn_plural(p->cut), p->cut == 1 ? "is" : "are", done[p->overlong]);
    if (p->unlabeled)
        lvn_text_printf(&t, "; %s without a label, as a document of one token, %s left out",
                        lvn_count_text(p->unlabeled, some), p->unlabeled == 1 ? "is" : "are");
    if (p->lost) lvn_text_printf(&t, "; %s token%s lost", lvn_count_text(p->lost, some), lvn_plural(p->lost));
    if (lvn_text_status(&t) == LVN_OK) lvn_log(LVN_LOG_INFO, "%s", t.p);
}

/* --- rows --- */

struct lvn_fields lvn_pack_fields(int64_t T, int64_t vocab_size)
{
    const struct lvn_field ids = {
        .name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}, .below = vocab_size, .tokens = true};
    struct lvn_fields f = {.field = {ids, ids, ids}, .n = 3};
    f.field[1].name = "labels";
    f.field[1].label = LVN_LABEL_TOKEN;
    f.field[2].name = LVN_SEGMENTS;
    f.field[2].tokens = false;
    f.field[2].below = T;
    return f;
}

int64_t lvn_pack_tokens(const struct lvn_pack *p, int64_t row)
{
    int64_t tokens = 0;
    for (int64_t i = p->first[row]; i < p->first[row + 1]; i++) tokens += piece_length(p, p->piece[i]);
    return tokens;
}

enum lvn_status lvn_pack_row(const struct lvn_pack *p, int64_t row, int32_t *ids, int32_t *labels, int32_t *segments)
{
    int64_t at = 0;
    for (int64_t i = p->first[row]; i < p->first[row + 1]; i++) {
        const struct lvn_pack_piece x = p->piece[i];
        const int64_t n = piece_length(p, x);
        LVN_TRY(p->source.read(p->source.context, x.document, piece_first(p, x), n, ids + at, labels + at));
        if (!continues(p, x)) labels[at + n - 1] = -1;
        for (int64_t t = at; t < at + n; t++) segments[t] = (int32_t)at;
        at += n;
    }
    for (; at < p->T; at++) {
        ids[at] = 0;
        labels[at] = -1;
        segments[at] = (int32_t)at;
    }
    return LVN_OK;
}
