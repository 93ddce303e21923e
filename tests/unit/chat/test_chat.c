/* test_chat.c - covers: src/text/chat/chat.c src/text/chat/chat_row.c src/text/chat/chat_encode.c
 * src/text/chat/chat_templates.def
 *
 * Text, ids and labels of conversations are those of Hugging Face's libraries (tests/golden/chat, written by
 * tools/make_golden_chat.py), for every built-in template and with the text of special tokens in messages; forms of
 * rows, excluded answers, templates that change earlier messages, and what is refused. */
#include "io_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "chat/chat_encode.h"

static json_t *golden; /* the lines of the golden file */

static int read_golden(void **state)
{
    struct lvn_mapping map;
    if (test_dir_make(state) != 0) return -1;
    golden = json_array();
    ASSERT_OK(lvn_file_map(&map, "tests/golden/chat/cases.jsonl"));
    const char *p = (const char *)map.data, *end = p + map.bytes;
    for (const char *line = p; line < end; line = p + 1) {
        p = memchr(line, '\n', (size_t)(end - line));
        assert_int_equal(json_array_append_new(golden, json_loadb(line, (size_t)(p - line), 0, NULL)), 0);
    }
    lvn_file_unmap(&map);
    return 0;
}

static int drop_golden(void **state)
{
    json_decref(golden);
    return test_dir_drop(state);
}

static const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

