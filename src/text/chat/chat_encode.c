/* chat_encode.c - see chat_encode.h: rendering, the parts of a text that are trained, ids and labels. */
#include "chat/chat_encode.h"

#include "base/log.h"

#include "tokenizers/decoder.h"

enum { IGNORED = -100, MAX_VARIABLES = 64 };

struct lvn_chat_encoder {
    const struct lvn_chat *c;
    struct lvn_encoder *encoder;
    struct lvn_ids ids, prefix; /* of a sample; of its beginning */
};

/* What the template gets: variables, of which the first is the list of messages. */
struct variables {
    const struct lvn_chat_template *chat_template;
    struct lvn_tpl_variable v[MAX_VARIABLES];
    int n;
    const struct tm *now;
};

/* Bytes [begin, end) of a text that are trained. */
struct span {
    int64_t begin, end;
};
/* A text that becomes a sample. */
struct draft {
    struct lvn_rendered text;
    struct span *span; /* by descending position */
    int64_t n;
};

/* --- rendering --- */

static enum lvn_status set_variable(struct variables *v, const char *name, struct lvn_tpl_value value)
{
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->v[i].name, name) == 0) {
            v->v[i].value = value;
            return LVN_OK;
        }
    LVN_CHECK(v->n < MAX_VARIABLES, FORMAT, "chat_template_kwargs has more than %d variables", MAX_VARIABLES - 24);
    v->v[v->n++] = (struct lvn_tpl_variable){name, value};
    return LVN_OK;
}

static enum lvn_status set_json(struct variables *v, struct lvn_arena *a, const char *name, const json_t *json)
{
    struct lvn_tpl_value value = {.kind = LVN_TPL_NONE};
    if (json) LVN_TRY(lvn_tpl_value_of_json(a, json, LVN_MARK_CONTENT, &value));
    return set_variable(v, name, value);
}

static enum lvn_status set_variables(const struct lvn_chat *c, struct lvn_arena *a, const struct lvn_chat_input *input,
                                     struct variables *v)
{
    static const char *const reserved[] = {"messages", "tools", "documents", "add_generation_prompt"};
    struct lvn_tpl_value messages;
    const char *key;
    json_t *value;
    v->n = 0;
    v->now = &c->now;
    v->chat_template = input->tools && c->with_tools ? c->with_tools : c->chat_template;
    LVN_TRY(lvn_tpl_value_of_messages(a, input->messages, &messages));
    LVN_TRY(set_variable(v, "messages", messages));
    LVN_TRY(set_json(v, a, "tools", input->tools));
    LVN_TRY(set_json(v, a, "documents", input->documents));
    for (int i = 0; i < c->n_tokens; i++) LVN_TRY(set_variable(v, c->token[i].name, c->token[i].value));
    json_object_foreach((json_t *)input->variables, key, value)
    {
        for (int i = 0; i < 4; i++)
            LVN_CHECK(strcmp(key, reserved[i]) != 0, FORMAT, "chat_template_kwargs cannot set '%s'", key);
        LVN_TRY(set_json(v, a, key, value));
    }
    return LVN_OK;
}

static enum lvn_status render(struct variables *v, struct lvn_arena *a, int64_t n, bool generation_prompt,
                              struct lvn_rendered *out)
{
    int64_t all = v->v[0].value.n;
    LVN_TRY(
        set_variable(v, "add_generation_prompt", (struct lvn_tpl_value){.kind = LVN_TPL_BOOL, .b = generation_prompt}));
    v->v[0].value.n = n;
    enum lvn_status status = lvn_chat_template_render(v->chat_template, a, v->v, v->n, v->now, NULL, out);
    v->v[0].value.n = all;
    return status;
}

enum lvn_status lvn_chat_render(const struct lvn_chat *c, struct lvn_arena *a, const struct lvn_chat_input *input,
                                int64_t n, bool generation_prompt, struct lvn_rendered *out)
{
    struct variables *v = lvn_arena_alloc(a, sizeof *v);
    if (!v) return LVN_MEMORY;
    LVN_TRY(set_variables(c, a, input, v));
    return render(v, a, n, generation_prompt, out);
}

/* --- what is trained --- */

