/* parquet_page.c - reads a column of a row group page by page; see parquet_private.h. */

#include "formats/crc.h"
#include "formats/parquet/parquet_private.h"

enum {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE = 3,
    DELTA_BINARY_PACKED = 5,
    DELTA_LENGTH_BYTE_ARRAY = 6,
    DELTA_BYTE_ARRAY = 7,
    RLE_DICTIONARY = 8
};
enum { DATA_PAGE = 0, INDEX_PAGE = 1, DICTIONARY_PAGE = 2, DATA_PAGE_V2 = 3 };
enum { HEADER = 64 << 10, MAX_HEADER = 32 << 20, BUILT_VALUES = 64 };

struct header {
    int type, encoding, def_encoding, rep_encoding;
    int64_t uncompressed, stored; /* bytes of the page */
    int64_t values;               /* levels */
    int64_t def_bytes, rep_bytes;
    bool is_compressed, has_crc, has_values;
    uint32_t crc;
};

static const char *encoding_name(int encoding)
{
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
    return encoding >= 0 && encoding < (int)(sizeof names / sizeof *names) ? names[encoding] : "unknown";
}

enum lvn_status lvn_parquet_damaged(const struct lvn_parquet_reader *r, const char *format, ...)
{
    char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    LVN_FAIL(FORMAT, "'%s', row group %lld, column '%s': %s; the file is damaged", r->file->name, (long long)r->group,
             r->column->path, text);
}

/* --- pages --- */

static void read_data_header(struct lvn_thrift *t, struct header *h)
{
    h->has_values = true;
    for (int id = 0, type; lvn_thrift_next(t, &id, &type);) {
        const int64_t x = id < 5 ? lvn_thrift_int(t, type) : 0;
        if (id >= 5) lvn_thrift_skip(t, type);
        if (id == 1) h->values = x;
        if (id == 2) h->encoding = (int)(x & 0xff);
        if (id == 3) h->def_encoding = (int)(x & 0xff);
        if (id == 4) h->rep_encoding = (int)(x & 0xff);
    }
}

static void read_v2_header(struct lvn_thrift *t, struct header *h)
{
    h->has_values = true;
    for (int id = 0, type; lvn_thrift_next(t, &id, &type);) {
        const int64_t x = id < 7 ? lvn_thrift_int(t, type) : 0;
        if (id == 7) h->is_compressed = lvn_thrift_bool(t, type);
        if (id > 7) lvn_thrift_skip(t, type);
        if (id == 1) h->values = x;
        if (id == 4) h->encoding = (int)(x & 0xff);
        if (id == 5) h->def_bytes = x;
        if (id == 6) h->rep_bytes = x;
    }
}

static void read_dictionary_header(struct lvn_thrift *t, struct header *h)
{
    h->has_values = true;
    for (int id = 0, type; lvn_thrift_next(t, &id, &type);) {
        const int64_t x = id < 3 ? lvn_thrift_int(t, type) : 0;
        if (id >= 3) lvn_thrift_skip(t, type);
        if (id == 1) h->values = x;
        if (id == 2) h->encoding = (int)(x & 0xff);
    }
}

static void read_header(struct lvn_thrift *t, struct header *h)
{
    *h = (struct header){
        .type = -1, .uncompressed = -1, .stored = -1, .is_compressed = true, .def_encoding = RLE, .rep_encoding = RLE};
    for (int id = 0, type; lvn_thrift_next(t, &id, &type);) {
        if (id == 5 && type == LVN_THRIFT_STRUCT) {
            read_data_header(t, h);
        } else if (id == 7 && type == LVN_THRIFT_STRUCT) {
            read_dictionary_header(t, h);
        } else if (id == 8 && type == LVN_THRIFT_STRUCT) {
            read_v2_header(t, h);
        } else if (id > 4) {
            lvn_thrift_skip(t, type);
        } else {
            const int64_t x = lvn_thrift_int(t, type);
            if (id == 1) h->type = (int)(x & 0xff);
            if (id == 2) h->uncompressed = x;
            if (id == 3) h->stored = x;
            if (id == 4) h->crc = (uint32_t)x;
            h->has_crc |= id == 4;
        }
    }
}

