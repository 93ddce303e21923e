/* chat_encode.h - a conversation to rendered text, token ids and labels. Called by `levin tokenize --chat`, and by
 * chat.c to try a template.
 *
 * Special tokens are recognized only where the template wrote them; text of a message never becomes one. Labels are in
 * the form of Hugging Face: the ids, not shifted, and -100 where nothing is trained. An answer is what {% generation %}
 * encloses, or, without it, what the template adds to the prompt for the answer when the answer is appended. Where a
 * template changes earlier messages (Qwen 3 leaves out earlier thinking), a conversation becomes several samples, so
 * that each answer follows what the model gets at inference. */
#ifndef LVN_CHAT_ENCODE_H
#define LVN_CHAT_ENCODE_H

#include "chat/chat.h"
#include "chat/chat_row.h"
#include "tokenizers/encoder.h"

struct lvn_chat_input {
    const json_t *messages, *tools, *documents, *variables; /* all but messages may be NULL */
};
/* Render the first n messages. generation_prompt: followed by the beginning of an answer. */
enum lvn_status lvn_chat_render(const struct lvn_chat *c, struct lvn_arena *a, const struct lvn_chat_input *input,
                                int64_t n, bool generation_prompt, struct lvn_rendered *out) LVN_CHECKED;

struct lvn_chat_sample {
    struct lvn_rendered text; /* of a row of ids: NULL */
    int32_t *ids, *labels;
    int64_t n;        /* of ids and labels */
    int64_t n_labels; /* that are not -100 */
};
struct lvn_chat_samples {
    struct lvn_chat_sample *p;
    int64_t n;
    bool loses_tools;       /* the template does not write the tools, tool calls or some messages of the row */
    int64_t n_empty;        /* lvn_chat_row.n_empty */
    const char *other_role; /* lvn_chat_row.other_role */
    bool two_systems;       /* lvn_chat_row.two_systems */
};

/* The state of one thread. */
struct lvn_chat_encoder;
struct lvn_chat_encoder *lvn_chat_encoder_new(const struct lvn_chat *c); /* NULL: out of memory */
void lvn_chat_encoder_free(struct lvn_chat_encoder *e);
/* Encode a row into the arena. *form: that of the row. Errors are one sentence that names the message, without file
 * and line. */
enum lvn_status lvn_chat_encode(struct lvn_chat_encoder *e, struct lvn_arena *a, const json_t *row,
                                enum lvn_chat_form *form, struct lvn_chat_samples *out) LVN_CHECKED;
/* The ids of all messages of a row and the beginning of an answer, in the arena; the last message is no answer. */
enum lvn_status lvn_chat_prompt(struct lvn_chat_encoder *e, struct lvn_arena *a, const json_t *row, int32_t **ids,
                                int64_t *n) LVN_CHECKED;
/* How the template ends an answer: a special token, or -1 and the text that follows (without white space around it; ""
 * if there is none), in the arena. */
enum lvn_status lvn_chat_end(struct lvn_chat_encoder *e, struct lvn_arena *a, int64_t *id,
                             const char **text) LVN_CHECKED;

#endif
