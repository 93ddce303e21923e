/* chat_generation.c - see chat_generation.h. */
#include "inference/chat_generation.h"

#include "base/log.h"

enum lvn_status lvn_generator_open_chat(const struct lvn_generator *g, const struct lvn_chat_options *o,
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

enum lvn_status lvn_generator_chat_choice(const struct lvn_generator *g, const struct lvn_choice *given,
                                          struct lvn_choice *out)
{
    const char *why_greedy;
    LVN_TRY(lvn_generator_choice(g, out, &why_greedy));
    if (!(given->top_k < 0)) out->top_k = given->top_k;
    if (!(given->top_p < 0)) out->top_p = given->top_p;
    if (!(given->repetition_penalty < 0)) out->repetition_penalty = given->repetition_penalty;
    if (!(given->temperature < 0))
        out->temperature = given->temperature;
    else if (out->temperature == 0 && (!(given->top_k < 0) || !(given->top_p < 0))) /* these choose among tokens */
        out->temperature = 1;
    LVN_TRY(lvn_choice_check(out));
    if (out->temperature == 0)
        lvn_log(LVN_LOG_INFO, "sampling: the most probable token (temperature 0)%s",
                given->temperature == 0 ? "" : why_greedy);
    else
        lvn_log(LVN_LOG_INFO, "sampling: temperature %g, top_k %lld, top_p %g, repetition_penalty %g", out->temperature,
                (long long)out->top_k, out->top_p, out->repetition_penalty);
    return LVN_OK;
}