/* A tokenizer of tests/golden/tokenizers with the special tokens of the golden file. */
static struct lvn_tokenizer *open_tokenizer(const char *name, const char *template)
{
    char path[256];
    json_t *data, *one, *special = json_object_get(json_array_get(golden, 0), "special");
    struct lvn_tokenizer *t;
    json_int_t next = 0;
    const char *key;
    size_t i;
    snprintf(path, sizeof path, "tests/golden/tokenizers/%s/tokenizer.json", name);
    ASSERT_OK(lvn_json_read(path, &data));
    json_t *added = json_object_get(data, "added_tokens");
    json_object_foreach(json_object_get(json_object_get(data, "model"), "vocab"), key, one)
    {
        if (json_integer_value(one) >= next) next = json_integer_value(one) + 1;
    }
    json_array_foreach(added, i, one)
    {
        json_int_t id = json_integer_value(json_object_get(one, "id"));
        if (id >= next) next = id + 1;
    }
    json_array_foreach(special, i, one)
    {
        json_array_append_new(added,
                              json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", next++, "content", one,
                                        "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
    }
    ASSERT_OK(lvn_json_write(test_path("tokenizer.json"), lvn_json_begin(), data));
    json_decref(data);
    json_t *config = json_pack("{s:s, s:{s:s}}", "bos_token", "<bos>", "eos_token", "content", "<eos>");
    if (template) json_object_set_new(config, "chat_template", json_string(template));
    ASSERT_OK(lvn_json_write(test_path("tokenizer_config.json"), lvn_json_begin(), config));
    json_decref(config);
    ASSERT_OK(lvn_tokenizer_open(&t, test_dir));
    return t;
}

static struct lvn_chat *open_chat(const struct lvn_tokenizer *t, const char *template, const char *train_on)
{
    struct lvn_chat *c;
    struct lvn_chat_options o = {.chat_template = template};
    assert_true(lvn_train_on_of(train_on, &o.train_on));
    ASSERT_OK(lvn_chat_open(&c, t, &o));
    return c;
}

static enum lvn_status encode(const struct lvn_chat *c, struct lvn_arena *a, const json_t *row,
                              struct lvn_chat_samples *out)
{
    struct lvn_chat_encoder *e = lvn_chat_encoder_new(c);
    enum lvn_chat_form form;
    assert_non_null(e);
    enum lvn_status status = lvn_chat_encode(e, a, row, &form, out);
    lvn_chat_encoder_free(e);
    return status;
}

static bool same_ids(const json_t *list, const int32_t *ids, int64_t n)
{
    bool same = (int64_t)json_array_size(list) == n;
    for (int64_t i = 0; same && i < n; i++) same = json_integer_value(json_array_get(list, (size_t)i)) == ids[i];
    return same;
}

static void like_hugging_face(void **state)
{
    const char *marked = text_of(json_array_get(golden, 0), "marked"), *last = "";
    struct lvn_tokenizer *t = NULL;
    (void)state;
    for (size_t i = 1; i < json_array_size(golden); i++) {
        const json_t *row = json_array_get(golden, i), *labels = json_object_get(row, "labels");
        const char *name = text_of(row, "template");
        bool own = strcmp(name, "marked") == 0;
        if (strcmp(last, text_of(row, "tokenizer")) != 0) {
            lvn_tokenizer_close(t);
            t = open_tokenizer(last = text_of(row, "tokenizer"), marked);
        }
        struct lvn_chat *c = open_chat(t, own ? NULL : name, text_of(row, "train_on"));
        LVN_LOCAL_ARENA(a);
        struct lvn_chat_samples s;
        if (encode(c, &a, json_object_get(row, "row"), &s) != LVN_OK)
            fail_msg("case %zu (%s, %s): %s", i, last, name, levin_error_text());
        assert_int_equal(s.n, 1);
        assert_string_equal(s.p->text.text, text_of(row, "text"));
        if (!same_ids(json_object_get(row, "ids"), s.p->ids, s.p->n)) fail_msg("case %zu (%s, %s): ids", i, last, name);
        if (!json_is_null(labels) && !same_ids(labels, s.p->labels, s.p->n))
            fail_msg("case %zu (%s, %s): labels", i, last, name);
        lvn_chat_close(c);
    }
    lvn_tokenizer_close(t);
}

static bool loses_tools; /* the last row of trained() */

/* The trained text of each sample, "|" between parts of it and "/" between samples. */
static const char *trained(const struct lvn_tokenizer *t, const char *template, const char *train_on, const char *row)
{
    static struct lvn_text out;
    struct lvn_chat *c = open_chat(t, template, train_on);
    json_t *value = json_loads(row, 0, NULL);
    LVN_LOCAL_ARENA(a);
    struct lvn_chat_samples s;
    assert_non_null(value);
    lvn_text_clear(&out);
    if (encode(c, &a, value, &s) != LVN_OK) {
        lvn_text_printf(&out, "error: %s", levin_error_text());
        s.n = 0;
    }
    loses_tools = s.loses_tools;
    for (int64_t i = 0; i < s.n; i++) {
        bool before = false;
        if (i) lvn_text_add(&out, "/");
        for (int64_t k = 0; k < s.p[i].n; k++) {
            int32_t label = s.p[i].labels[k];
            if (label < 0 && before) lvn_text_add(&out, "|");
            before = label >= 0;
            if (!before) continue;
            lvn_text_add_bytes(&out, t->byte + t->start[label], t->start[label + 1] - t->start[label]);
        }
    }
    json_decref(value);
    lvn_chat_close(c);
    return lvn_text_string(&out);
}

#define TALK                                                                                                           \
    "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"%s}, "       \
    "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"d\"}]"