static bool begins_with(const struct lvn_rendered *text, const struct lvn_rendered *beginning)
{
    return beginning->n <= text->n && memcmp(text->text, beginning->text, (size_t)beginning->n) == 0;
}

/* The spans that {% generation %} marks. */
static enum lvn_status marked_spans(struct lvn_arena *a, struct draft *d)
{
    int64_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        for (int64_t i = d->text.n - 1, end = -1; i >= 0; i--) {
            bool in = d->text.marks[i] & LVN_MARK_GENERATION;
            if (in && end < 0) end = i + 1;
            bool first = in && (i == 0 || !(d->text.marks[i - 1] & LVN_MARK_GENERATION));
            if (!first) continue;
            if (pass) d->span[n] = (struct span){i, end};
            n++;
            end = -1;
        }
        if (!pass && !(d->span = lvn_arena_alloc(a, (size_t)(n + 1) * sizeof *d->span))) return LVN_MEMORY;
    }
    d->n = n;
    return LVN_OK;
}

/* The draft that begins with this conversation, or a new one with its text. */
static enum lvn_status draft_of(struct lvn_arena *a, struct draft *drafts, int64_t *n, const struct lvn_rendered *text,
                                int64_t spans, struct draft **out)
{
    for (int64_t i = 0; i < *n; i++)
        if (begins_with(&drafts[i].text, text)) {
            *out = &drafts[i];
            return LVN_OK;
        }
    *out = &drafts[(*n)++];
    **out = (struct draft){.text = *text, .span = lvn_arena_alloc(a, (size_t)spans * sizeof(struct span))};
    return (*out)->span ? LVN_OK : LVN_MEMORY;
}

/* Without {% generation %}: an answer is what the text of the conversation up to it has in addition to the prompt for
 * it. From the last answer to the first, so that the longest texts come first. */
static enum lvn_status prefix_spans(struct variables *v, struct lvn_arena *a, const struct lvn_chat_row *row,
                                    const char *always, struct draft *drafts, int64_t *n)
{
    int64_t n_always = (int64_t)strlen(always);
    for (int64_t i = row->n - 1; i >= 0; i--) {
        struct lvn_rendered prompt, with_answer;
        struct draft *d;
        if (!row->is_trained[i]) continue;
        LVN_TRY(render(v, a, i, true, &prompt));
        if (i + 1 < row->n)
            LVN_TRY(render(v, a, i + 1, false, &with_answer));
        else
            with_answer = drafts->text;
        LVN_CHECK(
            begins_with(&with_answer, &prompt), UNSUPPORTED,
            "message %lld: the template does not continue its prompt for an answer with the answer, so the answer "
            "cannot be found in the text; use a template with {%% generation %%}",
            (long long)i + 1);
        if (n_always && with_answer.n - prompt.n >= n_always && lvn_ends_with(with_answer.text, always))
            with_answer.n -= n_always;
        LVN_TRY(draft_of(a, drafts, n, &with_answer, row->n, &d));
        d->span[d->n++] = (struct span){prompt.n, with_answer.n};
    }
    return LVN_OK;
}

static bool is_answer(const struct lvn_chat_row *row, int64_t i)
{
    const json_t *message = json_array_get(row->messages, (size_t)i);
    return strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
}

/* Copy the messages without their tool calls. */
static enum lvn_status without_calls(const json_t *messages, json_t **out)
{
    const long begun = lvn_json_begin();
    json_t *list = *out = json_array();
    const json_t *message;
    size_t i;
    json_array_foreach((json_t *)messages, i, message)
    {
        json_t *copy = json_copy((json_t *)message);
        json_object_del(copy, "tool_calls");
        json_object_del(copy, "function_call");
        json_array_append_new(list, copy);
    }
    return lvn_json_check(begun);
}

/* *same: would the text of a conversation be the same with another value of a variable? */
static enum lvn_status try_without(const struct variables *v, struct lvn_arena *a, const char *name,
                                   struct lvn_tpl_value value, const struct lvn_rendered *text, bool *same)
{
    struct lvn_rendered other;
    struct variables *w = lvn_arena_alloc(a, sizeof *w);
    if (!w) return LVN_MEMORY;
    *w = *v;
    LVN_TRY(set_variable(w, name, value));
    const enum lvn_status status = render(w, a, w->v[0].value.n, false, &other);
    if (status == LVN_MEMORY) return status;
    *same = status == LVN_OK && strcmp(other.text, text->text) == 0;
    lvn_error_clear();
    return LVN_OK;
}

