/* chat_command.c - levin chat MODEL: a conversation with a model, in a terminal or from a pipe with one message per
 * line.
 *
 * The conversation is rendered with the model's chat template before each answer, and only the tokens after the cached
 * prefix are computed (inference/generation.h). If the conversation exceeds the context, its oldest turns are dropped.
 * Control characters of answers are escaped, so that a model cannot control the terminal. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/work.h"
#include "chat/chat_encode.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/humanize.h"
#include "cli/model_arg.h"
#include "inference/chat_generation.h"
#include "inference/continuation.h"
#include "setup/setup.h"

/* Set by the SIGINT handler; generation of the answer then stops. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static int is_interrupted(void *context)
{
    (void)context;
    return interrupted;
}

struct chat_session {
    struct lvn_cli *c;
    struct lvn_generator generator;
    struct lvn_chat *chat;
    struct lvn_chat_encoder *encoder;
    struct lvn_sampling_options sampling;
    struct lvn_arena arena; /* of `stop` */
    const char *stop;       /* the text that ends an answer; NULL: a token does */
    const char *system;     /* the system message; "": none. Owned */
    json_t *messages;       /* without the system message */
    bool terminal, shows_rate, ended;
    bool is_file; /* stdin is a file, whose remaining messages an interrupt drops; a program at a pipe may continue */
    struct lvn_continuation answer;
    int64_t displayed; /* bytes of the answer that are written */
    double first_token;
};

/* --- an answer --- */

static void display(struct chat_session *session)
{
    const struct lvn_continuation *a = &session->answer;
    char piece[1024];
    while (!session->c->json && session->displayed < a->ready) {
        const int64_t left = a->ready - session->displayed,
                      n = left < (int64_t)sizeof piece ? left : (int64_t)sizeof piece - 1;
        memcpy(piece, a->text.p + session->displayed, (size_t)n);
        piece[n] = 0;
        const int64_t cut = n < left ? lvn_utf8_check(piece, n) : -1; /* within a character */
        if (cut > 0) piece[cut] = 0;
        lvn_cli_put(stdout, piece);
        session->displayed += cut > 0 ? cut : n;
    }
    fflush(stdout);
}

static bool on_token(void *context, int32_t id)
{
    struct chat_session *session = context;
    if (session->first_token == 0) session->first_token = lvn_seconds();
    const bool more = lvn_continuation_add(&session->answer, id);
    display(session);
    return more && !interrupted;
}

/* {"messages": [...]} with the system message, for the template. */
static json_t *conversation(const struct chat_session *session)
{
    json_t *list = json_array();
    if (*session->system &&
        json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", session->system)) != 0) {
        json_decref(list);
        return NULL;
    }
    json_array_extend(list, session->messages);
    return json_pack("{s:o}", "messages", list);
}

static bool is_role(const json_t *message, const char *role)
{
    return strcmp(json_string_value(json_object_get(message, "role")), role) == 0;
}

/* Drop the oldest turn: a user message and everything before the next user message. False: only one turn is left. */
static bool drop_turn(struct chat_session *session)
{
    size_t next = 1;
    while (next < json_array_size(session->messages) && !is_role(json_array_get(session->messages, next), "user"))
        next++;
    if (next >= json_array_size(session->messages)) return false;
    for (size_t i = 0; i < next; i++) json_array_remove(session->messages, 0);
    return true;
}

/* Make the prompt from the most recent turns that leave space for an answer in the context; older turns are removed
 * from `messages`. */
static enum lvn_status drop_to_fit(struct chat_session *session, struct lvn_arena *a, int64_t max_answer, int32_t **ids,
                                   int64_t *n)
{
    const int64_t context = session->generator.setup.block_size,
                  answer_tokens = max_answer < context / 4 ? max_answer : context / 4;
    for (int dropped = 0;; dropped++) {
        json_t *row = conversation(session);
        if (!row) return LVN_MEMORY;
        enum lvn_status status = lvn_chat_prompt(session->encoder, a, row, ids, n);
        json_decref(row);
        LVN_TRY(status);
        if (*n + answer_tokens > context && drop_turn(session)) continue;
        LVN_CHECK(*n < context, ARG,
                  "the message has %" PRId64 " tokens with the system message and the template, and the model's "
                  "context has %" PRId64 ": shorten it",
                  *n, context);
        if (dropped)
            fprintf(stderr, "(the oldest %d turn%s left out: the context has %" PRId64 " tokens)\n", dropped,
                    dropped == 1 ? " is" : "s are", context);
        return LVN_OK;
    }
}