static void forms_of_rows(void **state)
{
    static const char *const rows[][3] = {
        {"answers",
         "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": "
         "\"b\"}]}",
         "b<|im_end|>\n"},
        {"answers", "{\"prompt\": \"a\", \"completion\": \"b\"}", "b<|im_end|>\n"},
        {"answers",
         "{\"prompt\": [{\"role\": \"assistant\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": "
         "\"a\"}], \"completion\": [{\"role\": \"assistant\", \"content\": \"b\"}]}",
         "b<|im_end|>\n"},
        {"answers", "{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}", "b<|im_end|>\n"},
        {"all", "{\"instruction\": \"a\", \"input\": \"i\", \"output\": \"b\"}",
         "<|im_start|>user\na\n\ni<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"answers",
         "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, "
         "{\"role\": \"assistant\", \"content\": [{\"text\": \"b\"}, {\"text\": \"c\"}]}]}",
         "bc<|im_end|>\n"},
        {"answers", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", ""},
        {"answers", "{\"input_ids\": [97, 98, 99], \"labels\": [-100, 98, 99]}", NULL},
        {"last_answer", "{" TALK "}", "d<|im_end|>\n"},
        {"all", "{\"instruction\": \"\", \"input\": \"i\", \"output\": \"b\"}",
         "<|im_start|>user\ni<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"answers",
         "{\"conversations\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
         "\"b\"}]}",
         "b<|im_end|>\n"},
        {"answers",
         "{\"messages\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\", \"role\": "
         "null}], "
         "\"conversations\": null}",
         "b<|im_end|>\n"},
        {"answers", "{\"messages\": null, \"prompt\": \"a\", \"completion\": \"b\"}", "b<|im_end|>\n"},
        {"answers", "{\"messages\": []}", "error: the conversation has no messages"},
        {"answers", "{\"text\": \"a\"}",
         "error: the row has none of messages, conversations, prompt and completion, "
         "instruction and output, or input_ids"},
        {"answers", "{\"messages\": [{\"role\": \"user\"}]}", "error: message 1 has no content"},
        {"answers", "{\"messages\": [{\"content\": \"a\"}]}", "error: message 1 has no role"},
        {"answers", "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "error: message 1 has a part of type 'image'; only text is supported"},
        {"answers", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"train\": true}]}",
         "error: message 1 is to be trained, but only answers of the assistant are"},
        {"answers", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0.5}]}",
         "error: message 1: 'weight' must be true or false, or 1 or 0"},
        {"answers", "{\"conversations\": [{\"from\": \"narrator\", \"value\": \"a\"}]}",
         "error: message 1 is from 'narrator'; known are human, user, gpt, assistant, model, chatgpt, "
         "bing, bard, system, developer, tool, function, observation, ipython, function_call"},
        {"answers", "{\"prompt\": \"a\"}", "error: the row has a prompt, but no completion"},
        {"answers", "{\"input_ids\": [1, 2]}",
         "error: the row has input_ids without labels, which say what is trained"},
        {"answers", "{\"input_ids\": [1, 99999999], \"labels\": [1, 2]}", NULL},
        {"answers", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": 3}",
         "error: 'tools' is not a list"},
    };
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", NULL);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char row[600];
        snprintf(row, sizeof row, rows[i][1], "");
        const char *text = trained(t, "chatml", rows[i][0], row);
        if (rows[i][2]) assert_string_equal(text, rows[i][2]);
    }
    const char *bad = trained(t, "chatml", "answers", rows[23][1]);
    assert_non_null(strstr(bad, "error: entry 2 of 'input_ids' is not an id of the tokenizer, which has "));
    lvn_tokenizer_close(t);
}

