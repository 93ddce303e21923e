/* chat.c - see chat.h: finds the template and the named tokens of a tokenizer. */
#include "chat/chat.h"

#include "base/files.h"
#include "chat/chat_encode.h"
#include "formats/checksum.h"
#include "tokenizers/tokenizer_config.h"

static const struct {
    const char *name, *text;
} builtin[] = {
#define LVN_CHAT_TEMPLATE(name, text) {#name, text},
#include "chat/chat_templates.def"
};

bool lvn_train_on_of(const char *name, enum lvn_train_on *out)
{
    static const char *const names[] = {"answers", "last_answer", "all"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum lvn_train_on)i;
            return true;
        }
    return false;
}

static const struct lvn_tokenizer_file *find_file(const struct lvn_tokenizer *t, const char *name)
{
    for (int i = 0; i < t->n_files; i++)
        if (strcmp(t->file[i].name, name) == 0) return &t->file[i];
    return NULL;
}

/* Parse a template, which becomes part of c->sum. */
static enum lvn_status parse(struct lvn_chat *c, const char *where, const char *text, int64_t n,
                             struct lvn_chat_template **out)
{
    c->sum = lvn_checksum(text, n) + 31 * c->sum;
    c->has_human |= memmem(text, (size_t)n, "human", strlen("human")) != NULL;
    return lvn_chat_template_parse(out, where, text, n);
}

static enum lvn_status parse_file(struct lvn_chat *c, const char *path, struct lvn_chat_template **out)
{
    char *text;
    int64_t bytes;
    enum { LARGEST = 4 << 20 };
    LVN_TRY(lvn_file_read(path, LARGEST, &text, &bytes));
    enum lvn_status status = parse(c, path, text, bytes, out);
    c->template_name = lvn_arena_strdup(&c->arena, path);
    c->given = lvn_arena_strdup(&c->arena, text);
    free(text);
    return status == LVN_OK && (!c->template_name || !c->given) ? LVN_MEMORY : status;
}

bool lvn_chat_template_is_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (!strcmp(builtin[i].name, name)) return true;
    return false;
}

static enum lvn_status parse_given(struct lvn_chat *c, const char *name)
{
    LVN_LOCAL_TEXT(names);
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++) {
        lvn_text_printf(&names, "%s%s", i ? ", " : "", builtin[i].name);
        if (strcmp(builtin[i].name, name) != 0) continue;
        c->template_name = builtin[i].name;
        c->given = builtin[i].text;
        return parse(c, builtin[i].name, builtin[i].text, (int64_t)strlen(builtin[i].text), &c->chat_template);
    }
    LVN_CHECK(lvn_path_is_file(name), ARG, "the chat template '%s' is neither a file nor a built-in template (%s)",
              name, names.p ? names.p : "");
    return parse_file(c, name, &c->chat_template);
}

/* chat_template of tokenizer_config.json: a text, or a list of templates with names, of which `default` and `tool_use`
 * are used, as in transformers, unless files have replaced them. */
static enum lvn_status parse_config(struct lvn_chat *c, const json_t *value, const char *where)
{
    if (json_is_string(value))
        return parse(c, where, json_string_value(value), (int64_t)json_string_length(value), &c->chat_template);
    size_t i;
    const json_t *one;
    json_array_foreach((json_t *)value, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const json_t *text = json_object_get(one, "template");
        bool tools = name && strcmp(name, "tool_use") == 0;
        struct lvn_chat_template **to = tools ? &c->with_tools : &c->chat_template;
        if (!name || !json_is_string(text) || *to || (!tools && strcmp(name, "default") != 0)) continue;
        LVN_TRY(parse(c, where, json_string_value(text), (int64_t)json_string_length(text), to));
    }
    return LVN_OK;
}

static enum lvn_status read_tokens(struct lvn_chat *c, json_t *tokens)
{
    const char *key;
    json_t *text;
    json_object_foreach(tokens, key, text)
    {
        LVN_CHECK(
            c->n_tokens < LVN_CHAT_TOKENS, UNSUPPORTED,
            "the tokenizer '%s' names more than %d special tokens (bos_token, eos_token, ...) for its chat template",
            c->tokenizer->path, LVN_CHAT_TOKENS);
        struct lvn_tpl_variable *to = &c->token[c->n_tokens];
        char *copy = lvn_arena_strdup(&c->arena, json_string_value(text));
        to->name = lvn_arena_strdup(&c->arena, key);
        if (!copy || !to->name) return LVN_MEMORY;
        to->value = (struct lvn_tpl_value){.kind = LVN_TPL_STRING, .p = copy, .n = (int64_t)strlen(copy)};
        c->sum = lvn_checksum(copy, to->value.n) + 31 * c->sum;
        c->n_tokens++;
    }
    return LVN_OK;
}

