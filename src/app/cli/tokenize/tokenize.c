/* tokenize.c - levin tokenize: encodes standard input as token ids, decodes ids, or prints the text, ids and labels of
 * conversations. */
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/threads.h"
#include "cli/cli.h"
#include "cli/model_arg.h"
#include "data/parquet_texts.h"
#include "data/texts/chat_rows.h"
#include "formats/json.h"
#include "host/machine.h"
#include "tokenizers/decoder.h"
#include "tokenizers/encoder.h"
#include "tokenizers/encoders.h"

enum { CHUNK_BYTES = 32 << 20 };

/* --- ids to bytes --- */

static bool separates(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Digit by digit: there may be millions of ids, and sscanf() may scan the whole rest of the text for each. */
static enum lvn_status parse_list(const char *text, int64_t n, struct lvn_ids *ids)
{
    const char *p = text;
    LVN_CHECK((int64_t)strlen(text) == n, ARG, "--decode: standard input contains a NUL byte");
    while (separates(*p)) p++;
    while (*p) {
        const char *start = p;
        int64_t id = 0;
        for (; *p >= '0' && *p <= '9' && id <= INT32_MAX; p++) id = id * 10 + (*p - '0');
        LVN_CHECK(p != start && id <= INT32_MAX && (!*p || separates(*p)), ARG,
                  "--decode must be token ids separated by commas, as 1,2,3; got '%.60s'", start);
        LVN_TRY(lvn_ids_reserve(ids, 1));
        ids->p[ids->n++] = (int32_t)id;
        while (separates(*p)) p++;
    }
    return LVN_OK;
}

static enum lvn_status read_all(struct lvn_text *text)
{
    char part[1 << 16];
    for (ssize_t got; (got = read(STDIN_FILENO, part, sizeof part)) != 0;) {
        if (got < 0 && errno == EINTR) continue;
        LVN_CHECK(got > 0, IO, "cannot read standard input: %s", strerror(errno));
        lvn_text_add_bytes(text, part, got);
    }
    return lvn_text_status(text);
}

static enum lvn_status decode(struct lvn_cli *c, const struct lvn_tokenizer *t)
{
    const char *list = c->flag[LVN_FLAG_tokenize_decode].t;
    struct lvn_text input = {0}, text = {0};
    struct lvn_ids ids = {0};
    enum lvn_status status = strcmp(list, "-") != 0 ? LVN_OK : read_all(&input);
    if (status == LVN_OK && strcmp(list, "-") != 0) status = parse_list(list, (int64_t)strlen(list), &ids);
    if (status == LVN_OK && input.n) status = parse_list(lvn_text_string(&input), input.n, &ids);
    if (status == LVN_OK) status = lvn_decode(t, ids.p, ids.n, &text);
    if (status == LVN_OK && c->json) {
        bool whole = lvn_utf8_check(text.p, text.n) < 0; /* JSON holds Unicode only: other bytes become numbers */
        json_t *bytes = whole ? NULL : json_array();
        for (int64_t i = 0; bytes && i < text.n; i++)
            json_array_append_new(bytes, json_integer((unsigned char)text.p[i]));
        lvn_cli_add(c, whole ? "text" : "bytes", whole ? json_stringn(text.p ? text.p : "", (size_t)text.n) : bytes);
    } else if (status == LVN_OK && text.n) {
        fwrite(text.p, 1, (size_t)text.n, stdout);
    }
    lvn_ids_release(&ids);
    lvn_text_release(&text);
    lvn_text_release(&input);
    return status;
}

/* --- bytes to ids --- */

static void print_ids(const struct lvn_ids *ids, char separator, bool *first)
{
    char text[4096 + 16];
    size_t n = 0;
    for (int64_t i = 0; i < ids->n; i++) {
        char digits[12];
        int k = 12;
        int32_t id = ids->p[i];
        do digits[--k] = (char)('0' + id % 10);
        while (id /= 10);
        if (!*first) text[n++] = separator;
        *first = false;
        memcpy(text + n, digits + k, (size_t)(12 - k));
        n += (size_t)(12 - k);
        if (n < 4096) continue;
        fwrite(text, 1, n, stdout);
        n = 0;
    }
    fwrite(text, 1, n, stdout);
}

/* Encode standard input in chunks. Bytes at the end of a chunk that the following text may change wait for it. */
static enum lvn_status encode_input(struct lvn_encoders *e, char separator, bool *first)
{
    int64_t capacity = CHUNK_BYTES, n = 0;
    char *text = lvn_malloc((size_t)capacity);
    enum lvn_status status = text ? LVN_OK : LVN_MEMORY;
    for (bool more = true; more && status == LVN_OK;) {
        while (n < capacity && more) {
            ssize_t got = read(STDIN_FILENO, text + n, (size_t)(capacity - n));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) {
                status = lvn_fail(LVN_IO, "cannot read standard input: %s", strerror(errno));
                break;
            }
            n += got;
            more = got > 0;
        }
        int64_t used = 0;
        if (status == LVN_OK) status = lvn_encoders_run(e, text, n, more, LVN_ENCODE_SPECIAL, &used);
        for (int64_t i = 0; status == LVN_OK && i < e->n_slices; i++) print_ids(&e->slice[i], separator, first);
        if (used) memmove(text, text + used, (size_t)(n - used));
        n -= used;
        if (status == LVN_OK && more && n > capacity / 2) {
            char *larger = lvn_realloc(text, (size_t)capacity * 2);
            if (!larger) status = LVN_MEMORY;
            if (larger) text = larger;
            capacity *= 2;
        }
    }
    free(text);
    return status;
}

