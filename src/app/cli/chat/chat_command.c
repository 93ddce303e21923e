/* chat_command.c - levin chat MODEL: a conversation with a model, in a terminal or from a pipe with a message a line.
 *
 * The conversation is rendered with the model's chat template before each answer, and only the tokens that follow the
 * last text are run (inference/generation.h). What does not fit into the context is left out by whole turns, the oldest
 * first. Control characters of answers are escaped, so that a model cannot control the terminal. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Set by the handler of SIGINT: the answer ends. */
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

struct talk {
    struct lvn_cli *c;
    struct lvn_generator g;
    struct lvn_chat *chat;
    struct lvn_chat_encoder *encoder;
    struct lvn_sampling_options sampling;
    struct lvn_arena arena; /* of `stop` */
    const char *stop;       /* the text that ends an answer; NULL: a token does */
    const char *system;     /* the system message; "": none. Owned */
    json_t *messages;       /* without the system message */
    bool terminal, shows_rate, ended;
    struct lvn_continuation answer;
    int64_t displayed; /* bytes of the answer that are written */
    double first_token;
};

/* --- an answer --- */

static void display(struct talk *t)
{
    const struct lvn_continuation *a = &t->answer;
    char piece[1024];
    while (!t->c->json && t->displayed < a->ready) {
        const int64_t left = a->ready - t->displayed,
                      n = left < (int64_t)sizeof piece ? left : (int64_t)sizeof piece - 1;
        memcpy(piece, a->text.p + t->displayed, (size_t)n);
        piece[n] = 0;
        const int64_t cut = n < left ? lvn_utf8_check(piece, n) : -1; /* within a character */
        if (cut > 0) piece[cut] = 0;
        lvn_cli_put(stdout, piece);
        t->displayed += cut > 0 ? cut : n;
    }
    fflush(stdout);
}

static bool on_token(void *context, int32_t id)
{
    struct talk *t = context;
    if (t->first_token == 0) t->first_token = lvn_seconds();
    const bool more = lvn_continuation_add(&t->answer, id);
    display(t);
    return more && !interrupted;
}

/* {"messages": [...]} with the system message, for the template. */
static json_t *conversation(const struct talk *t)
{
    json_t *list = json_array();
    if (*t->system) json_array_append_new(list, json_pack("{s:s, s:s}", "role", "system", "content", t->system));
    json_array_extend(list, t->messages);
    return json_pack("{s:o}", "messages", list);
}

static bool is_role(const json_t *message, const char *role)
{
    return strcmp(json_string_value(json_object_get(message, "role")), role) == 0;
}

/* Leaves out the oldest turn: a message of the user, and all up to the next one. False: it is the only one. */
static bool drop_turn(struct talk *t)
{
    size_t next = 1;
    while (next < json_array_size(t->messages) && !is_role(json_array_get(t->messages, next), "user")) next++;
    if (next >= json_array_size(t->messages)) return false;
    for (size_t i = 0; i < next; i++) json_array_remove(t->messages, 0);
    return true;
}