/* Members of a row that change its messages. */
static void members_of_rows(void **state)
{
    static const char *const rows[][3] = {
        {"all",
         "{\"system\": \"s\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
         "\"content\": \"b\"}]}",
         "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"all",
         "{\"system_prompt\": \"s\", \"system\": null, \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
         "{\"role\": \"assistant\", \"content\": \"b\"}]}",
         "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"all",
         "{\"system\": \"\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
         "\"content\": \"b\"}]}",
         "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"all", "{\"prompt\": \"a\", \"completion\": \"b\", \"system\": \"s\"}",
         "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"answers",
         "{\"system\": \"s\", \"prompt\": [{\"role\": \"assistant\", \"content\": \"x\"}], \"completion\": [{\"role\": "
         "\"assistant\", \"content\": \"b\"}]}",
         "b<|im_end|>\n"},
        {"all",
         "{\"system\": \"s\", \"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
         "\"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
         "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"all",
         "{\"system\": \"t\", \"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
         "\"content\": \"a\"}]}",
         "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"},
        {"all",
         "{\"system_prompt\": \" st\\n\", \"messages\": [{\"role\": \"system\", \"content\": [{\"type\": \"text\", "
         "\"text\": \"s\"}, {\"type\": \"text\", \"text\": \"t\"}]}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
         "<|im_start|>system\nst<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"all",
         "{\"system_prompt\": \"st\", \"messages\": [{\"role\": \"system\", \"content\": [{\"type\": \"text\", "
         "\"text\": \"s\"}]}]}",
         "<|im_start|>system\ns<|im_end|>\n"},
        {"all", "{\"system\": \"s\", \"system_prompt\": \"t\", \"prompt\": \"a\", \"completion\": \"b\"}",
         "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"},
        {"answers",
         "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\", "
         "\"weight\": 0}, {\"from\": \"human\", \"value\": \"c\"}, {\"from\": \"gpt\", \"value\": \"d\", \"train\": "
         "true}]}",
         "d<|im_end|>\n"},
        {"answers",
         "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\", "
         "\"train\": false}]}",
         ""},
        {"all", "{\"instruction\": \"c\", \"output\": \"d\", \"history\": [[\"a\", \"b\"]]}",
         "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|"
         ">assistant\nd<|im_end|>\n"},
        {"answers", "{\"instruction\": \"c\", \"output\": \"d\", \"history\": [[\"a\"]]}",
         "error: entry 1 of 'history' is not a pair of a question and its answer"},
    };
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", NULL);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(trained(t, "chatml", rows[i][0], rows[i][1]), rows[i][2]);
    lvn_tokenizer_close(t);
}

#define IDS "{\"input_ids\": [65, 66], \"labels\": [-100, 66]"
#define SEVERAL(name)                                                                                                  \
    "error: '" name "' has several documents: give each document its own row, and let data.pack pack them"
#define SHIFTED "error: 'labels' are those of the next tokens: label i must be id i (or -100), since levin shifts them"

/* Rows of ids that are no single document, or whose labels are shifted. */
static void rows_of_ids(void **state)
{
    static const char *const rows[][2] = {
        {"{\"input_ids\": [97, 98], \"labels\": [-100, 98], \"attention_mask\": [1, 0]}",
         "error: entry 2 of 'attention_mask' is not 1: leave out the padding, of 'input_ids' and 'labels' too"},
        {"{\"input_ids\": [97, 98], \"labels\": [-100, 98], \"position_ids\": [0, 0]}",
         "error: entry 2 of 'position_ids' is not 1: give each document its own row, and let data.pack pack them"},
        {"{\"input_ids\": [97, 98], \"labels\": [-100, 98], \"attention_mask\": [1]}",
         "error: 'attention_mask' must be a list with one entry for each of 'input_ids', 2"},
        {"{\"input_ids\": [97, 98], \"labels\": [-100, 98], \"position_ids\": 0}",
         "error: 'position_ids' must be a list with one entry for each of 'input_ids', 2"},
        {IDS ", \"seq_lengths\": [1, 1]}", SEVERAL("seq_lengths")},
        {IDS ", \"cu_seqlens\": [0, 1, 2]}", SEVERAL("cu_seqlens")},
        {IDS ", \"segment_ids\": [1, 2]}", SEVERAL("segment_ids")},
        {IDS ", \"seq_lengths\": [2], \"cu_seqlens\": [0, 2], \"segment_ids\": [1, 1], \"seq_idx\": null}", "b"},
        {"{\"input_ids\": [65, 66, 66], \"labels\": [-100, 66, 66]}", "bb"},
        {"{\"input_ids\": [66, 66, 66], \"labels\": [66, 66, -100]}", "bb|"},
        {"{\"input_ids\": [66, 66, 65], \"labels\": [66, 65, -100]}", SHIFTED},
        {"{\"input_ids\": [65, 66, 67], \"labels\": [-100, 67, 65]}", SHIFTED},
    };
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", NULL);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(trained(t, "chatml", "answers", rows[i][0]), rows[i][1]);
    lvn_tokenizer_close(t);
}

/* Roles of other data become those that the template writes. */
static void roles_of_templates(void **state)
{
    static const char *const curious =
        "A curious human. {% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} {% elif m.role == "
        "'assistant' %}ASSISTANT: {{ m.content }} {% elif m.role == 'system' %}SYSTEM: {{ m.content }} "
        "{% elif m.role == 'tool' %}TOOL: {{ m.content }} {% endif %}{% endfor %}";
    static const char *const users = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}";
    static const char *const any = "A curious human. {% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}";
    static const char *const human =
        "{% for m in messages %}{% if m.role == 'human' %}Human: {% elif m.role == 'developer' %}"
        "Developer: {% elif m.role == 'assistant' %}AI: {% else %}User: {% endif %}{{ m.content "
        "}} {% endfor %}";
    static const char *const rows[] = {"{\"messages\": [{\"role\": \"developer\", \"content\": \"a\"}, {\"role\": "
                                       "\"human\", \"content\": \"b\"}, {\"role\": \"gpt\", \"content\": \"c\"}]}",
                                       "{\"messages\": [{\"role\": \"function\", \"name\": \"f\", \"content\": \"a\"}, "
                                       "{\"role\": \"ipython\", \"content\": \"b\"}]}"};
    static const struct {
        const char *template, *text[2];
    } cases[] = {
        {curious, {"A curious human. SYSTEM: a USER: b ASSISTANT: c ", "A curious human. TOOL: a TOOL: b "}},
        {any, {"A curious human. developer: a user: b assistant: c ", "A curious human. function: a ipython: b "}},
        {human, {"Developer: a Human: b AI: c ", NULL}},
    };
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", cases[i / 2].template);
        const char *text = trained(t, NULL, "all", rows[i % 2]);
        if (cases[i / 2].text[i % 2]) assert_string_equal(text, cases[i / 2].text[i % 2]);
        assert_false(loses_tools);
        lvn_tokenizer_close(t);
    }
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", users);
    assert_string_equal(trained(t, NULL, "all", rows[0]), "b");
    assert_true(loses_tools);
    lvn_tokenizer_close(t);
}

