/* file_type.c - see file_type.h; the table is file_type.def. */
#include "data/file_type.h"

#include "base/files.h"
#include "base/input.h"
#include "base/text.h"

struct extension_type {
    const char *extension;
    enum lvn_file_type type;
    const char *description;
    const char *reader; /* function of pandas; "": none */
};
static const struct extension_type types[] = {
#define LVN_FILE_TYPE(extension, type, description, reader) {extension, LVN_FILE_TYPE_##type, description, reader},
#include "data/file_type.def"
};
enum { N_TYPES = sizeof types / sizeof types[0] };

static const struct extension_type *find(const char *name, int64_t n)
{
    for (int i = 0; i < N_TYPES; i++) {
        int64_t m = (int64_t)strlen(types[i].extension);
        if (n > m && strncasecmp(name + n - m, types[i].extension, (size_t)m) == 0) return &types[i];
    }
    return NULL;
}

enum lvn_file_type lvn_file_type(const char *name, int64_t n)
{
    const struct extension_type *f = find(name, n);
    return f ? f->type : LVN_FILE_TYPE_UNKNOWN;
}

int64_t lvn_file_uncompressed_name(const char *name)
{
    int64_t all = (int64_t)strlen(name), n = all, first = lvn_path_name(name) - name;
    const struct extension_type *f;
    while ((f = find(name, n)) && f->type == LVN_FILE_TYPE_ARCHIVE) n -= (int64_t)strlen(f->extension);
    return n > first ? n : all;
}

int64_t lvn_file_stem(const char *name)
{
    int64_t all = (int64_t)strlen(name), n = lvn_file_uncompressed_name(name);
    const struct extension_type *f = find(name, n);
    if (n < all) return f ? n - (int64_t)strlen(f->extension) : n; /* v1.2.tar.gz */
    return lvn_path_stem(name);
}

enum lvn_status lvn_file_refuse_name(const char *name)
{
    const int64_t plain = lvn_file_uncompressed_name(name);
    const struct extension_type *f = find(name, plain);
    const bool compressed = f && f->type == LVN_FILE_TYPE_PARQUET && name[plain];
    if (!f || (f->type != LVN_FILE_TYPE_REFUSED && !compressed)) return LVN_OK;
    LVN_CHECK(!name[plain], FORMAT,
              "'%s' is %s that is compressed: unpack it first, with gunzip, unxz, unzstd or bunzip2", name,
              f->description);
    int stem = (int)lvn_file_stem(name);
    LVN_CHECK(
        !*f->reader, FORMAT,
        "'%s' is %s, not text: make lines of JSON of it, and prepare those with the column that holds the text as "
        "--field: python3 -c \"import pandas; pandas.%s('%s').to_json('%.*s.jsonl', orient='records', "
        "lines=True)\"",
        name, f->description, f->reader, name, stem, name);
    LVN_FAIL(FORMAT,
             "'%s' is %s, not text: levin prepares texts (.txt and names without a known extension), lines of JSON "
             "(.jsonl), .parquet, and folders, .tar, .gz, .bz2, .xz and .zst of these",
             name, f->description);
}

enum lvn_status lvn_file_refuse_bytes(const char *name, const void *p, int64_t n, int64_t offset)
{
    if (!offset) LVN_TRY(lvn_input_refuse_pointer(name, p, n)); /* in an archive */
    const char *zero = n ? memchr(p, 0, (size_t)n) : NULL;
    LVN_CHECK(!zero, FORMAT,
              "'%s' is a binary file, not text: it contains a NUL byte at offset %lld; `levin prepare` reads a text in "
              "UTF-16 with a tokenizer and --encoding=utf-16, and iconv -f UTF-16 -t UTF-8 converts it",
              name, (long long)(offset + (zero ? zero - (const char *)p : 0)));
    const int64_t wrong = lvn_utf8_check(p, n);
    LVN_CHECK(wrong < 0, FORMAT,
              "'%s' is not UTF-8 text: byte 0x%02x at offset %lld does not belong to a character; " LVN_UTF8_ADVICE
              "; `levin prepare` does it with --encoding=latin-1, windows-1252 or utf-16",
              name, ((const unsigned char *)p)[wrong], (long long)(offset + wrong));
    return LVN_OK;
}

enum lvn_status lvn_file_refuse_array(const char *path)
{
    LVN_CHECK(!lvn_file_begins_array(path), FORMAT,
              "'%s' is an array of JSON, and levin reads lines of JSON: `jq -c '.[]' %s > %.*s-lines.jsonl` makes "
              "lines of it",
              path, path, (int)lvn_path_stem(path), path);
    return LVN_OK;
}

bool lvn_file_begins_array(const char *path)
{
    char text[256] = "";
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    const char *begin = text + lvn_utf8_bom(text, sizeof text);
    return begin[strspn(begin, " \t\r\n")] == '[';
}