/* Does the rendered text lack a message? Only roles that the template did not write in a test conversation are checked
 * (lvn_chat.unwritten), because a template may change the text of a message. */
static bool loses_message(const struct lvn_chat_row *row, const struct lvn_rendered *text)
{
    for (int64_t i = 0; i < row->n; i++) {
        const json_t *message = json_array_get(row->messages, (size_t)i);
        const char *content = json_string_value(json_object_get(message, "content"));
        if (content && lvn_chat_row_lacks(row, json_string_value(json_object_get(message, "role"))) &&
            !strstr(text->text, content))
            return true;
    }
    return false;
}

/* Refuse a trained answer whose tool calls the template does not write. Set row->loses_tools
 * if it does not write other tool calls, the tools, or messages. */
static enum lvn_status check_tools(const struct variables *v, struct lvn_arena *a, struct lvn_chat_row *row,
                                   const struct lvn_rendered *text)
{
    struct lvn_tpl_value value = {.kind = LVN_TPL_NONE};
    bool calls = false, same = false;
    if (row->tools) LVN_TRY(try_without(v, a, "tools", value, text, &row->loses_tools));
    row->loses_tools |= loses_message(row, text);
    for (int64_t i = 0; i < row->n; i++) calls |= lvn_chat_has_calls(json_array_get(row->messages, (size_t)i));
    if (!calls) return LVN_OK;
    json_t *messages;
    enum lvn_status status = without_calls(row->messages, &messages);
    if (status == LVN_OK) status = lvn_tpl_value_of_messages(a, messages, &value);
    if (status == LVN_OK) status = try_without(v, a, "messages", value, text, &same);
    json_decref(messages);
    LVN_TRY(status);
    for (int64_t i = 0; i < row->n && same; i++) {
        const json_t *message = json_array_get(row->messages, (size_t)i);
        const bool older = !json_object_get(message, "tool_calls");
        LVN_CHECK(!row->is_trained[i] || !lvn_chat_has_calls(message), UNSUPPORTED,
                  "message %lld has %s, which the template does not write, so the answer would be trained "
                  "without %s: use a data.template that writes %s%s",
                  (long long)i + 1, older ? "a function_call" : "tool_calls", older ? "it" : "them",
                  older ? "it" : "them", older ? ", or tool_calls instead" : "");
    }
    row->loses_tools |= same;
    return LVN_OK;
}

/* The error of a template that reads the content of a message that has tool calls alone. */
static enum lvn_status name_calls(const struct lvn_chat_row *row, enum lvn_status status)
{
    for (int64_t i = 0; i < row->n && strstr(levin_error_text(), "'content' is undefined"); i++) {
        const json_t *message = json_array_get(row->messages, (size_t)i);
        if (json_object_get(message, "content") || !lvn_chat_has_calls(message)) continue;
        lvn_error_clear();
        return lvn_fail(status,
                        "message %lld has %s and no content, which the template requires: use a data.template that "
                        "writes tool_calls, or leave such rows out",
                        (long long)i + 1, json_object_get(message, "tool_calls") ? "tool_calls" : "a function_call");
    }
    return status;
}