static enum lvn_status reserve(unsigned char **buffer, int64_t *capacity, int64_t bytes)
{
    if (bytes <= *capacity) return LVN_OK;
    free(*buffer);
    *capacity = 0;
    *buffer = lvn_malloc((size_t)bytes);
    if (!*buffer) return LVN_MEMORY;
    *capacity = bytes;
    return LVN_OK;
}

/* Read the header of the page at r->at, whose length is not known, and the page into r->raw. */
static enum lvn_status read_raw(struct lvn_parquet_reader *r, struct header *h)
{
    const int64_t left = r->chunk->at + r->chunk->bytes - r->at;
    struct lvn_thrift t;
    int64_t n = HEADER;
    do {
        n = n < left ? n : left;
        LVN_TRY(reserve(&r->raw, &r->raw_capacity, n + LVN_PARQUET_SLACK));
        LVN_TRY(lvn_parquet_bytes_at(r->file, r->at, r->raw, n));
        t = (struct lvn_thrift){.p = r->raw, .end = r->raw + n};
        read_header(&t, h);
        n *= 2;
    } while (t.bad && n / 2 < left && n <= MAX_HEADER); /* statistics may be long texts */
    n /= 2;
    if (t.bad || h->uncompressed < 0 || h->stored < 0)
        return lvn_parquet_damaged(r, "the page at byte %lld has no readable header", (long long)r->at);
    const int64_t begin = t.p - r->raw;
    if (h->stored > left - begin)
        return lvn_parquet_damaged(r, "the page at byte %lld is longer than the column", (long long)r->at);
    LVN_CHECK(
        h->uncompressed <= LVN_PARQUET_PAGE && h->stored <= LVN_PARQUET_PAGE, UNSUPPORTED,
        "'%s', row group %lld, column '%s': a page has %lld bytes, and levin reads pages of at most %d MiB: write "
        "the file with smaller pages",
        r->file->name, (long long)r->group, r->column->path,
        (long long)(h->uncompressed > h->stored ? h->uncompressed : h->stored), LVN_PARQUET_PAGE >> 20);
    const int64_t have = n - begin < h->stored ? n - begin : h->stored;
    if (h->stored + LVN_PARQUET_SLACK > r->raw_capacity) {
        unsigned char *more = lvn_malloc((size_t)h->stored + LVN_PARQUET_SLACK);
        if (!more) return LVN_MEMORY;
        memcpy(more, r->raw + begin, (size_t)have);
        free(r->raw);
        r->raw = more;
        r->raw_capacity = h->stored + LVN_PARQUET_SLACK;
    } else {
        memmove(r->raw, r->raw + begin, (size_t)have);
    }
    LVN_TRY(lvn_parquet_bytes_at(r->file, r->at + begin + have, r->raw + have, h->stored - have));
    if (h->has_crc && lvn_crc32(0, r->raw, h->stored) != h->crc)
        return lvn_parquet_damaged(r, "the checksum of the page at byte %lld is wrong", (long long)r->at);
    r->at += begin + h->stored;
    return LVN_OK;
}

/* Decompress raw[from, n); the first `from` bytes are not compressed. */
static enum lvn_status decompress(struct lvn_parquet_reader *r, const struct header *h, int64_t from)
{
    r->page = r->raw;
    if (r->chunk->codec == 0 || !h->is_compressed) {
        if (h->uncompressed != h->stored) return lvn_parquet_damaged(r, "the sizes of a page differ");
        return LVN_OK;
    }
    LVN_TRY(reserve(&r->decompressed, &r->decompressed_capacity, h->uncompressed + LVN_PARQUET_SLACK));
    memcpy(r->decompressed, r->raw, (size_t)from);
    r->page = r->decompressed;
    if (h->uncompressed == from) return LVN_OK; /* no values */
    const enum lvn_status status = lvn_parquet_decompress(r->chunk->codec, r->raw + from, h->stored - from,
                                                          r->decompressed + from, h->uncompressed - from);
    if (status == LVN_OK || status == LVN_MEMORY) return status;
    return lvn_fail(status, "'%s', row group %lld, column '%s': %s", r->file->name, (long long)r->group,
                    r->column->path, levin_error_text());
}