/* Excluded answers, with and without {% generation %}. */
static void excluded(void **state)
{
    static const char *const marks[] = {"",
                                        ", \"weight\": 1, \"loss\": null",
                                        ", \"loss\": 1.25, \"training\": \"sft\"", /* these mean something else */
                                        ", \"train\": false",
                                        ", \"weight\": 0",
                                        ", \"loss\": false",
                                        ", \"loss_mask\": 0, \"train\": true",
                                        ", \"trainable\": false",
                                        ", \"training\": false"};
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", text_of(json_array_get(golden, 0), "marked"));
    (void)state;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        char row[600];
        bool both = i < 3;
        snprintf(row, sizeof row, "{" TALK "}", marks[i]);
        assert_string_equal(trained(t, "chatml", "answers", row),
                            both ? "b<|im_end|>\n|d<|im_end|>\n" : "d<|im_end|>\n");
        assert_string_equal(trained(t, NULL, "answers", row), both ? "b<|im_end|>|d<|im_end|>" : "d<|im_end|>");
    }
    assert_string_equal(
        trained(t, "chatml", "answers",
                "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"loss\": true, \"trainable\": 1}, "
                "{\"role\": \"assistant\", \"content\": \"b\", \"loss\": true, \"trainable\": 1}]}"),
        "b<|im_end|>\n");
    lvn_tokenizer_close(t);
}

/* A template that leaves out the thoughts of earlier answers: each answer is trained after what the model sees. */
static void changing_template(void **state)
{
    static const char *const template =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last or m.role == 'user' %}{{ m.content }}"
        "{% else %}{{ m.content.split('T')[-1] }}{% endif %}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    static const char *const other =
        "{% for m in messages %}<|im_start|>{{ m.role }}{{ m.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant<think>{% endif %}";
    static const char *const row =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"xTb\"}, "
        "{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"yTd\"}]}";
    static const char *const always = /* a prompt after every conversation */
        "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}"
        "{{ '<|im_start|>assistant\\n' }}";
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", always);
    (void)state;
    assert_string_equal(trained(t, NULL, "answers", row), "xTb<|im_end|>|yTd<|im_end|>|");
    lvn_tokenizer_close(t);
    t = open_tokenizer("tiny-llama3", template);
    assert_string_equal(trained(t, NULL, "answers", row), "xTb<|im_end|>/yTd<|im_end|>");
    assert_string_equal(trained(t, NULL, "last_answer", row), "yTd<|im_end|>");
    lvn_tokenizer_close(t);
    t = open_tokenizer("tiny-llama3", other);
    const char *text = trained(t, NULL, "answers", row);
    assert_non_null(strstr(text, "error: message 4: the template does not continue its prompt"));
    lvn_tokenizer_close(t);
}

#define IS_FALSE                                                                                                       \
    "error: the row's label is false, a preference, and levin trains on good answers alone: leave such rows out, or "  \
    "set data.skip_bad_rows"
#define IS_PREFERENCE(name)                                                                                            \
    "error: the row has '" name "', a preference, and levin trains on answers alone: rename the good answer to "       \
    "'completion', beside a 'prompt', or to 'messages'"