/* Like drop_to_fit(), but if not even the last message fits, the messages stay unchanged. */
static enum lvn_status make_prompt(struct chat_session *session, struct lvn_arena *a, int64_t max_answer, int32_t **ids,
                                   int64_t *n)
{
    json_t *all = json_copy(session->messages);
    if (!all) return LVN_MEMORY;
    const enum lvn_status status = drop_to_fit(session, a, max_answer, ids, n);
    json_decref(status == LVN_OK ? all : session->messages);
    if (status != LVN_OK) session->messages = all;
    return status;
}

static enum lvn_status add_message(struct chat_session *session, const char *role, const char *text, int64_t n)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", json_stringn(text, (size_t)n));
    if (message && json_array_append_new(session->messages, message) == 0) return LVN_OK;
    return lvn_fail(LVN_MEMORY, "not enough memory for the conversation");
}

static enum lvn_status generate(struct chat_session *session, struct lvn_arena *a)
{
    int32_t *ids;
    int64_t n, max_answer = session->c->flag[LVN_FLAG_chat_max_new_tokens].i;
    LVN_TRY(make_prompt(session, a, max_answer, &ids, &n));
    const int64_t capacity = lvn_generator_capacity(&session->generator, n);
    struct lvn_sample sample = {.prompt = ids,
                                .n = n,
                                .number = (int64_t)json_array_size(session->messages) & UINT32_MAX,
                                .max = max_answer < capacity ? max_answer : capacity,
                                .on_token = on_token,
                                .context = session};
    const struct lvn_codec *codec = &session->generator.setup.codec;
    session->answer = (struct lvn_continuation){
        .codec = codec, .stops = &session->stop, .n_stops = session->stop != NULL, .decoding = {.started = true}};
    session->displayed = 0;
    session->first_token = 0;
    const double begin = lvn_seconds();
    enum lvn_status status = lvn_generator_continue(&session->generator, &sample, &session->sampling);
    const bool stopped = status == LVN_STOPPED && interrupted, cut = sample.n_generated == sample.max;
    if (stopped) {
        lvn_error_clear();
        status = LVN_OK;
    }
    lvn_continuation_end(&session->answer);
    display(session);
    const double end = lvn_seconds(), first = session->first_token > 0 ? session->first_token : end;
    if (status == LVN_OK && !session->c->json) printf("\n");
    fflush(stdout);
    if (status == LVN_OK && (stopped || interrupted)) fprintf(stderr, "(stopped)\n");
    if (status == LVN_OK && cut && !interrupted)
        fprintf(stderr, "(cut off after %" PRId64 " tokens: --max-new-tokens, or the model's context)\n",
                sample.n_generated);
    if (status == LVN_OK && session->shows_rate)
        fprintf(stderr,
                "(prompt of %" PRId64 " tokens, %" PRId64 " of them new: first token after %.2f s; %" PRId64
                " tokens, %.1f tokens/s)\n",
                n, sample.n_run, first - begin, sample.n_generated,
                end > first && sample.n_generated > 1 ? (double)(sample.n_generated - 1) / (end - first) : 0);
    lvn_sample_release(&sample);
    return status;
}

/* Add a message and generate its answer. If that fails, the message is removed again. */
static enum lvn_status answer_message(struct chat_session *session, const char *text, int64_t n)
{
    LVN_LOCAL_ARENA(a);
    LVN_CHECK(lvn_utf8_check(text, n) < 0, FORMAT, "the message is not UTF-8");
    LVN_TRY(add_message(session, "user", text, n));
    enum lvn_status status = generate(session, &a);
    if (status == LVN_OK)
        status = add_message(session, "assistant", session->answer.text.p ? session->answer.text.p : "",
                             session->answer.ready);
    else if (json_array_size(session->messages))
        json_array_remove(session->messages, json_array_size(session->messages) - 1);
    lvn_continuation_release(&session->answer);
    return status;
}