static enum lvn_status read_files(struct lvn_chat *c, const char *given)
{
    static const char name[] = "tokenizer_config.json";
    const struct lvn_tokenizer_file *config = find_file(c->tokenizer, name);
    const struct lvn_tokenizer_file *jinja = find_file(c->tokenizer, "chat_template.jinja");
    const struct lvn_tokenizer_file *tools = find_file(c->tokenizer, "additional_chat_templates/tool_use.jinja");
    char *where = lvn_arena_printf(&c->arena, "chat_template of %s", c->tokenizer->path);
    if (!where) return LVN_MEMORY;
    if (given && *given) LVN_TRY(parse_given(c, given));
    if (!c->chat_template && tools) LVN_TRY(parse(c, where, tools->text, tools->bytes, &c->with_tools));
    if (!c->chat_template && jinja) LVN_TRY(parse(c, where, jinja->text, jinja->bytes, &c->chat_template));
    json_t *object;
    enum lvn_status status = lvn_tokenizer_named(c->tokenizer, &object);
    if (status == LVN_OK) status = read_tokens(c, object);
    json_decref(object);
    LVN_TRY(status);
    if (config) {
        LVN_TRY(lvn_json_parse(name, config->text, config->bytes, &object));
        const json_t *value = json_object_get(object, "chat_template");
        if (value && !c->chat_template) status = parse_config(c, value, where);
        json_decref(object);
        LVN_TRY(status);
    }
    if (!c->template_name) c->template_name = where;
    return LVN_OK;
}

enum lvn_status lvn_chat_require_template(const struct lvn_chat *c)
{
    LVN_CHECK(c->chat_template, ARG,
              "'%s' has no chat template; name one: a built-in template (such as chatml or llama3) or a file",
              c->tokenizer->path);
    return LVN_OK;
}

/* Render a conversation; tools may be NULL; the text is "" if the template refuses it. */
static enum lvn_status try_text(struct lvn_chat *c, struct lvn_arena *a, const char *messages, json_t *tools,
                                bool prompt, struct lvn_rendered *r)
{
    json_t *list;
    LVN_TRY(lvn_json_parse("a conversation", messages, (int64_t)strlen(messages), &list));
    struct lvn_chat_input input = {.messages = list, .tools = tools};
    enum lvn_status status = lvn_chat_render(c, a, &input, (int64_t)json_array_size(list), prompt, r);
    json_decref(list);
    if (status == LVN_MEMORY) return status;
    if (status != LVN_OK) *r = (struct lvn_rendered){.text = ""};
    lvn_error_clear();
    return LVN_OK;
}

/* Set c->joins_parts unless the template supports a list of text parts. A template that does not support it fails, or
 * writes the list as Python prints it. */
static enum lvn_status try_parts(struct lvn_chat *c)
{
    static const char *const parts =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"levin-text\"}]}]";
    LVN_LOCAL_ARENA(a);
    struct lvn_rendered r;
    LVN_TRY(try_text(c, &a, parts, NULL, false, &r));
    c->joins_parts =
        !strstr(r.text, "levin-text") || strstr(r.text, "'levin-text'") || strstr(r.text, "\"levin-text\"");
    return LVN_OK;
}

/* Set c->parses_arguments if the template writes an object as JSON, and the JSON text of the same object differently
 * (as a quoted string). It stays false for templates for text alone, which refuse an object or print it as Python does.
 */
static enum lvn_status try_arguments(struct lvn_chat *c)
{
    static const char *const values[] = {"\"{\\\"levin-key\\\": 1}\"", "{\"levin-key\": 1}"};
    struct lvn_rendered with[2];
    LVN_LOCAL_ARENA(a);
    json_t *tools = json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}]", "type", "function", "function", "name", "f",
                              "description", "x", "parameters", "type", "object", "properties");
    enum lvn_status status = tools ? LVN_OK : lvn_fail(LVN_MEMORY, "not enough memory to try a chat template");
    for (int i = 0; i < 2 && status == LVN_OK; i++) {
        char messages[300];
        snprintf(messages, sizeof messages,
                 "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"\", "
                 "\"tool_calls\": [{\"id\": \"levin0001\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
                 "\"arguments\": %s}}]}]",
                 values[i]);
        status = try_text(c, &a, messages, tools, false, &with[i]);
    }
    json_decref(tools);
    LVN_TRY(status);
    c->parses_arguments = strcmp(with[0].text, with[1].text) != 0 && strstr(with[1].text, "levin-key") &&
                          !strstr(with[1].text, "'levin-key'");
    return LVN_OK;
}

/* Set c->prompt. Some templates, such as the first one of Llama 3, write the beginning of an answer after every
 * conversation. This text is also the text of an empty conversation. It is not part of the answer before it. */