static enum lvn_status make_drafts(struct lvn_chat_encoder *e, struct lvn_arena *a, struct lvn_chat_row *row,
                                   struct draft **out, int64_t *n)
{
    const struct lvn_chat *c = e->c;
    const json_t *settings = json_object_get(row->source, "chat_template_kwargs");
    struct variables *v = lvn_arena_alloc(a, sizeof *v);
    struct draft *drafts = lvn_arena_alloc(a, ((size_t)row->n + 1) * sizeof *drafts);
    if (!v || !drafts) return LVN_MEMORY;
    if (json_is_null(settings)) settings = NULL;
    LVN_CHECK(!settings || json_is_object(settings), FORMAT, "'chat_template_kwargs' is not an object");
    struct lvn_chat_input input = {row->messages, row->tools, row->documents, settings};
    LVN_TRY(set_variables(c, a, &input, v));
    bool last = c->train_on == LVN_TRAIN_ON_LAST_ANSWER,
         generation = lvn_chat_template_has_generation(v->chat_template);
    for (int64_t i = row->n - 1, seen = 0; i >= 0; i--) {
        bool answer = is_answer(row, i);
        if (last && seen) row->is_trained[i] = false;
        if (generation && answer && !row->is_trained[i]) lvn_tpl_exclude(&v->v[0].value, i);
        seen += answer;
    }
    *out = drafts;
    *n = 1;
    const enum lvn_status status = render(v, a, row->n, false, &drafts->text);
    if (status != LVN_OK) return name_calls(row, status);
    LVN_TRY(check_tools(v, a, row, &drafts->text));
    if (c->train_on == LVN_TRAIN_ON_ALL) {
        if (!(drafts->span = lvn_arena_alloc(a, sizeof *drafts->span))) return LVN_MEMORY;
        drafts->span[drafts->n++] = (struct span){0, drafts->text.n};
        return LVN_OK;
    }
    if (generation) return marked_spans(a, drafts);
    if (!(drafts->span = lvn_arena_alloc(a, ((size_t)row->n + 1) * sizeof *drafts->span))) return LVN_MEMORY;
    LVN_TRY(prefix_spans(v, a, row, c->prompt, drafts, n));
    if (!drafts->n && *n > 1) { /* the whole conversation has no answer as the model sees it */
        ++*out;
        --*n;
    }
    return LVN_OK;
}

/* --- ids and labels --- */

/* Set at[i] to the first byte of id i of the text, at[n] to its end. False: the tokens are not the text's bytes. */
static bool align(const struct lvn_chat_encoder *e, const struct lvn_rendered *text, int64_t *at)
{
    int64_t p = 0;
    for (int64_t i = 0; i < e->ids.n; i++) {
        int64_t n;
        const char *token = lvn_token_bytes(e->c->tokenizer, e->ids.p[i], &n);
        at[i] = p;
        if (!token) return false;
        bool same = n <= text->n - p && memcmp(token, text->text + p, (size_t)n) == 0;
        if (!same && p == 0 && n && *token == ' ') { /* the space that SentencePiece puts before a text */
            n--;
            same = n <= text->n && memcmp(token + 1, text->text, (size_t)n) == 0;
        }
        if (!same) return false;
        p += n;
    }
    at[e->ids.n] = p;
    return p == text->n;
}

/* Number of ids that are complete before byte `cut`, by encoding the text before it. *whole: no id crosses the cut. */
static enum lvn_status ids_before(struct lvn_chat_encoder *e, const struct lvn_rendered *text, int64_t cut, int64_t *n,
                                  bool *whole)
{
    int64_t special;
    e->prefix.n = 0;
    LVN_TRY(lvn_encode_marked(e->encoder, text->text, cut, text->marks, &e->prefix, &special));
    for (*n = 0; *n < e->prefix.n && *n < e->ids.n && e->prefix.p[*n] == e->ids.p[*n];) ++*n;
    *whole = *n == e->prefix.n;
    return LVN_OK;
}

/* The ids [*first, *end) that have a byte of the span. */
static enum lvn_status ids_of_span(struct lvn_chat_encoder *e, const struct lvn_rendered *text, const int64_t *at,
                                   struct span s, int64_t *first, int64_t *end)
{
    bool whole;
    if (at) {
        int64_t low = 0, high = e->ids.n; /* the first id that ends after the beginning */
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (at[middle + 1] > s.begin)
                high = middle;
            else
                low = middle + 1;
        }
        for (*first = *end = low; *end < e->ids.n && at[*end] < s.end;) ++*end;
        return LVN_OK;
    }
    LVN_TRY(ids_before(e, text, s.begin, first, &whole));
    LVN_TRY(ids_before(e, text, s.end, end, &whole));
    if (!whole && *end < e->ids.n) ++*end;
    return LVN_OK;
}