/* --- commands --- */

/* Append the conversation to a file, as a row on which `levin train` can train. */
static enum lvn_status save(const struct chat_session *session, const char *path)
{
    LVN_LOCAL_TEXT(text);
    LVN_CHECK(*path, ARG, "/save needs the name of a file");
    LVN_CHECK(json_array_size(session->messages), ARG, "nothing was said yet, so there is nothing to save");
    const long begun = lvn_json_begin();
    json_t *row = conversation(session);
    if (row) lvn_json_add(&text, begun, row, 0);
    json_decref(row);
    lvn_text_add(&text, "\n");
    LVN_TRY(lvn_text_status(&text));
    FILE *f = fopen(path, "a");
    const bool good = f && fwrite(text.p, 1, (size_t)text.n, f) == (size_t)text.n;
    const bool closed = f && fclose(f) == 0;
    LVN_CHECK(good && closed, IO, "cannot write to '%s': %s", path, strerror(errno));
    fprintf(stderr, "(appended to %s)\n", path);
    return LVN_OK;
}

static enum lvn_status set_system(struct chat_session *session, const char *text)
{
    LVN_CHECK(lvn_utf8_check(text, (int64_t)strlen(text)) < 0, FORMAT, "the system message is not UTF-8");
    char *copy = lvn_strdup(text);
    if (!copy) return LVN_MEMORY;
    free((char *)session->system);
    session->system = copy;
    json_array_clear(session->messages);
    fprintf(stderr, "(a new conversation%s)\n", *text ? " with this system message" : " without a system message");
    return LVN_OK;
}

static enum lvn_status run_slash_command(struct chat_session *session, const char *line)
{
    const size_t n = strcspn(line, " ");
    const char *rest = line + n + strspn(line + n, " ");
#define IS(word) (n == strlen(word) && strncmp(line, word, n) == 0)
    if (IS("/system")) return set_system(session, rest);
    if (IS("/save")) return save(session, rest);
    if (IS("/reset")) {
        json_array_clear(session->messages);
        fprintf(stderr, "(a new conversation)\n");
        return LVN_OK;
    }
    if (IS("/quit")) {
        session->ended = true;
        return LVN_OK;
    }
#undef IS
    LVN_FAIL(ARG,
             "'%.40s' is not a command; the commands are /system TEXT, /reset, /save FILE and /quit. To send a message "
             "that begins with a slash, type two slashes",
             line);
}