static enum lvn_status encode(struct lvn_cli *c, const struct lvn_tokenizer *t)
{
    struct lvn_encoders e;
    bool first = true, json = c->json;
    LVN_TRY(lvn_encoders_open(&e, t, lvn_threads_default()));
    if (json) fputs("{\"ids\":[", stdout);
    enum lvn_status status = encode_input(&e, json ? ',' : ' ', &first);
    lvn_encoders_close(&e);
    if (json) { /* ids are printed as they come; main.c has nothing left to print */
        LVN_LOCAL_TEXT(error);
        long begun = lvn_json_begin();
        json_t *sentence = status == LVN_OK ? NULL : json_string(levin_error_text());
        if (sentence) lvn_json_add(&error, begun, sentence, 0);
        fputs("]", stdout);
        if (sentence && !error.failed) printf(",\"error\":%s", error.p);
        fputs("}\n", stdout);
        json_decref(sentence);
        json_decref(c->json);
        c->json = NULL;
    } else if (status == LVN_OK && !first) {
        putchar('\n');
    }
    return status;
}

/* --- conversations: an object of JSON for each line --- */

enum { ERROR_BYTES = 600 };

struct printed {
    int64_t n_read, n_bad;
    char first_error[ERROR_BYTES];
};

static void add_ids(struct lvn_text *t, const char *key, const int32_t *ids, int64_t n)
{
    char part[4096 + 16];
    int used = 0;
    lvn_text_printf(t, ",\"%s\":[", key);
    for (int64_t i = 0; i < n; i++) {
        char digits[12];
        int k = 12;
        uint32_t id = (uint32_t)(ids[i] < 0 ? -ids[i] : ids[i]);
        do digits[--k] = (char)('0' + id % 10);
        while (id /= 10);
        if (i) part[used++] = ',';
        if (ids[i] < 0) part[used++] = '-';
        memcpy(part + used, digits + k, (size_t)(12 - k));
        used += 12 - k;
        if (used < 4096) continue;
        lvn_text_add_bytes(t, part, used);
        used = 0;
    }
    lvn_text_add_bytes(t, part, used);
    lvn_text_add(t, "]");
}

static enum lvn_status add_string(struct lvn_text *t, const char *key, const char *text, int64_t n)
{
    long begun = lvn_json_begin();
    json_t *string = json_stringn(text, (size_t)n);
    lvn_text_printf(t, "\"%s\":", key);
    if (string) lvn_json_add(t, begun, string, 0);
    json_decref(string);
    return string ? LVN_OK : lvn_fail(LVN_MEMORY, "not enough memory for a text");
}

/* The objects of a row. */
static enum lvn_status write_row(struct lvn_text *out, int64_t line, const struct lvn_chat_samples *samples)
{
    if (samples->two_systems) lvn_log_once(LVN_LOG_WARN, "a row has " LVN_CHAT_TWO_SYSTEMS);
    for (int64_t i = 0; i < samples->n; i++) {
        const struct lvn_chat_sample *s = &samples->p[i];
        lvn_text_printf(out, "{\"line\":%" PRId64 ",", line);
        if (s->text.text)
            LVN_TRY(add_string(out, "text", s->text.text, s->text.n));
        else
            lvn_text_add(out, "\"text\":null");
        add_ids(out, "ids", s->ids, s->n);
        add_ids(out, "labels", s->labels, s->n);
        lvn_text_add(out, "}\n");
    }
    return LVN_OK;
}

static enum lvn_status print_row(void *context, int64_t line, const struct lvn_text *written, const char *error)
{
    struct printed *p = context;
    LVN_LOCAL_TEXT(object);
    p->n_read++;
    if (!error) {
        if (written->n) fwrite(written->p, 1, (size_t)written->n, stdout);
        return LVN_OK;
    }
    if (!p->n_bad++) snprintf(p->first_error, sizeof p->first_error, "%s", error);
    lvn_text_printf(&object, "{\"line\":%" PRId64 ",", line);
    LVN_TRY(add_string(&object, "error", error, (int64_t)strlen(error)));
    lvn_text_add(&object, "}\n");
    LVN_TRY(lvn_text_status(&object));
    fwrite(object.p, 1, (size_t)object.n, stdout);
    return LVN_OK;
}

