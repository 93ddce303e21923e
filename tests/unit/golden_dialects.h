/* golden_dialects.h - the folders of tests/golden with decoders, each with the format of its files. */
#ifndef LVN_GOLDEN_DIALECTS_H
#define LVN_GOLDEN_DIALECTS_H

static const struct {
    const char *name, *format;
} dialects[] = {
    {"mingpt", "mingpt"},
    {"nanogpt", "nanogpt"},
    {"nanogpt-bias", "nanogpt"},
    {"gpt2", "huggingface"},
    {"neox", "huggingface"},
    {"neox-sequential", "huggingface"},
    {"llama", "huggingface"},
    {"llama-yarn", "huggingface"},
    {"mistral", "huggingface"},
    {"qwen2", "huggingface"},
    {"qwen3", "huggingface"},
    {"mistral-window", "huggingface"},
    {"qwen2-window", "huggingface"},
    {"gemma2", "huggingface"},
    {"gemma3", "huggingface"},
    {"nanochat-2025", "huggingface"},
    {"nanochat", "huggingface"},
};
enum { N_DIALECTS = sizeof dialects / sizeof *dialects };

#endif
