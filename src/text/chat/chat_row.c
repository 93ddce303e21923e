/* chat_row.c - see chat_row.h. */
#include "chat/chat_row.h"

#include "chat/chat.h"
#include "formats/json_scan.h"

const char *lvn_chat_form_text(enum lvn_chat_form form)
{
    static const char *const texts[] = {"messages", "conversations", "input_ids", "prompt + completion",
                                        "instruction + output"};
    return texts[form];
}

static enum lvn_status add_message(struct lvn_chat_row *row, const char *role, const json_t *content)
{
    json_t *message = json_pack("{s:s, s:O}", "role", role, "content", (json_t *)content);
    if (message && json_array_append_new(row->messages, message) == 0) return LVN_OK;
    return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
}

static enum lvn_status member_text(const json_t *object, const char *key, bool required, const json_t **out)
{
    *out = json_object_get(object, key);
    if (json_is_null(*out)) *out = NULL;
    LVN_CHECK(*out || !required, FORMAT, "the row has no '%s'", key);
    LVN_CHECK(!*out || json_is_string(*out), FORMAT, "'%s' is not a text", key);
    return LVN_OK;
}

/* --- the forms --- */

/* Is a content, a text or a list of parts, this text, but for white space at its ends? */
static bool is_text(const json_t *content, const char *text)
{
    LVN_LOCAL_TEXT(joined);
    const json_t *part;
    size_t i;
    json_array_foreach((json_t *)content, i, part) lvn_text_add(
        &joined, json_is_string(json_object_get(part, "text")) ? json_string_value(json_object_get(part, "text")) : "");
    const char *other = json_is_string(content)      ? json_string_value(content)
                        : joined.failed || !joined.p ? ""
                                                     : joined.p;
    size_t n = strlen(text += strspn(text, " \t\r\n")), n_other = strlen(other += strspn(other, " \t\r\n"));
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    while (n_other && strchr(" \t\r\n", other[n_other - 1])) n_other--;
    return n == n_other && memcmp(text, other, n) == 0;
}