static enum lvn_status read_rows(struct lvn_chat_rows *rows, const char *path)
{
    char *text;
    int64_t bytes;
    lvn_chat_rows_begin(rows, path);
    if (lvn_is_parquet(path)) {
        LVN_TRY(lvn_chat_rows_check(path));
        LVN_TRY(lvn_chat_rows_parquet(rows, path));
    } else {
        LVN_TRY(lvn_input_read(strcmp(path, "-") ? path : "/dev/stdin", 0, &text, &bytes));
        const enum lvn_status status = lvn_chat_rows_data(rows, text, bytes);
        free(text);
        LVN_TRY(status);
    }
    return lvn_chat_rows_end(rows);
}

static enum lvn_status print_file(const struct lvn_chat *chat, const char *path, struct printed *printed)
{
    struct lvn_chat_rows_options o = {
        .chat = chat, .n_threads = lvn_threads_default(), .context = printed, .write = write_row, .each = print_row};
    struct lvn_chat_rows *rows;
    LVN_TRY(lvn_chat_rows_new(&rows, &o));
    const enum lvn_status status = read_rows(rows, path);
    lvn_chat_rows_free(rows);
    LVN_TRY(status);
    LVN_CHECK(printed->n_read, FORMAT, "'%s' has no conversations", path);
    LVN_CHECK(!printed->n_bad, FORMAT, "%" PRId64 " of %" PRId64 " conversations cannot be used; the first: %s",
              printed->n_bad, printed->n_read, printed->first_error);
    return LVN_OK;
}

static enum lvn_status tokenize_chat(struct lvn_cli *c, const struct lvn_tokenizer *t)
{
    struct lvn_chat_options o = {.chat_template = c->flag[LVN_FLAG_tokenize_template].t, .reads_ids = true};
    const char *train_on = c->flag[LVN_FLAG_tokenize_train_on].t, *path = c->flag[LVN_FLAG_tokenize_chat].t;
    struct lvn_chat *chat;
    LVN_CHECK(c->json, ARG, "levin tokenize --chat prints JSON: add --json");
    LVN_CHECK(!c->given[LVN_FLAG_tokenize_decode], ARG, "--chat and --decode exclude each other");
    LVN_CHECK(!c->given[LVN_FLAG_tokenize_allow_special], ARG,
              "--allow-special does not apply to --chat: only the template writes special tokens");
    LVN_CHECK(lvn_train_on_of(train_on, &o.train_on), ARG, "--train-on must be answers, last_answer or all, not '%s'",
              train_on);
    LVN_TRY(lvn_chat_open(&chat, t, &o));
    struct printed printed = {0};
    enum lvn_status status = print_file(chat, path, &printed);
    lvn_chat_close(chat);
    if (!printed.n_read) return status; /* an error alone is printed as the object of --json */
    json_decref(c->json);
    c->json = NULL;
    return status;
}

/* --- the command --- */

static enum lvn_status allow(struct lvn_tokenizer *t, const char *names)
{
    while (*names) {
        char name[256];
        size_t n = strcspn(names, ",");
        LVN_CHECK(n < sizeof name, ARG, "--allow-special: '%.60s' is too long for the name of a token", names);
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        LVN_TRY(lvn_tokenizer_allow(t, name));
        names += n + (names[n] == ',');
    }
    return LVN_OK;
}

enum lvn_status lvn_command_tokenize(struct lvn_cli *c)
{
    struct lvn_tokenizer *t;
    const char *path = c->flag[LVN_FLAG_tokenize_tokenizer].t;
    LVN_CHECK(*path, ARG, "levin tokenize needs --tokenizer=FILE_OR_DIR, as --tokenizer=DIR/vocab.bpe");
    for (int i = 0; i < 2 && !c->given[LVN_FLAG_tokenize_chat]; i++)
        LVN_CHECK(!c->given[i ? LVN_FLAG_tokenize_train_on : LVN_FLAG_tokenize_template], ARG,
                  "--%s has an effect only with --chat", i ? "train-on" : "template");
    LVN_TRY(lvn_cli_tokenizer(c, path, &t));
    enum lvn_status status = allow(t, c->flag[LVN_FLAG_tokenize_allow_special].t);
    bool chat = c->given[LVN_FLAG_tokenize_chat], ids = c->given[LVN_FLAG_tokenize_decode];
    if (status == LVN_OK) status = chat ? tokenize_chat(c, t) : ids ? decode(c, t) : encode(c, t);
    lvn_tokenizer_close(t);
    return status;
}