/* Bytes of a number; 0: the values are not numbers of whole bytes. */
static int number_bytes(const struct lvn_parquet_node *column)
{
    return column->type == LVN_PARQUET_INT32 || column->type == LVN_PARQUET_FLOAT    ? 4
           : column->type == LVN_PARQUET_INT64 || column->type == LVN_PARQUET_DOUBLE ? 8
                                                                                     : 0;
}

/* The next value of PLAIN, of `width` bytes, or a text after its length; NULL: the bytes end. */
static const unsigned char *plain(const unsigned char **p, const unsigned char *end, int width, int64_t *n)
{
    uint32_t bytes;
    if (width) {
        if (end - *p < width) return NULL;
        *n = width;
        *p += width;
        return *p - width;
    }
    if (end - *p < 4) return NULL;
    memcpy(&bytes, *p, 4);
    if (bytes > (uint64_t)(end - *p) - 4) return NULL;
    const unsigned char *text = *p + 4;
    *n = bytes;
    *p = text + bytes;
    return text;
}

static enum lvn_status read_dictionary(struct lvn_parquet_reader *r, const struct header *h)
{
    LVN_CHECK(h->encoding == PLAIN || h->encoding == PLAIN_DICTIONARY, UNSUPPORTED,
              "'%s', row group %lld, column '%s': the dictionary has the encoding %s; levin reads PLAIN", r->file->name,
              (long long)r->group, r->column->path, encoding_name(h->encoding));
    if (r->has_dictionary) return lvn_parquet_damaged(r, "it has two dictionaries");
    LVN_TRY(decompress(r, h, 0));
    if (h->values < 0 || h->values > h->uncompressed / 4) return lvn_parquet_damaged(r, "its dictionary is too short");
    r->dictionary_bytes = r->page;
    r->dictionary = lvn_malloc(sizeof *r->dictionary * (size_t)(h->values + 1));
    if (r->page == r->raw) /* the page keeps its buffer */
        r->raw = NULL, r->raw_capacity = 0;
    else
        r->decompressed = NULL, r->decompressed_capacity = 0;
    if (!r->dictionary) return LVN_MEMORY;
    const unsigned char *p = r->dictionary_bytes, *end = p + h->uncompressed;
    const int width = number_bytes(r->column);
    for (int64_t i = 0; i < h->values; i++)
        if (!(r->dictionary[i].p = plain(&p, end, width, &r->dictionary[i].n)))
            return lvn_parquet_damaged(r, "value %lld of its dictionary is longer than the page", (long long)i);
    r->n_dictionary = h->values;
    r->has_dictionary = true;
    return LVN_OK;
}

static int width_of(int max)
{
    int width = 0;
    while (max >> width) width++;
    return width;
}

/* Levels of a page of version 1: their size precedes them. */
static bool begin_levels(struct lvn_parquet_reader *r, struct lvn_hybrid *h, int max)
{
    uint32_t bytes;
    *h = (struct lvn_hybrid){.width = width_of(max)};
    if (!max) return true;
    if (r->end - r->p < 4) return false;
    memcpy(&bytes, r->p, 4);
    if (bytes > (uint64_t)(r->end - r->p) - 4) return false;
    h->p = r->p + 4;
    r->p = h->end = h->p + bytes;
    return true;
}

/* Are values of the column read that have this encoding? */
static bool is_read(const struct lvn_parquet_node *column, int encoding)
{
    switch (encoding) {
    case PLAIN:
        return true;
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY:
        return column->type != LVN_PARQUET_BOOLEAN;
    case RLE:
        return column->type == LVN_PARQUET_BOOLEAN;
    case DELTA_BINARY_PACKED:
        return column->type == LVN_PARQUET_INT32 || column->type == LVN_PARQUET_INT64;
    case DELTA_LENGTH_BYTE_ARRAY:
    case DELTA_BYTE_ARRAY:
        return column->type == LVN_PARQUET_BYTE_ARRAY;
    default:
        return false;
    }
}