/* The text of `system` or `system_prompt` is the first message, unless the row has a message of the system. */
static enum lvn_status add_system(struct lvn_chat_row *row, const char *name)
{
    const json_t *one, *first = json_array_get(row->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    LVN_TRY(member_text(row->source, name, false, &one));
    if (!one || !json_string_length(one)) return LVN_OK;
    if (role && strcmp(role, "system") == 0) {
        row->two_systems |= !is_text(json_object_get(first, "content"), json_string_value(one));
        return LVN_OK;
    }
    json_t *message = json_pack("{s:s, s:O}", "role", "system", "content", (json_t *)one);
    if (message && json_array_insert_new(row->messages, 0, message) == 0) return LVN_OK;
    return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
}

const char *const lvn_chat_roles[] = {"human", "function", "ipython", "developer", "system", "tool"};

bool lvn_chat_row_lacks(const struct lvn_chat_row *row, const char *role)
{
    for (int i = 0; i < LVN_CHAT_ROLES; i++)
        if (strcmp(role, lvn_chat_roles[i]) == 0) return row->unwritten[i];
    return false;
}

/* ShareGPT's tool call is the text of an object, or of a list of objects, with name and arguments. */
static enum lvn_status set_calls(json_t *message, const json_t *text, size_t number)
{
    json_t *calls, *list = json_array(), *one;
    json_error_t error;
    size_t i;
    const char *p = json_is_string(text) ? json_string_value(text) : "";
    const long begun = lvn_json_begin();
    enum lvn_status status = lvn_json_load(p, (int64_t)strlen(p), 0, &calls, &error);
    if (json_is_object(calls)) calls = json_pack("[o]", calls);
    bool good = json_array_size(calls) > 0;
    json_array_foreach(calls, i, one)
    {
        good = good && json_is_string(json_object_get(one, "name"));
        json_array_append_new(list, json_pack("{s:s, s:O}", "type", "function", "function", one));
    }
    json_decref(calls);
    json_object_set_new(message, "tool_calls", list);
    if (status == LVN_OK) status = lvn_json_check(begun);
    LVN_CHECK(status != LVN_OK || good, FORMAT,
              "message %zu is from 'function_call', but its value is not the text of a JSON object, or of a list of "
              "objects, with name and arguments",
              number);
    return status;
}

/* Rename the members `from` and `value` of a ShareGPT message to `role` and `content`. Some rows have ShareGPT's names
 * of senders, or others that the template does not write, in `role`. */
static enum lvn_status rename_sender(const struct lvn_chat_row *row, json_t *message, size_t number)
{
    static const char *const names[][2] = {
        {"human", "user"},          {"user", "user"},       {"gpt", "assistant"},
        {"assistant", "assistant"}, {"model", "assistant"}, {"chatgpt", "assistant"},
        {"bing", "assistant"},      {"bard", "assistant"},  {"system", "system"},
        {"developer", "system"},    {"tool", "tool"},       {"function", "tool"},
        {"observation", "tool"},    {"ipython", "tool"},    {"function_call", "assistant"}};
    const char *from = json_string_value(json_object_get(message, "from")), *role = NULL;
    json_t *value = json_object_get(message, "value");
    const char *own = json_string_value(json_object_get(message, "role"));
    if (own && (strcmp(own, "gpt") == 0 || lvn_chat_row_lacks(row, own)))
        from = own;
    else if (!from || own)
        return LVN_OK;
    const size_t n = sizeof names / sizeof *names;
    LVN_LOCAL_TEXT(known);
    for (size_t k = 0; k < n; k++)
        if (strcmp(names[k][0], from) == 0) role = names[k][1];
    for (size_t k = 0; !role && k < n; k++) lvn_text_printf(&known, "%s%s", k ? ", " : "", names[k][0]);
    LVN_TRY(lvn_text_status(&known));
    LVN_CHECK(role, FORMAT, "message %zu is from '%.40s'; known are %s", number, from, known.p);
    int failed = json_object_set_new(message, "role", json_string(role));
    if (!strcmp(from, "function_call"))
        LVN_TRY(set_calls(message, value, number));
    else if (value && !json_object_get(message, "content"))
        failed = failed || json_object_set(message, "content", value);
    if (failed) return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
    json_object_del(message, "from");
    json_object_del(message, "value");
    return LVN_OK;
}

static enum lvn_status append_messages(struct lvn_chat_row *row, const json_t *list, const char *name)
{
    size_t i;
    const json_t *one;
    LVN_CHECK(json_is_array(list), FORMAT, "'%s' is not a list of messages", name);
    json_array_foreach((json_t *)list, i, one)
    {
        LVN_CHECK(json_is_object(one), FORMAT, "message %zu of '%s' is not an object with role and content", i + 1,
                  name);
        json_t *copy = json_copy((json_t *)one);
        if (!copy || json_array_append_new(row->messages, copy) != 0)
            return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
        LVN_TRY(rename_sender(row, copy, i + 1));
    }
    return LVN_OK;
}

static enum lvn_status read_prompt(struct lvn_chat_row *row)
{
    const json_t *prompt = json_object_get(row->source, "prompt"),
                 *completion = json_object_get(row->source, "completion");
    LVN_CHECK(completion, FORMAT, "the row has a prompt, but no completion");
    LVN_CHECK(json_is_string(prompt) == json_is_string(completion), FORMAT,
              "prompt and completion must be both texts or both lists of messages");
    if (json_is_string(prompt)) {
        LVN_TRY(add_message(row, "user", prompt));
        return add_message(row, "assistant", completion);
    }
    LVN_TRY(append_messages(row, prompt, "prompt"));
    return append_messages(row, completion, "completion");
}

/* Is it an empty text, or that of Python's None? */
static bool has_no_value(const json_t *value)
{
    return json_is_string(value) && (is_text(value, "") || is_text(value, "null") || is_text(value, "None"));
}

/* `history`: pairs of an earlier question and its answer. */
static enum lvn_status add_history(struct lvn_chat_row *row)
{
    const json_t *history = json_object_get(row->source, "history"), *pair;
    size_t i;
    LVN_CHECK(!history || json_is_null(history) || json_is_array(history) || has_no_value(history), FORMAT,
              "'history' is not a list");
    json_array_foreach((json_t *)history, i, pair)
    {
        const json_t *question = json_array_get(pair, 0), *answer = json_array_get(pair, 1);
        LVN_CHECK(json_array_size(pair) == 2 && json_is_string(question) && json_is_string(answer), FORMAT,
                  "entry %zu of 'history' is not a pair of a question and its answer", i + 1);
        LVN_TRY(add_message(row, "user", question));
        LVN_TRY(add_message(row, "assistant", answer));
    }
    return LVN_OK;
}

static enum lvn_status read_instruction(struct lvn_chat_row *row)
{
    const json_t *instruction, *input, *output;
    LVN_TRY(member_text(row->source, "instruction", true, &instruction));
    LVN_TRY(member_text(row->source, "input", false, &input));
    LVN_TRY(member_text(row->source, "output", false, &output));
    if (!output) { /* as Dolly */
        if (!input) LVN_TRY(member_text(row->source, "context", false, &input));
        LVN_TRY(member_text(row->source, "response", false, &output));
    }
    LVN_CHECK(output, FORMAT, "the row has no 'output'");
    LVN_TRY(add_history(row));
    if (!input || !json_string_length(input)) {
        LVN_TRY(add_message(row, "user", instruction));
    } else if (!json_string_length(instruction)) {
        LVN_TRY(add_message(row, "user", input));
    } else {
        json_t *both = json_sprintf("%s\n\n%s", json_string_value(instruction), json_string_value(input));
        if (!both) return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
        enum lvn_status status = add_message(row, "user", both);
        json_decref(both);
        LVN_TRY(status);
    }
    return add_message(row, "assistant", output);
}

/* --- messages --- */

/* The texts of a list of parts, joined; refuses other parts. */
static enum lvn_status check_parts(json_t *message, size_t number, bool join)
{
    const json_t *content = json_object_get(message, "content"), *part;
    LVN_LOCAL_TEXT(joined);
    size_t i;
    if (!json_is_array(content)) return LVN_OK;
    json_array_foreach((json_t *)content, i, part)
    {
        const json_t *text = json_object_get(part, "text");
        const char *type = lvn_json_type(part);
        LVN_CHECK(json_is_string(text) && (strcmp(type, "text") == 0 || !json_object_get(part, "type")), FORMAT,
                  "message %zu has a part of type '%.40s'; only text is supported", number, type);
        lvn_text_add_bytes(&joined, json_string_value(text), (int64_t)json_string_length(text));
    }
    if (!join) return LVN_OK;
    LVN_TRY(lvn_text_status(&joined));
    if (json_object_set_new(message, "content", json_stringn(joined.p ? joined.p : "", (size_t)joined.n)) != 0)
        return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
    return LVN_OK;
}

/* As transformers: members that are null are left out; the reasoning has the names reasoning_content and thinking. */
static enum lvn_status rename_members(json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const char *key;
    json_t *value, *reasoning = NULL;
    void *next;
    json_object_foreach_safe(message, next, key, value)
    {
        if (json_is_null(value)) json_object_del(message, key);
    }
    for (int i = 0; i < 3 && !reasoning; i++) reasoning = json_object_get(message, names[i]);
    if (!reasoning) return LVN_OK;
    int failed = json_object_get(message, "thinking") ? 0 : json_object_set(message, "thinking", reasoning);
    failed = failed || json_object_set(message, "reasoning_content", reasoning);
    if (failed) return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
    return LVN_OK;
}

/* Remove the members of a message that say whether it is trained: levin's, OpenAI's, and those of other trainers. If
 * one of the latter has another type or value, it means something else and stays. */
static enum lvn_status take_training(json_t *message, size_t number, bool answer, bool *trained)
{
    static const char *const marks[] = {"train", "weight", "loss", "loss_mask", "trainable", "training"};
    *trained = answer;
    for (size_t k = 0; k < sizeof marks / sizeof *marks; k++) {
        const json_t *mark = json_object_get(message, marks[k]);
        if (!mark || json_is_null(mark)) continue;
        const double value = json_is_boolean(mark) ? json_is_true(mark) : json_number_value(mark);
        const bool other = k >= 2,
                   known = (json_is_boolean(mark) || json_is_number(mark)) && (value == 0 || value == 1);
        if (other && !known) continue;
        LVN_CHECK(known, FORMAT, "message %zu: '%s' must be true or false, or 1 or 0", number, marks[k]);
        LVN_CHECK(answer || other || value == 0, FORMAT,
                  "message %zu is to be trained, but only answers of the assistant are", number);
        *trained = *trained && value == 1;
        json_object_del(message, marks[k]);
    }
    return LVN_OK;
}

/* Replace arguments of tool calls that are the text of an object, as in OpenAI's files, by this object. */
static enum lvn_status parse_arguments(json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls"), *call, *object;
    json_error_t error;
    size_t i;
    if (!calls) return LVN_OK;
    const long begun = lvn_json_begin();
    calls = json_deep_copy(calls);
    if (json_object_set_new(message, "tool_calls", calls) != 0)
        return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function");
        const json_t *text = json_object_get(function ? function : call, "arguments");
        if (!json_is_string(text)) continue;
        LVN_TRY(lvn_json_scan_load(json_string_value(text), (int64_t)json_string_length(text), &object, &error));
        if (json_is_object(object)) json_object_set(function ? function : call, "arguments", object);
        json_decref(object);
    }
    return lvn_json_check(begun);
}