#define HAS_MEDIA(name)                                                                                                \
    "error: the row has '" name "', and levin trains on text alone: leave such rows out, or set data.skip_bad_rows; "  \
    "if the answers do not depend on it, remove this member"

#define HAS_NO_CONTENT(what)                                                                                           \
    "error: message 1 has " what " and no content, which the template requires: use a data.template that writes "      \
    "tool_calls, or leave such rows out"

/* Rows of other trainers. */
static void foreign_rows(void **state)
{
    static const char *const rows[][2] = {
        {"{\"messages\": [{\"role\": \"human\", \"content\": \"a\"}, {\"role\": \"gpt\", \"content\": \"b\"}]}",
         "b<|im_end|>\n"},
        {"{\"messages\": [{\"role\": \"assistant\", \"function_call\": {}}]}", "error: message 1 has no content"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"function_call\": {\"name\": \"f\"}}]}",
         HAS_NO_CONTENT("a function_call")},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": "
         "\"f\"}}]}]}",
         HAS_NO_CONTENT("tool_calls")},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}], \"tools\": \"null\", \"documents\": "
         "\"None\"}",
         "b<|im_end|>\n"},
        {"{\"instruction\": \"c\", \"output\": \"d\", \"history\": \"\"}", "d<|im_end|>\n"},
        {"{\"instruction\": \"c\", \"output\": \"d\", \"history\": {}}", "error: 'history' is not a list"},
        {"{\"input_ids\": [65.0, 66.0], \"labels\": [-100, 66.0], \"attention_mask\": [1.0, 1.0], \"position_ids\": "
         "[0.0, 1.0]}",
         "b"},
        {"{\"prompt\": \"a\", \"completion\": \"b\", \"label\": true}", "b<|im_end|>\n"},
        {"{\"prompt\": \"a\", \"completion\": \"b\", \"label\": false}", IS_FALSE},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}], \"label\": false}", IS_FALSE},
        {"{\"conversations\": [{\"from\": \"gpt\", \"value\": \"b\"}], \"label\": false}", IS_FALSE},
        {"{\"instruction\": \"a\", \"output\": \"b\", \"label\": false}", IS_FALSE},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}", IS_PREFERENCE("rejected")},
        {"{\"instruction\": \"a\", \"chosen\": \"b\"}", IS_PREFERENCE("chosen")},
        {"{\"instruction\": \"a\", \"response\": \"b\", \"rejected\": \"c\"}", "b<|im_end|>\n"},
        {"{\"chosen\": [{\"role\": \"assistant\", \"content\": \"b\"}], \"rejected\": []}", IS_PREFERENCE("rejected")},
        {"{\"conversations\": [{\"from\": \"gpt\", \"value\": \"b\"}, {\"from\": \"human\", \"value\": \"a\"}], "
         "\"chosen\": {\"from\": \"gpt\", \"value\": \"b\"}, \"rejected\": {\"from\": \"gpt\", \"value\": \"c\"}}",
         IS_PREFERENCE("rejected")},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}], \"chosen\": [], \"rejected\": []}",
         "b<|im_end|>\n"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"a\"}], "
         "\"chosen\": null, \"rejected\": null}",
         "b<|im_end|>\n|"},
        {"{\"instruction\": \"a\", \"output\": \"b\", \"context\": [\"c\"]}", "b<|im_end|>\n"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}], \"images\": [\"1.jpg\"]}",
         HAS_MEDIA("images")},
        {"{\"conversations\": [{\"from\": \"gpt\", \"value\": \"b\"}], \"image\": \"1.jpg\"}", HAS_MEDIA("image")},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}], \"images\": [], \"videos\": null}",
         "b<|im_end|>\n"},
    };
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", NULL);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(trained(t, "chatml", "answers", rows[i][0]), rows[i][1]);
    lvn_tokenizer_close(t);
}

#define TOOLS "\"tools\": [{\"name\": \"f\"}], "
#define CALL ", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": %s}}]"

