/* tokenize_chat.c - levin tokenize --chat: prints the text, ids and labels of conversations, a JSON object per line.
 *
 * A row that cannot be used becomes an object with its error; the command then fails at the end. */

#include "cli/tokenize/tokenize_chat.h"
#include "base/files.h"
#include "cli/cli.h"
#include "data/parquet_texts.h"
#include "data/texts/chat_rows.h"
#include "host/machine.h"

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

enum lvn_status lvn_cli_tokenize_chat(struct lvn_cli *c, const struct lvn_tokenizer *t)
{
    struct lvn_chat_options o = {.chat_template = c->flag[LVN_FLAG_tokenize_template].t};
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
