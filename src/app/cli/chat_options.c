/* chat_options.c - see chat_options.h. */
#include "cli/chat_options.h"

enum lvn_status lvn_cli_chat_open(const struct lvn_generator *g, const struct lvn_chat_options *o,
                                  struct lvn_chat **chat, struct lvn_chat_encoder **encoder)
{
    const struct lvn_codec *codec = &g->setup.codec;
    LVN_TRY(lvn_tokenizer_require(codec->tokenizer_error, "a conversation"));
    LVN_CHECK(codec->tokenizer, ARG,
              "a conversation needs a model with a tokenizer, and '%s' has none: add the files of its tokenizer to its "
              "folder",
              g->setup.pretrained.path);
    LVN_TRY(lvn_chat_open(chat, codec->tokenizer, o));
    *encoder = lvn_chat_encoder_new(*chat);
    return *encoder ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_cli_chat_choice(const struct lvn_cli *c, const struct lvn_generator *g,
                                    const struct lvn_cli_choice_flags *flags, struct lvn_choice *out)
{
    bool found;
    LVN_TRY(lvn_generator_choice(g, out, &found));
    const bool any = c->given[flags->top_k] || c->given[flags->top_p];
    if (c->given[flags->top_k]) out->top_k = c->flag[flags->top_k].i;
    if (c->given[flags->top_p]) out->top_p = c->flag[flags->top_p].r;
    if (c->given[flags->repetition_penalty]) out->repetition_penalty = c->flag[flags->repetition_penalty].r;
    if (c->given[flags->temperature])
        out->temperature = c->flag[flags->temperature].r;
    else if (any && out->temperature == 0) /* --top-k and --top-p choose among tokens */
        out->temperature = 1;
    LVN_TRY(lvn_choice_check(out));
    if (out->temperature == 0)
        lvn_log(LVN_LOG_INFO, "sampling: the most probable token (temperature 0)%s",
                found ? ", as generation_config.json says" : "; the model has no generation_config.json");
    else
        lvn_log(LVN_LOG_INFO, "sampling: temperature %g, top_k %lld, top_p %g, repetition_penalty %g", out->temperature,
                (long long)out->top_k, out->top_p, out->repetition_penalty);
    return LVN_OK;
}
