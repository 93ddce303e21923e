/* gguf_tokenizer_pre.c - llama.cpp's names of ways to split text before BPE, one row each, and what a tokenizer.json
 * says in their place. A name stands for the tokenizers of several models, whose texts are split equally. */

#include "tokenizers/gguf_tokenizer.h"

#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"
#define GPT2 "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"
#define SPLIT(expression)                                                                                              \
    SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" expression                                                \
             "\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTES)
/* Parts of expressions, escaped once for C and once for JSON. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+"
#define FIRST "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define SYMBOLS(ends) " ?[^\\\\s\\\\p{L}\\\\p{N}]+[" ends "]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define WORDS(digits) CONTRACTIONS "|" LETTERS "|\\\\p{N}" digits "|" SYMBOLS("\\\\r\\\\n")
#define CASED(after, digits)                                                                                           \
    FIRST UPPER "*" LOWER "+" after "|" FIRST UPPER "+" LOWER "*" after "|\\\\p{N}" digits "|" SYMBOLS("\\\\r\\\\n/")
#define NFC "{\"type\":\"NFC\"}"

const struct lvn_gguf_pre lvn_gguf_pre_tokenizers[] = {
    {"gpt-2 phi-2 mpt olmo jais", GPT2, "null", false, false},
    {"smollm starcoder refact codeshell", SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," GPT2), "null",
     false, false},
    {"llama-bpe llama3 llama-v3 falcon3", SPLIT(WORDS("{1,3}")), "null", true, true},
    {"dbrx smaug-bpe", SPLIT(WORDS("{1,3}")), "null", false, false},
    {"qwen2", SPLIT(WORDS("")), NFC, false, false},
    {"deepseek-r1-qwen stablelm2", SPLIT(WORDS("")), "null", false, false},
    {"gpt-4o llama4", SPLIT(CASED(CONTRACTIONS "?", "{1,3}")), "null", false, false},
    {"tekken", SPLIT(CASED("", "")), "null", true, true},
    {NULL, NULL, NULL, false, false},
};

const struct lvn_gguf_pre *lvn_gguf_pre_find(const char *name)
{
    const size_t n = strlen(name);
    for (const struct lvn_gguf_pre *p = lvn_gguf_pre_tokenizers; p->names; p++)
        for (const char *at = p->names; at; at = strchr(at, ' ')) {
            at += *at == ' ';
            if (n && strncmp(at, name, n) == 0 && (at[n] == ' ' || !at[n])) return p;
        }
    return NULL;
}

/* A text that is equal for objects that split equally; '?' in it: another way. */
static void sign(struct lvn_text *t, const json_t *o)
{
    const char *type = lvn_json_type(o), *behavior = json_string_value(json_object_get(o, "behavior"));
    const char *expression = json_string_value(json_object_get(json_object_get(o, "pattern"), "Regex"));
    const bool inverse = json_is_true(json_object_get(o, "invert"));
    size_t i;
    const json_t *step;
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach((json_t *)(uintptr_t)json_object_get(o, "pretokenizers"), i, step) sign(t, step);
    } else if (strcmp(type, "Split") == 0 && expression && behavior) {
        const bool known = strcmp(behavior, inverse ? "Removed" : "Isolated") == 0;
        lvn_text_printf(t, "%s{%s}", known ? "" : "?", expression);
    } else if (strcmp(type, "ByteLevel") == 0 && !json_is_true(json_object_get(o, "add_prefix_space"))) {
        lvn_text_add(t, json_is_false(json_object_get(o, "use_regex")) ? "" : "{GPT-2}");
    } else if (strcmp(type, "Digits") == 0 && json_is_true(json_object_get(o, "individual_digits"))) {
        lvn_text_add(t, "{digits}");
    } else {
        lvn_text_add(t, "?");
    }
}

const struct lvn_gguf_pre *lvn_gguf_pre_of(const json_t *pre_tokenizer, bool nfc, bool ignores_merges)
{
    LVN_LOCAL_TEXT(wanted);
    const struct lvn_gguf_pre *found = NULL;
    sign(&wanted, pre_tokenizer);
    for (const struct lvn_gguf_pre *p = lvn_gguf_pre_tokenizers; p->names; p++) {
        LVN_LOCAL_TEXT(own);
        json_t *steps;
        json_error_t error;
        if (lvn_json_load(p->steps, (int64_t)strlen(p->steps), 0, &steps, &error) != LVN_OK || !steps) continue;
        sign(&own, steps);
        json_decref(steps);
        const bool equal = own.p && wanted.p && strcmp(own.p, wanted.p) == 0 && p->ignores_merges == ignores_merges;
        if (equal && (!found || (strcmp(p->nfc, "null") != 0) == nfc)) found = p;
    }
    return found;
}