bool lvn_chat_has_calls(const json_t *message)
{
    return json_array_size(json_object_get(message, "tool_calls")) ||
           json_is_string(json_object_get(json_object_get(message, "function_call"), "name"));
}

/* Do common templates have this role? An unknown one may be a misspelled `assistant`. */
static bool knows_role(const char *role)
{
    bool known = !strcmp(role, "assistant") || !strcmp(role, "user");
    for (int i = 0; i < LVN_CHAT_ROLES; i++) known |= !strcmp(role, lvn_chat_roles[i]);
    return known;
}

static enum lvn_status check_messages(struct lvn_chat_row *row, struct lvn_arena *a, const struct lvn_chat *c)
{
    size_t i, n = json_array_size(row->messages);
    json_t *message;
    LVN_CHECK(n, FORMAT, "the conversation has no messages");
    row->n = (int64_t)n;
    row->is_trained = lvn_arena_alloc(a, n);
    if (!row->is_trained) return LVN_MEMORY;
    json_array_foreach(row->messages, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        LVN_CHECK(role, FORMAT, "message %zu has no role", i + 1);
        bool answer = strcmp(role, "assistant") == 0;
        if (!knows_role(role) && !row->other_role && !(row->other_role = lvn_arena_strdup(a, role))) return LVN_MEMORY;
        LVN_TRY(take_training(message, i + 1, answer, &row->is_trained[i]));
        LVN_TRY(rename_members(message));
        const json_t *content = json_object_get(message, "content");
        LVN_CHECK(!content || json_is_string(content) || json_is_array(content), FORMAT,
                  "message %zu: 'content' is neither a text nor a list of parts", i + 1);
        LVN_CHECK(content || lvn_chat_has_calls(message) || json_object_get(message, "tool_calls") ||
                      json_object_get(message, "reasoning_content"),
                  FORMAT, "message %zu has no content", i + 1);
        LVN_TRY(check_parts(message, i + 1, c->joins_parts));
        if (c->parses_arguments) LVN_TRY(parse_arguments(message));
        row->n_answers += answer;
        row->n_empty += row->is_trained[i] && is_text(content, "") && !lvn_chat_has_calls(message) &&
                        !json_object_get(message, "reasoning_content");
    }
    return LVN_OK;
}