static enum lvn_status begin_data(struct lvn_parquet_reader *r, const struct header *h)
{
    const struct lvn_parquet_node *column = r->column;
    const bool v2 = h->type == DATA_PAGE_V2;
    const int64_t room = h->stored < h->uncompressed ? h->stored : h->uncompressed;
    if (h->def_bytes < 0 || h->rep_bytes < 0 || h->def_bytes > room || h->rep_bytes > room - h->def_bytes)
        return lvn_parquet_damaged(r, "the levels of a page are longer than the page");
    const int64_t levels = v2 ? h->def_bytes + h->rep_bytes : 0;
    LVN_CHECK(v2 || ((!column->max_def || h->def_encoding == RLE) && (!column->max_rep || h->rep_encoding == RLE)),
              UNSUPPORTED, "'%s', row group %lld, column '%s': its levels have the encoding %s; levin reads RLE",
              r->file->name, (long long)r->group, column->path,
              encoding_name(h->def_encoding != RLE ? h->def_encoding : h->rep_encoding));
    LVN_TRY(decompress(r, h, levels));
    r->p = r->page;
    r->end = r->page + h->uncompressed;
    if (v2) {
        r->rep = (struct lvn_hybrid){.p = r->p, .end = r->p + h->rep_bytes, .width = width_of(column->max_rep)};
        r->def = (struct lvn_hybrid){.p = r->rep.end, .end = r->p + levels, .width = width_of(column->max_def)};
        r->p += levels;
    } else if (!begin_levels(r, &r->rep, column->max_rep) || !begin_levels(r, &r->def, column->max_def)) {
        return lvn_parquet_damaged(r, "the levels of a page are longer than the page");
    }
    const bool indexed = h->encoding == PLAIN_DICTIONARY || h->encoding == RLE_DICTIONARY;
    LVN_CHECK(is_read(column, h->encoding), UNSUPPORTED,
              "'%s', row group %lld, column '%s': its values have the encoding %s; levin reads PLAIN, dictionaries, "
              "DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY of texts, DELTA_BINARY_PACKED of whole numbers, and RLE of "
              "booleans",
              r->file->name, (long long)r->group, column->path, encoding_name(h->encoding));
    if (indexed && !r->has_dictionary) return lvn_parquet_damaged(r, "its dictionary is missing");
    r->encoding = indexed ? RLE_DICTIONARY : h->encoding;
    r->index_begun = r->delta_begun = false;
    r->bit = 0;
    r->in_page = h->values;
    return LVN_OK;
}

static enum lvn_status next_page(struct lvn_parquet_reader *r)
{
    struct header h;
    if (r->at >= r->chunk->at + r->chunk->bytes)
        return lvn_parquet_damaged(r, "it ends %lld values before its last one", (long long)r->left);
    LVN_TRY(read_raw(r, &h));
    if (h.type == INDEX_PAGE) return LVN_OK;
    if (!h.has_values || (h.type != DATA_PAGE && h.type != DATA_PAGE_V2 && h.type != DICTIONARY_PAGE))
        return lvn_parquet_damaged(r, "a page has the unknown type %d", h.type);
    if (h.values < 0 || (h.type != DICTIONARY_PAGE && h.values > r->left))
        return lvn_parquet_damaged(r, "its pages have more values than the column");
    return h.type == DICTIONARY_PAGE ? read_dictionary(r, &h) : begin_data(r, &h);
}

/* --- values --- */

static const unsigned char booleans[] = {0, 1};