static enum lvn_status handle_line(struct chat_session *session, char *line, ssize_t n)
{
    while (n && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
    if (!n) return LVN_OK;
    LVN_CHECK((ssize_t)strlen(line) == n, FORMAT, "the message contains a NUL byte");
    if (*line == '/' && line[1] != '/') return run_slash_command(session, line);
    return answer_message(session, line + (*line == '/'), n - (*line == '/'));
}

/* Read lines until the end of the input. In a terminal, an error does not end the conversation. */
static enum lvn_status handle_input(struct chat_session *session)
{
    char *line = NULL;
    size_t capacity = 0;
    enum lvn_status status = LVN_OK;
    while (status == LVN_OK && !session->ended) {
        interrupted = 0;
        if (session->terminal) {
            fprintf(stderr, "> ");
            fflush(stderr); /* main() makes it line-buffered */
        }
        errno = 0;
        const ssize_t n = getline(&line, &capacity, stdin);
        if (n < 0 && errno == EINTR) { /* Ctrl-C at the prompt */
            clearerr(stdin);
            fprintf(stderr, "\n(type Ctrl-D or /quit to leave)\n");
            continue;
        }
        if (n < 0) break;
        interrupted = 0;
        status = handle_line(session, line, n);
        if (status == LVN_OK && interrupted && session->is_file)
            status = lvn_fail(LVN_STOPPED, "stopped on request before the end of the input");
        if (status != LVN_OK && status != LVN_MEMORY && session->terminal) {
            fprintf(stderr, "error: ");
            lvn_cli_put(stderr, levin_error_text());
            fprintf(stderr, "\n");
            lvn_error_clear();
            status = LVN_OK;
        }
    }
    if (session->terminal && !session->ended) fprintf(stderr, "\n");
    free(line);
    return status;
}

/* --- opening --- */

/* Load the weights and run a few tokens, so that the first answer begins without this work. */
static enum lvn_status warm_up(struct chat_session *session)
{
    const int32_t ids[64] = {0};
    const int64_t n = sizeof ids / sizeof *ids, context = session->generator.setup.block_size;
    struct lvn_sampling_options o = session->sampling;
    struct lvn_sample sample = {.prompt = ids, .n = n < context ? n : context - 1, .max = 1};
    if (sample.n < 1) return LVN_OK;
    const enum lvn_status status = lvn_generator_continue(&session->generator, &sample, &o);
    lvn_sample_release(&sample);
    return status;
}

static enum lvn_status open_session(struct chat_session *session)
{
    struct lvn_cli *c = session->c;
    const struct lvn_chat_options o = {.chat_template = c->flag[LVN_FLAG_chat_template].t, .now = true};
    const char *system = c->flag[LVN_FLAG_chat_system].t, *stop;
    int64_t end;
    struct lvn_model_setup setup;
    LVN_CHECK(lvn_utf8_check(system, (int64_t)strlen(system)) < 0, ARG, "--system is not UTF-8");
    const enum lvn_status status = lvn_model_setup_loaded(&setup, &c->settings);
    if (status != LVN_OK) lvn_model_setup_close(&setup);
    LVN_TRY(status);
    LVN_TRY(lvn_generator_open(&session->generator, &setup, &c->settings.values, NULL, true, true));
    LVN_TRY(lvn_generator_open_chat(&session->generator, &o, &session->chat, &session->encoder));
    LVN_TRY(lvn_chat_end(session->encoder, &session->arena, &end, &stop));
    LVN_TRY(lvn_generator_add_end(&session->generator, end));
    session->stop = *stop ? stop : NULL;
    session->sampling.seed = (uint64_t)c->flag[LVN_FLAG_chat_seed].i;
    const struct lvn_choice given = LVN_CLI_CHOICE(c, chat);
    LVN_TRY(lvn_generator_chat_choice(&session->generator, &given, &session->sampling.choice));
    session->messages = json_array();
    session->system = lvn_strdup(system);
    return session->messages && session->system ? warm_up(session) : LVN_MEMORY;
}

static void close_session(struct chat_session *session)
{
    lvn_chat_encoder_free(session->encoder);
    lvn_chat_close(session->chat);
    lvn_generator_close(&session->generator);
    lvn_arena_release(&session->arena);
    json_decref(session->messages);
    free((char *)session->system);
}

enum lvn_status lvn_command_chat(struct lvn_cli *c)
{
    struct chat_session session = {
        .c = c, .terminal = isatty(STDIN_FILENO), .shows_rate = lvn_cli_on(c, LVN_FLAG_chat_stats)};
    struct stat input;
    session.is_file = fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode);
    struct sigaction action = {.sa_handler = on_interrupt}, before; /* without SA_RESTART: it ends getline() */
    LVN_TRY(lvn_cli_model_settings(c, c->operand[0], LVN_USES_MODEL | LVN_USES_DEVICE));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    lvn_arena_init(&session.arena);
    enum lvn_status status = open_session(&session);
    if (status == LVN_OK) {
        if (session.terminal)
            fprintf(stderr, "(/system TEXT, /reset, /save FILE, /quit; Ctrl-C stops an answer, Ctrl-D leaves)\n");
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, &before);
        lvn_interrupt_set(is_interrupted, NULL);
        status = handle_input(&session);
        lvn_interrupt_set(NULL, NULL);
        sigaction(SIGINT, &before, NULL);
    }
    if (status == LVN_OK && c->json) {
        json_t *row = conversation(&session);
        lvn_cli_add(c, "messages", json_incref(json_object_get(row, "messages")));
        json_decref(row);
    }
    close_session(&session);
    return status;
}