/* Read a list, or the text of one; *out NULL: the row has none. */
static enum lvn_status read_list(const json_t *source, const char *name, json_t **out)
{
    const json_t *value = json_object_get(source, name);
    json_error_t error;
    if (!value || json_is_null(value) || has_no_value(value)) return LVN_OK;
    if (!json_is_string(value))
        *out = json_incref((json_t *)value);
    else
        LVN_TRY(lvn_json_load(json_string_value(value), (int64_t)json_string_length(value), 0, out, &error));
    LVN_CHECK(*out, FORMAT, "'%s' is a text that is no JSON: %s", name, error.text);
    LVN_CHECK(json_is_array(*out), FORMAT, "'%s' is not a list", name);
    return LVN_OK;
}

/* `tools`, or OpenAI's older `functions`, of which tools are made. */
static enum lvn_status read_tools(struct lvn_chat_row *row)
{
    const json_t *functions = json_object_get(row->source, "functions"), *one;
    size_t i;
    LVN_TRY(read_list(row->source, "tools", &row->tools));
    if (json_array_size(row->tools)) return LVN_OK;
    json_decref(row->tools);
    row->tools = NULL;
    if (!json_is_string(json_object_get(json_array_get(functions, 0), "name"))) return LVN_OK;
    row->tools = json_array();
    json_array_foreach((json_t *)functions, i, one)
        json_array_append_new(row->tools, json_pack("{s:s, s:O}", "type", "function", "function", (json_t *)one));
    return LVN_OK;
}