/* Booleans of PLAIN are bits; those of RLE are runs after their size. */
static bool next_booleans(struct lvn_parquet_reader *r)
{
    if (r->encoding == RLE && !r->index_begun) {
        if (!begin_levels(r, &r->index, 1)) return false;
        r->index_begun = true;
    }
    if (r->encoding == RLE && !lvn_hybrid_read(&r->index, r->scratch, r->n_values)) return false;
    for (int64_t i = 0; i < r->n_values; i++) {
        if (r->encoding == PLAIN) {
            if (r->p == r->end) return false;
            r->scratch[i] = *r->p >> r->bit & 1;
            r->p += r->bit == 7;
            r->bit = (r->bit + 1) % 8;
        }
        r->value[i] = (struct lvn_parquet_value){&booleans[r->scratch[i] & 1], 1};
    }
    return true;
}

static bool next_plain(struct lvn_parquet_reader *r)
{
    const int width = number_bytes(r->column);
    if (r->column->type == LVN_PARQUET_BOOLEAN) return next_booleans(r);
    for (int64_t i = 0; i < r->n_values; i++)
        if (!(r->value[i].p = plain(&r->p, r->end, width, &r->value[i].n))) return false;
    return true;
}

/* Whole numbers of 4 bytes are the lower half of those of 8. */
static bool next_numbers(struct lvn_parquet_reader *r)
{
    if (!r->delta_begun && !lvn_delta_begin(&r->length, r->p, r->end)) return false;
    r->delta_begun = true;
    if (!lvn_delta_read(&r->length, r->number, r->n_values)) return false;
    for (int64_t i = 0; i < r->n_values; i++)
        r->value[i] = (struct lvn_parquet_value){(const unsigned char *)&r->number[i], number_bytes(r->column)};
    return true;
}

static bool next_indexed(struct lvn_parquet_reader *r)
{
    if (!r->index_begun) {
        if (r->p == r->end || *r->p > 32) return false;
        r->index = (struct lvn_hybrid){.p = r->p + 1, .end = r->end, .width = *r->p};
        r->index_begun = true;
    }
    if (!lvn_hybrid_read(&r->index, r->scratch, r->n_values)) return false;
    for (int64_t i = 0; i < r->n_values; i++) {
        if (r->scratch[i] >= r->n_dictionary) return false;
        r->value[i] = r->dictionary[r->scratch[i]];
    }
    return true;
}

/* Lengths, then the bytes of all values. */
static bool begin_lengths(struct lvn_parquet_reader *r, const unsigned char *p)
{
    return lvn_delta_begin(&r->length, p, r->end) && lvn_delta_end(&r->length, &r->p);
}

static bool next_lengths(struct lvn_parquet_reader *r)
{
    int32_t *length = (int32_t *)r->scratch;
    if (!r->delta_begun && !begin_lengths(r, r->p)) return false;
    r->delta_begun = true;
    if (!lvn_delta_read_lengths(&r->length, length, r->n_values)) return false;
    for (int64_t i = 0; i < r->n_values; i++) {
        if (length[i] > r->end - r->p) return false;
        r->value[i] = (struct lvn_parquet_value){r->p, length[i]};
        r->p += length[i];
    }
    return true;
}

/* Each value is a beginning of the one before and further bytes. */
static bool next_deltas(struct lvn_parquet_reader *r)
{
    const unsigned char *suffixes;
    if (!r->delta_begun) {
        if (!lvn_delta_begin(&r->prefix, r->p, r->end) || !lvn_delta_end(&r->prefix, &suffixes) ||
            !begin_lengths(r, suffixes))
            return false;
        lvn_text_clear(&r->last);
        r->delta_begun = true;
    }
    lvn_text_clear(&r->built);
    for (int64_t i = 0; i < r->n_values; i++) {
        int32_t prefix, length;
        if (!lvn_delta_read_lengths(&r->prefix, &prefix, 1) || !lvn_delta_read_lengths(&r->length, &length, 1))
            return false;
        if (prefix > r->last.n || length > r->end - r->p || r->built.n > LVN_PARQUET_PAGE) return false;
        r->last.n = prefix;
        if (length) lvn_text_add_bytes(&r->last, r->p, length);
        if (r->last.n) lvn_text_add_bytes(&r->built, r->last.p, r->last.n);
        if (r->last.failed || r->built.failed) return true; /* the caller looks */
        r->p += length;
        r->value[i].n = r->last.n;
    }
    const unsigned char *at = (const unsigned char *)(r->built.p ? r->built.p : "");
    for (int64_t i = 0; i < r->n_values; at += r->value[i++].n) r->value[i].p = at;
    return true;
}