static enum lvn_status encode_draft(struct lvn_chat_encoder *e, struct lvn_arena *a, const struct draft *d,
                                    struct lvn_chat_sample *out)
{
    const struct lvn_rendered *text = &d->text;
    int64_t special = 0, recognized;
    e->ids.n = 0;
    LVN_TRY(lvn_encode_marked(e->encoder, text->text, text->n, text->marks, &e->ids, &recognized));
    int64_t n = e->ids.n, first, end, *at = lvn_arena_alloc(a, (size_t)(n + 1) * sizeof *at);
    *out = (struct lvn_chat_sample){.text = *text, .n = n};
    out->ids = lvn_arena_alloc(a, 2 * (size_t)(n + 1) * sizeof *out->ids);
    if (!at || !out->ids) return LVN_MEMORY;
    out->labels = out->ids + n;
    if (n) memcpy(out->ids, e->ids.p, (size_t)n * sizeof *out->ids);
    for (int64_t i = 0; i < n; i++) {
        out->labels[i] = IGNORED;
        special += e->c->is_special[out->ids[i]] && out->ids[i] != e->c->tokenizer->unknown; /* [UNK] is special */
    }
    LVN_CHECK(special <= recognized, UNSUPPORTED,
              "the tokenizer makes a special token out of text that the template did not write");
    bool aligned = align(e, text, at);
    for (int64_t k = 0; k < d->n; k++) {
        LVN_TRY(ids_of_span(e, text, aligned ? at : NULL, d->span[k], &first, &end));
        for (int64_t i = first; i < end; i++) out->labels[i] = out->ids[i];
    }
    for (int64_t i = 0; i < n; i++) out->n_labels += out->labels[i] != IGNORED;
    return LVN_OK;
}

/* A list of token ids; ignored: -100 is allowed. */
static enum lvn_status read_ids(const struct lvn_chat *c, const json_t *list, const char *name, bool ignored,
                                int32_t *out)
{
    size_t i;
    const json_t *one;
    json_array_foreach((json_t *)list, i, one)
    {
        const double real = json_number_value(one); /* pandas stores ids as reals where a column has gaps */
        const int64_t id = fabs(real) < INT32_MAX && real == floor(real) ? (int64_t)real : -1;
        const bool ok = json_is_number(one) && ((id >= 0 && id < c->tokenizer->n) || (ignored && id == IGNORED));
        LVN_CHECK(ok, FORMAT, "entry %zu of '%s' is not an id of the tokenizer, which has %lld tokens%s", i + 1, name,
                  (long long)c->tokenizer->n, ignored ? ", nor -100" : "");
        out[i] = (int32_t)id;
    }
    return LVN_OK;
}

/* A member of a row of n ids; may be absent. */
static enum lvn_status check_size(const json_t *list, const char *name, size_t n)
{
    LVN_CHECK(!list || json_is_null(list) || (json_is_array(list) && json_array_size(list) == n), FORMAT,
              "'%s' must be a list with one entry for each of 'input_ids', %zu", name, n);
    return LVN_OK;
}

/* Members by which rows of several documents are recognized: lengths of the documents, their bounds, or the index of
 * each token's document. n_if_one: length of the list if the row is one document; 0: then all its entries are equal. */
static const struct {
    const char *name;
    size_t n_if_one;
} packed[] = {{"seq_lengths", 1},  {"cu_seqlens", 2},  {"cu_seq_lens_q", 2}, {"seq_idx", 0},
              {"sequence_ids", 0}, {"sequence_id", 0}, {"segment_ids", 0},   {"document_ids", 0}};

static bool is_packed(const json_t *list, size_t n_if_one)
{
    size_t i;
    const json_t *one;
    if (n_if_one) return json_array_size(list) > n_if_one;
    json_array_foreach((json_t *)list, i, one) if (!json_equal(one, json_array_get(list, 0))) return true;
    return false;
}