/* Templates that write no tools, or no tool calls. */
static void tools_that_are_lost(void **state)
{
    static const char *const writes =
        "{% for m in messages %}<|im_start|>{{ m.content }}{% for t in m.tool_calls or [] %}"
        "{{ t.function | tojson }}{% endfor %}<|im_end|>{% endfor %}";
    static const struct {
        const char *template, *tools, *call, *text;
        bool loses;
    } cases[] = {
        {"chatml", "", "", "b<|im_end|>\n|d<|im_end|>\n", false},
        {"chatml", TOOLS, "", "b<|im_end|>\n|d<|im_end|>\n", true},
        {"chatml", "", CALL,
         "error: message 2 has tool_calls, which the template does not write, so the answer would be "
         "trained without them: use a data.template that writes them",
         false},
        {"chatml", "", CALL ", \"train\": false", "d<|im_end|>\n", true},
        {NULL, "", ", \"function_call\": {\"name\": \"f\"}",
         "error: message 2 has a function_call, which the template does not write, so the answer would be "
         "trained without it: use a data.template that writes it, or tool_calls instead",
         false},
        {NULL, "", CALL, "<|im_start|>b{\"name\": \"f\", \"arguments\": 1}<|im_end|>|<|im_start|>d<|im_end|>", false},
        {NULL, "\"functions\": [{\"name\": \"f\"}], ", "", "<|im_start|>b<|im_end|>|<|im_start|>d<|im_end|>", true},
        {NULL, TOOLS, CALL, "<|im_start|>b{\"name\": \"f\", \"arguments\": 1}<|im_end|>|<|im_start|>d<|im_end|>", true},
    };
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", writes);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char call[200], talk[600], row[700];
        snprintf(call, sizeof call, cases[i].call, "1");
        snprintf(talk, sizeof talk, TALK, call);
        snprintf(row, sizeof row, "{%s%s}", cases[i].tools, talk);
        assert_string_equal(trained(t, cases[i].template, "answers", row), cases[i].text);
        assert_int_equal(loses_tools, cases[i].loses);
    }
    /* ShareGPT's tool calls, as in the files of LLaMA-Factory */
    static const char *const values[][2] = {
        {"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": 1}",
         "<|im_start|>{\"name\": \"f\", \"arguments\": 1}<|im_end|>|<|im_start|>d<|im_end|>"},
        {"[{\\\"name\\\": \\\"f\\\"}, {\\\"name\\\": \\\"g\\\"}]",
         "<|im_start|>{\"name\": \"f\"}{\"name\": \"g\"}<|im_end|>|<|im_start|>d<|im_end|>"},
        {"f(1)",
         "error: message 2 is from 'function_call', but its value is not the text of a JSON object, or of a list "
         "of objects, with name and arguments"},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char row[700];
        snprintf(row, sizeof row,
                 "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"function_call\", "
                 "\"value\": \"%s\"}, {\"from\": \"observation\", \"value\": \"2\"}, {\"from\": \"gpt\", "
                 "\"value\": \"d\"}]}",
                 values[i][0]);
        assert_string_equal(trained(t, NULL, "answers", row), values[i][1]);
    }
    lvn_tokenizer_close(t);
}

/* Arguments as JSON text are parsed only where a template would quote them, or needs their members. */
static void arguments_as_text(void **state)
{
#define ARGUMENTS(a) "<|im_start|>b" a "<|im_end|>|<|im_start|>d<|im_end|>"
    static const char
        *const text = "\"{\\\"x\\\":1.0, \\\"y\\\": [2]}\"",
               *const cases[][3] = {
                   {"{{ t.function.arguments | tojson }}", NULL, ARGUMENTS("{\"x\": 1.0, \"y\": [2]}")},
                   {"{% for k, v in t.function.arguments | items %}{{ k }}={{ v }};{% endfor %}", NULL,
                    ARGUMENTS("x=1.0;y=[2];")},
                   {"{{ t.function.arguments }}", NULL, ARGUMENTS("{\"x\":1.0, \"y\": [2]}")},
                   {"{{ t.function.arguments if t.function.arguments is string else t.function.arguments | tojson }}",
                    NULL, ARGUMENTS("{\"x\":1.0, \"y\": [2]}")},
                   {"{{ t.function.arguments | tojson }}", "\"{x\"", ARGUMENTS("\"{x\"")},
                   {"{{ t.function.arguments | tojson }}", "\"[1]\"", ARGUMENTS("\"[1]\"")},
               };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char template[400], call[200], talk[600], row[700];
        snprintf(template, sizeof template,
                 "{%% for m in messages %%}<|im_start|>{{ m.content }}{%% for t in m.tool_calls or [] %%}%s"
                 "{%% endfor %%}<|im_end|>{%% endfor %%}",
                 cases[i][0]);
        snprintf(call, sizeof call, CALL, cases[i][1] ? cases[i][1] : text);
        snprintf(talk, sizeof talk, TALK, call);
        snprintf(row, sizeof row, "{%s}", talk);
        struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", template);
        assert_string_equal(trained(t, NULL, "answers", row), cases[i][2]);
        lvn_tokenizer_close(t);
    }
}

