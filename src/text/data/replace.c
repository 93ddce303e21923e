/* replace.c - see replace.h. */
#include "data/replace.h"

#include "formats/yaml.h"
#include "tokenizers/regex/regex.h"
#include "tokenizers/unicode/unicode.h"

static const char key[] = "data.replace";
enum { MAX_BYTES = 1 << 20, MAX_GROWTH = 16 }; /* bytes of a replaced text, and relative to the original */

struct entry {
    struct lvn_regex *pattern;
    const char *with;
};

struct lvn_replace {
    struct lvn_arena arena;
    struct entry *entry;
    int n;
    struct lvn_regex_scratch scratch;
    struct lvn_text before; /* what the entry reads */
};

/* ARG unless the pattern has a group for each of \1 to \9, and other backslashes are doubled. */
static enum lvn_status check_with(const char *with, int groups, int n)
{
    for (const char *p = with; (p = strchr(p, '\\')); p += 2) {
        LVN_CHECK(p[1] == '\\' || (p[1] >= '1' && p[1] <= '9'), ARG,
                  "%s, entry %d: with has '%.2s' at '%.20s'; a backslash must be followed by the number of a group, 1 "
                  "to 9, or another backslash",
                  key, n, p, p);
        LVN_CHECK(p[1] == '\\' || p[1] - '0' <= groups, ARG,
                  "%s, entry %d: with has '%.2s', and the pattern has %d group%s (..)", key, n, p, groups,
                  lvn_plural(groups));
    }
    return LVN_OK;
}

static enum lvn_status read_entry(struct lvn_replace *r, const struct lvn_yaml *map, int n)
{
    struct entry *e = &r->entry[n - 1];
    const char *pattern = NULL;
    char name[40];
    for (const struct lvn_yaml *y = map->child; y; y = y->next) {
        if (!strcmp(y->key, "pattern"))
            pattern = y->text;
        else if (!strcmp(y->key, "with"))
            e->with = y->text;
        else
            LVN_FAIL(ARG, "%s, entry %d: unknown key '%.60s'; there are pattern and with", key, n, y->key);
    }
    LVN_CHECK(pattern && *pattern, ARG,
              "%s, entry %d: pattern is %s; give a regular expression, as {pattern: '[0-9]+', with: '#'}", key, n,
              pattern ? "empty" : "missing");
    LVN_CHECK(e->with, ARG, "%s, entry %d (%.60s): with is missing; give a text, '' to remove what matches", key, n,
              pattern);
    snprintf(name, sizeof name, "%s, entry %d", key, n);
    const enum lvn_status status = lvn_regex_new(&e->pattern, &r->arena, name, pattern);
    if (status == LVN_UNSUPPORTED) LVN_FAIL(ARG, "%s", levin_error_text());
    LVN_TRY(status);
    return check_with(e->with, lvn_regex_groups(e->pattern), n);
}

static enum lvn_status read_all(struct lvn_replace *r, const char *text)
{
    const struct lvn_yaml *list;
    LVN_TRY(lvn_yaml_value(&r->arena, key, text, &list));
    LVN_CHECK(list->kind == LVN_YAML_LIST, ARG, "%s must be a list of maps, got '%.60s'", key, text);
    r->entry = lvn_arena_alloc(&r->arena, sizeof *r->entry * (size_t)(list->n + 1));
    if (!r->entry) return LVN_MEMORY;
    for (const struct lvn_yaml *y = list->child; y; y = y->next) {
        r->entry[r->n++] = (struct entry){0};
        LVN_TRY(read_entry(r, y, r->n));
    }
    return LVN_OK;
}

enum lvn_status lvn_replace_new(struct lvn_replace **out, const char *text)
{
    *out = NULL;
    if (!text || !*text) return LVN_OK;
    struct lvn_replace *r = lvn_calloc(1, sizeof *r);
    if (!r) return LVN_MEMORY;
    lvn_unicode_init(); /* classes of characters are looked up */
    const enum lvn_status status = read_all(r, text);
    if (status != LVN_OK || !r->n)
        lvn_replace_free(r);
    else
        *out = r;
    return status;
}

void lvn_replace_free(struct lvn_replace *r)
{
    if (!r) return;
    lvn_text_release(&r->before);
    lvn_regex_scratch_release(&r->scratch);
    lvn_arena_release(&r->arena);
    free(r);
}

static void add_with(struct lvn_text *out, const char *with, const char *text, const int64_t *place)
{
    for (const char *p = with; *p;) {
        const int64_t plain = (int64_t)strcspn(p, "\\");
        lvn_text_add_bytes(out, p, plain);
        p += plain;
        if (!*p) return;
        const int64_t *group = p[1] == '\\' ? NULL : place + 2 * (p[1] - '1');
        if (!group)
            lvn_text_add(out, "\\");
        else if (group[1] >= 0) /* a group of an alternative that did not match has nothing */
            lvn_text_add_bytes(out, text + group[0], group[1] - group[0]);
        p += 2;
    }
}

/* FORMAT if the result has more than `max` bytes. */
static enum lvn_status run_entry(struct lvn_replace *r, const struct entry *e, const char *p, int64_t n, int64_t max,
                                 struct lvn_text *out)
{
    lvn_text_clear(out);
    r->scratch.work = 0;
    for (int64_t from = -1, copied = 0, begin, end;; from = copied = end) {
        bool found;
        LVN_TRY(lvn_regex_find(e->pattern, &r->scratch, (const uint8_t *)p, n, from, &found, &begin, &end));
        lvn_text_add_bytes(out, p + copied, (found ? begin : n) - copied);
        if (!found) return lvn_text_status(out);
        add_with(out, e->with, p, r->scratch.place);
        LVN_CHECK(out->n <= max, FORMAT, "the text grows to more than %lld bytes", (long long)max);
        LVN_CHECK(r->scratch.work <= lvn_regex_max_work(n), FORMAT,
                  "the pattern compares a text of %lld bytes again and again, more than 1,000 times", (long long)n);
    }
}

enum lvn_status lvn_replace_run(struct lvn_replace *r, const char *text, int64_t bytes, struct lvn_text *out)
{
    /* An entry reads what the one before has written, so a text could grow exponentially. */
    const int64_t max = MAX_GROWTH * bytes > MAX_BYTES ? MAX_GROWTH * bytes : MAX_BYTES;
    for (int i = 0; i < r->n; i++) {
        if (i) { /* what was written is read next */
            const struct lvn_text written = *out;
            *out = r->before;
            r->before = written;
            text = written.p;
            bytes = written.n;
        }
        const enum lvn_status status = run_entry(r, &r->entry[i], text, bytes, max, out);
        if (status == LVN_FORMAT) LVN_FAIL(FORMAT, "%s, entry %d: %s", key, i + 1, levin_error_text());
        LVN_TRY(status);
    }
    lvn_text_add(out, ""); /* an empty text has memory, too */
    return lvn_text_status(out);
}