/* Rows of ids have one document and no padding: attention_mask is 1 everywhere, position_ids are 0, 1, 2 ... */
static enum lvn_status check_one_document(const json_t *row, size_t n)
{
    const json_t *mask = json_object_get(row, "attention_mask"), *positions = json_object_get(row, "position_ids"),
                 *one;
    size_t i;
    LVN_TRY(check_size(mask, "attention_mask", n));
    LVN_TRY(check_size(positions, "position_ids", n));
    json_array_foreach((json_t *)mask, i, one) LVN_CHECK(
        json_is_true(one) || json_number_value(one) == 1, FORMAT,
        "entry %zu of 'attention_mask' is not 1: leave out the padding, of 'input_ids' and 'labels' too", i + 1);
    json_array_foreach((json_t *)positions, i, one)
        LVN_CHECK(json_is_number(one) && json_number_value(one) == (double)i, FORMAT,
                  "entry %zu of 'position_ids' is not %zu: give each document its own row, and let data.pack pack "
                  "them",
                  i + 1, i);
    for (size_t k = 0; k < sizeof packed / sizeof *packed; k++)
        LVN_CHECK(!is_packed(json_object_get(row, packed[k].name), packed[k].n_if_one), FORMAT,
                  "'%s' has several documents: give each document its own row, and let data.pack pack them",
                  packed[k].name);
    return LVN_OK;
}

/* FORMAT if the label of each token is the next token, and not the token itself. */
static enum lvn_status check_shift(const struct lvn_chat_sample *s)
{
    bool next = false, differs = false;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->labels[i] == IGNORED) continue;
        if (i + 1 < s->n && s->labels[i] != s->ids[i + 1]) return LVN_OK;
        next |= i + 1 < s->n;
        differs |= s->labels[i] != s->ids[i];
    }
    LVN_CHECK(!next || !differs, FORMAT,
              "'labels' are those of the next tokens: label i must be id i (or -100), since levin shifts them");
    return LVN_OK;
}

static enum lvn_status copy_ids(struct lvn_chat_encoder *e, struct lvn_arena *a, const json_t *row,
                                struct lvn_chat_sample *out)
{
    const json_t *ids = json_object_get(row, "input_ids"), *labels = json_object_get(row, "labels");
    bool all = e->c->train_on == LVN_TRAIN_ON_ALL;
    LVN_CHECK(json_is_array(ids) && json_array_size(ids), FORMAT, "'input_ids' is not a list of token ids");
    if (json_is_null(labels)) labels = NULL;
    LVN_CHECK(labels || all, FORMAT, "the row has input_ids without labels, which say what is trained");
    size_t n = json_array_size(ids);
    LVN_TRY(check_size(labels, "labels", n));
    LVN_TRY(check_one_document(row, n));
    out->n = (int64_t)n;
    out->ids = lvn_arena_alloc(a, 2 * n * sizeof *out->ids);
    if (!out->ids) return LVN_MEMORY;
    out->labels = out->ids + n;
    LVN_TRY(read_ids(e->c, ids, "input_ids", false, out->ids));
    LVN_TRY(read_ids(e->c, labels ? labels : ids, "labels", labels != NULL, out->labels));
    for (size_t i = 0; i < n; i++) out->n_labels += out->labels[i] != IGNORED;
    return check_shift(out);
}

struct lvn_chat_encoder *lvn_chat_encoder_new(const struct lvn_chat *c)
{
    struct lvn_chat_encoder *e = lvn_calloc(1, sizeof *e);
    if (!e) return NULL;
    e->c = c;
    e->encoder = lvn_encoder_new(c->tokenizer);
    if (e->encoder) return e;
    free(e);
    return NULL;
}

void lvn_chat_encoder_free(struct lvn_chat_encoder *e)
{
    if (!e) return;
    lvn_encoder_free(e->encoder);
    lvn_ids_release(&e->ids);
    lvn_ids_release(&e->prefix);
    free(e);
}

static enum lvn_status encode_row(struct lvn_chat_encoder *e, struct lvn_arena *a, struct lvn_chat_row *row,
                                  struct lvn_chat_samples *out)
{
    struct draft *drafts = NULL;
    out->n = 1;
    if (row->form != LVN_CHAT_IDS) LVN_TRY(make_drafts(e, a, row, &drafts, &out->n));
    out->loses_tools = row->loses_tools;
    out->n_empty = row->n_empty;
    out->other_role = row->other_role;
    out->two_systems = row->two_systems;
    out->p = lvn_arena_alloc(a, (size_t)out->n * sizeof *out->p);
    if (!out->p) return LVN_MEMORY;
    if (!drafts) return copy_ids(e, a, row->source, out->p);
    for (int64_t i = 0; i < out->n; i++) /* in the order of the conversation */
        LVN_TRY(encode_draft(e, a, &drafts[out->n - 1 - i], &out->p[i]));
    return LVN_OK;
}