static void refused_templates(void **state)
{
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", NULL);
    struct lvn_chat *c;
    (void)state;
    assert_int_equal(lvn_chat_open(&c, t, &(struct lvn_chat_options){0}), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "has no chat template; name one"));
    assert_int_equal(lvn_chat_open(&c, t, &(struct lvn_chat_options){.chat_template = "chatmlx"}), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "'chatmlx' is neither a file nor a built-in template (chatml, llama2"));
    assert_string_equal(trained(t, "gemma", "answers", "{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"}]}"),
                        "error: 'gemma', line 1, message 1: the template refuses the conversation: the template gemma "
                        "has no role tool here");
    lvn_tokenizer_close(t);
}

/* Templates whose published forms raise an exception unless user and assistant alternate, and others. */
static void roles_that_do_not_alternate(void **state)
{
    static const char *const strict[] = {"llama2", "mistral", "gemma"}, *const others[] = {"chatml", "llama3",
                                                                                           "zephyr"};
    static const struct {
        const char *roles[4], *error;
    } cases[] = {
        {{"user", "assistant", "user", "assistant"}, NULL},
        {{"system", "user", "assistant"}, NULL},
        {{"user", "user"}, "message 2: %s has the role user, expected assistant"},
        {{"system", "user", "assistant", "assistant"}, "message 4: %s has the role assistant, expected user"},
        {{"assistant", "user"}, "message 1: %s has the role assistant, expected user"},
        {{"system", "assistant"}, "message 2: %s has the role assistant, expected user"},
    };
    struct lvn_tokenizer *t = open_tokenizer("tiny-llama3", NULL);
    (void)state;
    for (int k = 0; k < (int)(sizeof cases / sizeof *cases); k++) {
        char row[600] = "", expected[300];
        for (int i = 0; i < 4 && cases[k].roles[i]; i++)
            lvn_print_append(row, sizeof row, "%s{\"role\": \"%s\", \"content\": \"a\"}", i ? ", " : "{\"messages\": [",
                             cases[k].roles[i]);
        lvn_print_append(row, sizeof row, "]}");
        for (int i = 0; i < 3; i++) {
            const char *text = trained(t, strict[i], "answers", row);
            assert_int_equal(strncmp(text, "error: ", 7) == 0, cases[k].error != NULL);
            if (!cases[k].error) continue;
            const char *number = strstr(text, "message "), *end = strstr(text, "this message");
            assert_true(number && end);
            snprintf(expected, sizeof expected, cases[k].error, "this message");
            assert_memory_equal(number, expected, strlen("message 1: "));
            assert_string_equal(end, strstr(expected, "this message"));
        }
        for (int i = 0; i < 3; i++) assert_true(strncmp(trained(t, others[i], "answers", row), "error: ", 7) != 0);
    }
    lvn_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_hugging_face),
        cmocka_unit_test(forms_of_rows),
        cmocka_unit_test(members_of_rows),
        cmocka_unit_test(rows_of_ids),
        cmocka_unit_test(excluded),
        cmocka_unit_test(roles_of_templates),
        cmocka_unit_test(changing_template),
        cmocka_unit_test(foreign_rows),
        cmocka_unit_test(tools_that_are_lost),
        cmocka_unit_test(arguments_as_text),
        cmocka_unit_test(refused_templates),
        cmocka_unit_test(roles_that_do_not_alternate),
    };
    return cmocka_run_group_tests(tests, read_golden, drop_golden);
}