/* The prompt, with as many turns as fit into the context beside an answer; the others are left out of t->messages. */
static enum lvn_status drop_to_fit(struct talk *t, struct lvn_arena *a, int64_t max_answer, int32_t **ids, int64_t *n)
{
    const int64_t context = t->g.setup.block_size, room = max_answer < context / 4 ? max_answer : context / 4;
    for (int dropped = 0;; dropped++) {
        json_t *row = conversation(t);
        if (!row) return LVN_MEMORY;
        enum lvn_status status = lvn_chat_prompt(t->encoder, a, row, ids, n);
        json_decref(row);
        LVN_TRY(status);
        if (*n + room > context && drop_turn(t)) continue;
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

/* As drop_to_fit(). If not even the last message fits, nothing is left out. */
static enum lvn_status make_prompt(struct talk *t, struct lvn_arena *a, int64_t max_answer, int32_t **ids, int64_t *n)
{
    json_t *all = json_copy(t->messages);
    if (!all) return LVN_MEMORY;
    const enum lvn_status status = drop_to_fit(t, a, max_answer, ids, n);
    json_decref(status == LVN_OK ? all : t->messages);
    if (status != LVN_OK) t->messages = all;
    return status;
}

static enum lvn_status add_message(struct talk *t, const char *role, const char *text, int64_t n)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", json_stringn(text, (size_t)n));
    if (message && json_array_append_new(t->messages, message) == 0) return LVN_OK;
    return lvn_fail(LVN_MEMORY, "not enough memory for the conversation");
}

static enum lvn_status generate(struct talk *t, struct lvn_arena *a)
{
    int32_t *ids;
    int64_t n, max_answer = t->c->flag[LVN_FLAG_chat_max_new_tokens].i;
    LVN_TRY(make_prompt(t, a, max_answer, &ids, &n));
    const int64_t capacity = lvn_generator_capacity(&t->g, n);
    struct lvn_sample sample = {.prompt = ids,
                                .n = n,
                                .number = (int64_t)json_array_size(t->messages) & UINT32_MAX,
                                .max = max_answer < capacity ? max_answer : capacity,
                                .on_token = on_token,
                                .context = t};
    const struct lvn_codec *codec = &t->g.setup.codec;
    t->answer = (struct lvn_continuation){
        .codec = codec, .stops = &t->stop, .n_stops = t->stop != NULL, .decoding = {.started = true}};
    t->displayed = 0;
    t->first_token = 0;
    const double begin = lvn_seconds();
    enum lvn_status status = lvn_generator_continue(&t->g, &sample, &t->sampling);
    const bool stopped = status == LVN_STOPPED && interrupted, cut = sample.n_generated == sample.max;
    if (stopped) {
        lvn_error_clear();
        status = LVN_OK;
    }
    lvn_continuation_end(&t->answer);
    display(t);
    const double end = lvn_seconds(), first = t->first_token > 0 ? t->first_token : end;
    if (status == LVN_OK && !t->c->json) printf("\n");
    fflush(stdout);
    if (status == LVN_OK && (stopped || interrupted)) fprintf(stderr, "(stopped)\n");
    if (status == LVN_OK && cut && !interrupted)
        fprintf(stderr, "(cut off after %" PRId64 " tokens: --max-new-tokens, or the model's context)\n",
                sample.n_generated);
    if (status == LVN_OK && t->shows_rate)
        fprintf(stderr, "(prompt of %" PRId64 " tokens: first token after %.2f s; %" PRId64 " tokens, %.1f tokens/s)\n",
                n, first - begin, sample.n_generated,
                end > first && sample.n_generated > 1 ? (double)(sample.n_generated - 1) / (end - first) : 0);
    lvn_sample_release(&sample);
    return status;
}

/* Adds a message and its answer. A message that cannot be answered is taken back, and the conversation continues. */
static enum lvn_status say(struct talk *t, const char *text, int64_t n)
{
    LVN_LOCAL_ARENA(a);
    LVN_CHECK(lvn_utf8_check(text, n) < 0, FORMAT, "the message is not UTF-8");
    LVN_TRY(add_message(t, "user", text, n));
    enum lvn_status status = generate(t, &a);
    if (status == LVN_OK)
        status = add_message(t, "assistant", t->answer.text.p ? t->answer.text.p : "", t->answer.ready);
    else if (json_array_size(t->messages))
        json_array_remove(t->messages, json_array_size(t->messages) - 1);
    lvn_continuation_release(&t->answer);
    return status;
}

/* --- commands --- */

/* Appends the conversation to a file, as a row on which `levin train` can train. */
static enum lvn_status save(const struct talk *t, const char *path)
{
    LVN_LOCAL_TEXT(text);
    LVN_CHECK(*path, ARG, "/save needs the name of a file");
    LVN_CHECK(json_array_size(t->messages), ARG, "nothing was said yet, so there is nothing to save");
    const long begun = lvn_json_begin();
    json_t *row = conversation(t);
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

static enum lvn_status set_system(struct talk *t, const char *text)
{
    char *copy = lvn_strdup(text);
    if (!copy) return LVN_MEMORY;
    free((char *)t->system);
    t->system = copy;
    json_array_clear(t->messages);
    fprintf(stderr, "(a new conversation%s)\n", *text ? " with this system message" : " without a system message");
    return LVN_OK;
}

static enum lvn_status obey(struct talk *t, const char *line)
{
    const size_t n = strcspn(line, " ");
    const char *rest = line + n + strspn(line + n, " ");
#define IS(word) (n == strlen(word) && strncmp(line, word, n) == 0)
    if (IS("/system")) return set_system(t, rest);
    if (IS("/save")) return save(t, rest);
    if (IS("/reset")) {
        json_array_clear(t->messages);
        fprintf(stderr, "(a new conversation)\n");
        return LVN_OK;
    }
    if (IS("/quit")) {
        t->ended = true;
        return LVN_OK;
    }
#undef IS
    LVN_FAIL(ARG,
             "%.40s is no command; there are /system TEXT, /reset, /save FILE and /quit. A message that begins with a "
             "slash is written with two",
             line);
}

static enum lvn_status take_line(struct talk *t, char *line, ssize_t n)
{
    while (n && (line[n - 1] == '\n' || line[n - 1] == '\r')) line[--n] = 0;
    if (!n) return LVN_OK;
    LVN_CHECK((ssize_t)strlen(line) == n, FORMAT, "the message has a zero byte");
    if (*line == '/' && line[1] != '/') return obey(t, line);
    return say(t, line + (*line == '/'), n - (*line == '/'));
}

/* Reads lines to the end of the input. In a terminal an error ends no conversation. */
static enum lvn_status converse(struct talk *t)
{
    char *line = NULL;
    size_t capacity = 0;
    enum lvn_status status = LVN_OK;
    while (status == LVN_OK && !t->ended) {
        interrupted = 0;
        if (t->terminal) fprintf(stderr, "> ");
        errno = 0;
        const ssize_t n = getline(&line, &capacity, stdin);
        if (n < 0 && errno == EINTR) { /* Ctrl-C at the prompt */
            clearerr(stdin);
            fprintf(stderr, "\n(Ctrl-D or /quit ends)\n");
            continue;
        }
        if (n < 0) break;
        interrupted = 0;
        status = take_line(t, line, n);
        if (status != LVN_OK && status != LVN_MEMORY && t->terminal) {
            fprintf(stderr, "error: ");
            lvn_cli_put(stderr, levin_error_text());
            fprintf(stderr, "\n");
            lvn_error_clear();
            status = LVN_OK;
        }
    }
    if (t->terminal && !t->ended) fprintf(stderr, "\n");
    free(line);
    return status;
}

/* --- opening --- */

/* Loads the weights and runs a few tokens, so that the first answer begins without this work. */
static enum lvn_status warm_up(struct talk *t)
{
    const int32_t ids[64] = {0};
    const int64_t n = sizeof ids / sizeof *ids, context = t->g.setup.block_size;
    struct lvn_sampling_options o = t->sampling;
    struct lvn_sample sample = {.prompt = ids, .n = n < context ? n : context - 1, .max = 1};
    if (sample.n < 1) return LVN_OK;
    const enum lvn_status status = lvn_generator_continue(&t->g, &sample, &o);
    lvn_sample_release(&sample);
    return status;
}

static enum lvn_status open_talk(struct talk *t)
{
    struct lvn_cli *c = t->c;
    const struct lvn_chat_options o = {.chat_template = c->flag[LVN_FLAG_chat_template].t, .now = true};
    int64_t end;
    const char *stop;
    LVN_TRY(lvn_generator_open(&t->g, &c->settings, NULL, true));
    LVN_TRY(lvn_generator_open_chat(&t->g, &o, &t->chat, &t->encoder));
    LVN_TRY(lvn_chat_end(t->encoder, &t->arena, &end, &stop));
    LVN_TRY(lvn_generator_add_end(&t->g, end));
    t->stop = *stop ? stop : NULL;
    t->sampling.seed = (uint64_t)c->flag[LVN_FLAG_chat_seed].i;
    const struct lvn_choice given = LVN_CLI_CHOICE(c, chat);
    LVN_TRY(lvn_generator_chat_choice(&t->g, &given, &t->sampling.choice));
    t->messages = json_array();
    t->system = lvn_strdup(c->flag[LVN_FLAG_chat_system].t);
    return t->messages && t->system ? warm_up(t) : LVN_MEMORY;
}

static void close_talk(struct talk *t)
{
    lvn_chat_encoder_free(t->encoder);
    lvn_chat_close(t->chat);
    lvn_generator_close(&t->g);
    lvn_arena_release(&t->arena);
    json_decref(t->messages);
    free((char *)t->system);
}

enum lvn_status lvn_command_chat(struct lvn_cli *c)
{
    struct talk t = {.c = c, .terminal = isatty(STDIN_FILENO), .shows_rate = lvn_cli_on(c, LVN_FLAG_chat_stats)};
    struct sigaction action = {.sa_handler = on_interrupt}, before; /* without SA_RESTART: it ends getline() */
    LVN_TRY(lvn_cli_model_settings(c, c->operand[0], LVN_USES_MODEL | LVN_USES_DEVICE));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    lvn_arena_init(&t.arena);
    enum lvn_status status = open_talk(&t);
    if (status == LVN_OK) {
        if (t.terminal)
            fprintf(stderr, "(/system TEXT, /reset, /save FILE, /quit; Ctrl-C stops an answer, Ctrl-D ends)\n");
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, &before);
        lvn_interrupt_set(is_interrupted, NULL);
        status = converse(&t);
        lvn_interrupt_set(NULL, NULL);
        sigaction(SIGINT, &before, NULL);
    }
    if (status == LVN_OK && c->json) {
        json_t *row = conversation(&t);
        lvn_cli_add(c, "messages", json_incref(json_object_get(row, "messages")));
        json_decref(row);
    }
    close_talk(&t);
    return status;
}