enum lvn_status lvn_chat_encode(struct lvn_chat_encoder *e, struct lvn_arena *a, const json_t *source,
                                enum lvn_chat_form *form, struct lvn_chat_samples *out)
{
    struct lvn_chat_row row;
    enum lvn_status status = lvn_chat_row_read(&row, a, source, e->c);
    *form = row.form;
    *out = (struct lvn_chat_samples){0};
    if (status == LVN_OK && row.form != LVN_CHAT_IDS) status = lvn_chat_require_template(e->c);
    if (status == LVN_OK) status = encode_row(e, a, &row, out);
    lvn_chat_row_release(&row);
    return status;
}

/* --- generation --- */

static enum lvn_status encode_text(struct lvn_chat_encoder *e, struct lvn_arena *a, const struct lvn_rendered *text,
                                   int32_t **ids, int64_t *n)
{
    int64_t recognized;
    e->ids.n = 0;
    LVN_TRY(lvn_encode_marked(e->encoder, text->text, text->n, text->marks, &e->ids, &recognized));
    *n = e->ids.n;
    *ids = lvn_arena_alloc(a, ((size_t)*n + 1) * sizeof **ids);
    if (!*ids) return LVN_MEMORY;
    if (*n) memcpy(*ids, e->ids.p, (size_t)*n * sizeof **ids);
    return LVN_OK;
}

static enum lvn_status prompt_of(struct lvn_chat_encoder *e, struct lvn_arena *a, const struct lvn_chat_row *row,
                                 int32_t **ids, int64_t *n)
{
    struct lvn_rendered text;
    LVN_CHECK(row->form != LVN_CHAT_IDS, FORMAT, "the row has token ids, and no messages that could be answered");
    LVN_CHECK(!is_answer(row, row->n - 1), FORMAT, "message %lld, the last one, is an answer already",
              (long long)row->n);
    struct lvn_chat_input input = {row->messages, row->tools, row->documents,
                                   json_object_get(row->source, "chat_template_kwargs")};
    LVN_TRY(lvn_chat_render(e->c, a, &input, row->n, true, &text));
    return encode_text(e, a, &text, ids, n);
}

enum lvn_status lvn_chat_prompt(struct lvn_chat_encoder *e, struct lvn_arena *a, const json_t *source, int32_t **ids,
                                int64_t *n)
{
    struct lvn_chat_row row;
    enum lvn_status status = lvn_chat_row_read(&row, a, source, e->c);
    if (row.two_systems) lvn_log_once(LVN_LOG_WARN, "a row has " LVN_CHAT_TWO_SYSTEMS);
    if (status == LVN_OK) status = prompt_of(e, a, &row, ids, n);
    lvn_chat_row_release(&row);
    return status;
}

enum lvn_status lvn_chat_end(struct lvn_chat_encoder *e, struct lvn_arena *a, int64_t *id, const char **text)
{
    static const char
        *const answer = "levin-text",
               *const talk =
                   "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"levin-text\"}]";
    struct lvn_rendered r;
    json_t *messages;
    int32_t *ids;
    int64_t n;
    *id = -1;
    *text = "";
    LVN_TRY(lvn_json_parse("a conversation", talk, (int64_t)strlen(talk), &messages));
    struct lvn_chat_input input = {.messages = messages};
    enum lvn_status status = lvn_chat_render(e->c, a, &input, 2, false, &r);
    json_decref(messages);
    LVN_TRY(status);
    char *end = strstr(r.text, answer);
    if (!end) return LVN_OK;
    end += strlen(answer);
    end += strspn(end, " \t\r\n");
    const struct lvn_rendered rest = {.text = end, .n = r.n - (end - r.text), .marks = r.marks + (end - r.text)};
    LVN_TRY(encode_text(e, a, &rest, &ids, &n));
    if (n && e->c->is_special[ids[0]]) {
        *id = ids[0];
        return LVN_OK;
    }
    char *copy = lvn_arena_strdup(a, end);
    if (!copy) return LVN_MEMORY;
    for (size_t k = strlen(copy); k && strchr(" \t\r\n", copy[k - 1]);) copy[--k] = 0;
    *text = copy;
    return LVN_OK;
}