static enum lvn_status find_prompt(struct lvn_chat *c)
{
    static const char *const question = "[{\"role\": \"user\", \"content\": \"levin-text\"}]";
    LVN_LOCAL_ARENA(a);
    struct lvn_rendered with, without, empty;
    c->prompt = "";
    LVN_TRY(try_text(c, &a, question, NULL, true, &with));
    LVN_TRY(try_text(c, &a, question, NULL, false, &without));
    LVN_TRY(try_text(c, &a, "[]", NULL, false, &empty));
    if (strcmp(with.text, without.text) != 0) return LVN_OK;
    const char *text = empty.text;
    for (int i = 0; i < c->n_tokens; i++) {
        size_t n = (size_t)c->token[i].value.n;
        if (strcmp(c->token[i].name, "bos_token") == 0 && strncmp(text, c->token[i].value.p, n) == 0) text += n;
    }
    if (!text[strspn(text, " \t\r\n")] || !lvn_ends_with(without.text, text)) return LVN_OK;
    c->prompt = lvn_arena_strdup(&c->arena, text);
    return c->prompt ? LVN_OK : LVN_MEMORY;
}

#define USER "{\"role\": \"user\", \"content\": \"x\"}"

/* Render a message of a role at a place that templates accept: system messages first, tool results after a message. */
static enum lvn_status try_role(struct lvn_chat *c, struct lvn_arena *a, int i, const char *role,
                                struct lvn_rendered *r)
{
    static const char *const talks[][2] = {
        [LVN_CHAT_ROLE_HUMAN] = {"", ""},          [LVN_CHAT_ROLE_FUNCTION] = {USER ", ", ""},
        [LVN_CHAT_ROLE_IPYTHON] = {USER ", ", ""}, [LVN_CHAT_ROLE_DEVELOPER] = {"", ", " USER},
        [LVN_CHAT_ROLE_SYSTEM] = {"", ", " USER},  [LVN_CHAT_ROLE_TOOL] = {USER ", ", ""}};
    char messages[200];
    snprintf(messages, sizeof messages, "[%s{\"role\": \"%s\", \"content\": \"levin-text\"}%s]", talks[i][0], role,
             talks[i][1]);
    return try_text(c, a, messages, NULL, false, r);
}

/* Set c->unwritten. Some templates write any role, so human counts as written only if the template treats it
 * differently from an unknown role. */
static enum lvn_status try_roles(struct lvn_chat *c)
{
    static const char unknown[] = "zzzzz"; /* as long as human */
    LVN_LOCAL_ARENA(a);
    struct lvn_rendered r, human, other;
    for (int i = 0; i < LVN_CHAT_ROLES; i++) {
        LVN_TRY(try_role(c, &a, i, lvn_chat_roles[i], &r));
        c->unwritten[i] = !strstr(r.text, "levin-text");
        if (i == LVN_CHAT_ROLE_HUMAN) human = r;
    }
    LVN_TRY(try_role(c, &a, LVN_CHAT_ROLE_HUMAN, unknown, &other));
    for (char *p = other.text; (p = strstr(p, unknown));) memcpy(p, "human", strlen(unknown));
    c->unwritten[LVN_CHAT_ROLE_HUMAN] |= !c->has_human || strcmp(human.text, other.text) == 0;
    return LVN_OK;
}

static enum lvn_status set_up(struct lvn_chat *c, const struct lvn_chat_options *o)
{
    const struct lvn_tokenizer *t = c->tokenizer;
    LVN_TRY(read_files(c, o->chat_template));
    time_t seconds = time(NULL);
    /* without `now` 26 July 2024, the date that Llama 3's templates contain for programs without a clock */
    c->now = (struct tm){.tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5, .tm_yday = 207};
    if (o->now && !localtime_r(&seconds, &c->now))
        return lvn_fail(LVN_INTERNAL, "cannot convert the system time to a local date");
    c->is_special = lvn_arena_alloc(&c->arena, (size_t)t->n + 1);
    if (!c->is_special) return LVN_MEMORY;
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].special && t->added[i].id >= 0 && t->added[i].id < t->n) c->is_special[t->added[i].id] = true;
    if (!c->chat_template && o->reads_ids) return LVN_OK;
    LVN_TRY(lvn_chat_require_template(c));
    LVN_TRY(try_parts(c));
    LVN_TRY(try_roles(c));
    LVN_TRY(try_arguments(c));
    return find_prompt(c);
}

enum lvn_status lvn_chat_open(struct lvn_chat **out, const struct lvn_tokenizer *t, const struct lvn_chat_options *o)
{
    *out = NULL;
    struct lvn_chat *c = lvn_calloc(1, sizeof *c);
    if (!c) return LVN_MEMORY;
    lvn_arena_init(&c->arena);
    c->tokenizer = t;
    c->train_on = o->train_on;
    enum lvn_status status = set_up(c, o);
    if (status == LVN_OK)
        *out = c;
    else
        lvn_chat_close(c);
    return status;
}

void lvn_chat_close(struct lvn_chat *c)
{
    if (!c) return;
    lvn_chat_template_free(c->chat_template);
    lvn_chat_template_free(c->with_tools);
    lvn_arena_release(&c->arena);
    free(c);
}