static bool read_levels(struct lvn_parquet_reader *r, struct lvn_hybrid *h, int max, uint8_t *out)
{
    memset(out, 0, (size_t)r->n);
    if (!max) return true;
    if (!lvn_hybrid_read(h, r->scratch, r->n)) return false;
    for (int64_t i = 0; i < r->n; i++) {
        if (r->scratch[i] > (uint32_t)max) return false;
        out[i] = (uint8_t)r->scratch[i];
    }
    return true;
}

enum lvn_status lvn_parquet_reader_next(struct lvn_parquet_reader *r)
{
    const int max_def = r->column->max_def;
    r->n = r->n_values = 0;
    if (!r->left) return LVN_OK;
    while (!r->in_page) LVN_TRY(next_page(r));
    const int64_t most = r->encoding == DELTA_BYTE_ARRAY ? BUILT_VALUES : LVN_PARQUET_BATCH; /* these are copied */
    r->n = r->in_page < most ? r->in_page : most;
    if (!read_levels(r, &r->rep, r->column->max_rep, r->rep_level) || !read_levels(r, &r->def, max_def, r->def_level))
        return lvn_parquet_damaged(r, "the levels of a page are wrong");
    for (int64_t i = 0; i < r->n; i++) r->n_values += r->def_level[i] == max_def;
    r->in_page -= r->n;
    r->left -= r->n;
    const bool good = r->encoding == PLAIN                     ? next_plain(r)
                      : r->encoding == RLE                     ? next_booleans(r)
                      : r->encoding == DELTA_BINARY_PACKED     ? next_numbers(r)
                      : r->encoding == RLE_DICTIONARY          ? next_indexed(r)
                      : r->encoding == DELTA_LENGTH_BYTE_ARRAY ? next_lengths(r)
                                                               : next_deltas(r);
    if (!good) return lvn_parquet_damaged(r, "the values of a page end early, or are wrong");
    LVN_TRY(lvn_text_status(&r->built));
    return lvn_text_status(&r->last);
}

/* --- opening --- */

enum lvn_status lvn_parquet_reader_open(struct lvn_parquet_reader *r, struct lvn_parquet *p, int64_t group, int column)
{
    const struct lvn_parquet_chunk *chunk = &p->chunk[group * p->n_leaves + column];
    memset(r, 0, sizeof *r);
    r->file = p;
    r->column = p->leaf[column];
    r->chunk = chunk;
    r->group = group;
    r->at = chunk->at;
    r->left = chunk->values;
    LVN_CHECK(!chunk->elsewhere && !chunk->encrypted, UNSUPPORTED,
              "'%s', row group %lld, column '%s' is %s: write the file without that", p->name, (long long)group,
              r->column->path, chunk->encrypted ? "encrypted" : "in another file");
    if (chunk->values &&
        (chunk->at < 4 || chunk->bytes < 0 || chunk->at > p->bytes - 8 || chunk->bytes > p->bytes - 8 - chunk->at))
        return lvn_parquet_damaged(r, "its pages are not in the file");
    if (chunk->values < 0 || (!r->column->max_rep && chunk->values != p->rows[group]))
        return lvn_parquet_damaged(r, "it has %lld values for %lld rows", (long long)chunk->values,
                                   (long long)p->rows[group]);
    if (r->column->max_def > LVN_PARQUET_LEVELS || r->column->max_rep > LVN_PARQUET_LEVELS)
        return lvn_parquet_damaged(r, "it is nested more than %d deep", LVN_PARQUET_LEVELS);
    return LVN_OK;
}

void lvn_parquet_reader_close(struct lvn_parquet_reader *r)
{
    free(r->raw);
    free(r->decompressed);
    free(r->dictionary_bytes);
    free(r->dictionary);
    lvn_text_release(&r->built);
    lvn_text_release(&r->last);
}
