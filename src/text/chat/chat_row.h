/* chat_row.h - a row of data as a conversation. Called by chat_encode.c.
 *
 * Rows, by the first of these members that exists and is not null:
 *
 * - messages, conversations: a list of messages: role, content (a text, or a list of text parts), and what the template
 *   reads (tool_calls, name, ...); or from and value, as in ShareGPT's data
 * - input_ids: token ids, with labels of the same number, or -100 where nothing is trained
 * - prompt + completion: texts, which become a message of the user and an answer; or lists of messages
 * - instruction + output: texts, and optionally `input`: the user's message is the instruction, an empty line and the
 *   input, or one of them if the other is empty
 *
 * Further members: tools (a list, or a list as text; or OpenAI's older `functions`), documents (as tools),
 * chat_template_kwargs (variables for the template). A message of the assistant with train: false, weight: 0 or such a
 * mark of another trainer (take_training() has the list) is not trained. As in transformers, members of messages that
 * are null are left out, and a message's reasoning_content, thinking or reasoning is given to the template under the
 * first two names. Unlike there, arguments of tool calls that are the text of an object become this object where the
 * template writes objects and would write the text otherwise (c->parses_arguments). */
#ifndef LVN_CHAT_ROW_H
#define LVN_CHAT_ROW_H

#include "base/arena.h"
#include "formats/json.h"

enum lvn_chat_form {
    LVN_CHAT_MESSAGES,
    LVN_CHAT_CONVERSATIONS,
    LVN_CHAT_IDS,
    LVN_CHAT_PROMPT,
    LVN_CHAT_INSTRUCTION,
    LVN_CHAT_FORMS
};

/* Roles that some templates do not write. All but the last two come from OpenAI's, Llama's and ShareGPT's data; where
 * the template does not write them, they become user, system or tool. */
enum {
    LVN_CHAT_ROLE_HUMAN,
    LVN_CHAT_ROLE_FUNCTION,
    LVN_CHAT_ROLE_IPYTHON,
    LVN_CHAT_ROLE_DEVELOPER,
    LVN_CHAT_ROLE_SYSTEM,
    LVN_CHAT_ROLE_TOOL,
    LVN_CHAT_ROLES
};
extern const char *const lvn_chat_roles[LVN_CHAT_ROLES];

#define LVN_CHAT_TWO_SYSTEMS "a 'system' or 'system_prompt' that differs from the system message, which levin uses"

struct lvn_chat;
struct lvn_chat_row {
    enum lvn_chat_form form;
    json_t *messages;       /* owned; NULL for LVN_CHAT_IDS */
    json_t *tools;          /* owned, or NULL */
    json_t *documents;      /* owned, or NULL */
    const json_t *source;   /* the row, borrowed */
    bool *is_trained;       /* [number of messages] answers that are not excluded, in the arena */
    int64_t n;              /* messages */
    int64_t n_answers;      /* messages of the assistant */
    int64_t n_empty;        /* of these, trained ones without text, reasoning and tool calls */
    const char *other_role; /* the first role that common templates do not have; NULL: none */
    bool two_systems;       /* `system` or `system_prompt` differs from its system message, which is used */
    const bool *unwritten;  /* lvn_chat.unwritten */
    bool loses_tools; /* set by chat_encode.c: the template does not write its tools, tool calls or some messages */
};

/* Is a role one that the template does not write? */
bool lvn_chat_row_lacks(const struct lvn_chat_row *row, const char *role);
/* Has a message tool calls, or one in OpenAI's older form? */
bool lvn_chat_has_calls(const json_t *message);
/* The members that make the form, for messages. */
const char *lvn_chat_form_text(enum lvn_chat_form form);
/* Errors are one sentence without file and line. lvn_chat_row_release() must follow, after failures too. */
enum lvn_status lvn_chat_row_read(struct lvn_chat_row *row, struct lvn_arena *a, const json_t *source,
                                  const struct lvn_chat *c) LVN_CHECKED;
void lvn_chat_row_release(struct lvn_chat_row *row);

#endif