static bool has_member(const struct lvn_chat_row *row, const char *name)
{
    const json_t *value = json_object_get(row->source, name);
    return value && !json_is_null(value);
}

/* FORMAT for a row whose good answer is missing or bad, and for one about images or sounds: its text alone would teach
 * something else. */
static enum lvn_status check_purpose(const struct lvn_chat_row *row)
{
    static const char *const media[] = {"images", "image", "videos", "audios"};
    const json_t *last = json_array_get(row->messages, json_array_size(row->messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    const bool has_answer =
                   role ? !strcmp(role, "assistant")
                        : has_member(row, "completion") || has_member(row, "output") || has_member(row, "response"),
               has_rejected = has_member(row, "rejected"), has_chosen = has_member(row, "chosen");
    LVN_CHECK(has_answer || (!has_rejected && !has_chosen), FORMAT,
              "the row has '%s', a preference, and levin trains on answers alone: rename the good answer to "
              "'completion', beside a 'prompt', or to 'messages'",
              has_rejected ? "rejected" : "chosen");
    LVN_CHECK(
        !json_is_false(json_object_get(row->source, "label")), FORMAT,
        "the row's label is false, a preference, and levin trains on good answers alone: leave such rows out, or set "
        "data.skip_bad_rows");
    for (size_t i = 0; i < sizeof media / sizeof *media; i++) {
        const json_t *one = json_object_get(row->source, media[i]);
        LVN_CHECK(
            !json_array_size(one) && !json_object_size(one) && !json_string_length(one), FORMAT,
            "the row has '%s', and levin trains on text alone: leave such rows out, or set data.skip_bad_rows; if "
            "the answers do not depend on it, remove this member",
            media[i]);
    }
    return LVN_OK;
}

enum lvn_status lvn_chat_row_read(struct lvn_chat_row *row, struct lvn_arena *a, const json_t *source,
                                  const struct lvn_chat *c)
{
    static const char *const keys[] = {"messages", "conversations", "input_ids", "prompt", "instruction"};
    const json_t *value = NULL;
    const long begun = lvn_json_begin();
    *row = (struct lvn_chat_row){.source = source, .form = LVN_CHAT_FORMS, .unwritten = c->unwritten};
    for (int i = 0; i < LVN_CHAT_FORMS && !value; i++) {
        value = json_object_get(source, keys[i]);
        if (json_is_null(value)) value = NULL;
        if (value) row->form = (enum lvn_chat_form)i;
    }
    if (row->form == LVN_CHAT_IDS) return LVN_OK;
    row->messages = json_array();
    if (!row->messages) return lvn_fail(LVN_MEMORY, "not enough memory for a conversation");
    if (row->form == LVN_CHAT_MESSAGES) LVN_TRY(append_messages(row, value, "messages"));
    if (row->form == LVN_CHAT_CONVERSATIONS) LVN_TRY(append_messages(row, value, "conversations"));
    LVN_TRY(check_purpose(row));
    LVN_CHECK(
        value, FORMAT,
        "the row has none of messages, conversations, prompt and completion, instruction and output, or input_ids");
    if (row->form == LVN_CHAT_PROMPT) LVN_TRY(read_prompt(row));
    if (row->form == LVN_CHAT_INSTRUCTION) LVN_TRY(read_instruction(row));
    const size_t n = json_array_size(row->messages);
    LVN_TRY(add_system(row, "system"));
    LVN_TRY(add_system(row, "system_prompt"));
    const size_t before = json_array_size(row->messages) - n; /* 0 or 1 */
    LVN_TRY(check_messages(row, a, c));
    if (row->form == LVN_CHAT_PROMPT && !json_is_string(value)) /* answers of the prompt are not trained */
        for (size_t i = 0; i < json_array_size(value); i++) row->is_trained[before + i] = false;
    LVN_TRY(read_list(source, "documents", &row->documents));
    LVN_TRY(read_tools(row));
    return lvn_json_check(begun); /* copies may lack members */
}

void lvn_chat_row_release(struct lvn_chat_row *row)
{
    json_decref(row->messages);
    json_decref(row->tools);
    json_decref(row->documents);
    row->messages = row->tools = row->documents = NULL;
}
