/* wire.c - see wire.h. */
#include "cluster/rendezvous/wire.h"

#include <sys/socket.h>
#include <unistd.h>

static const struct {
    const char *name, *fields;
} messages[] = {
#define LVN_MESSAGE(name, fields) {#name, fields},
#include "cluster/rendezvous/messages.def"
};
enum { MESSAGES = sizeof messages / sizeof *messages };

/* Decode in place; false: not valid. "%" alone is the empty text. */
static bool decode(char *word)
{
    char *out = word;
    if (!strcmp(word, "%")) {
        word[0] = '\0';
        return true;
    }
    for (const char *p = word; *p; p++) {
        if (*p != '%') {
            *out++ = *p;
            continue;
        }
        const int64_t byte = lvn_hex_number(p + 1, 2);
        if (byte <= 0) return false;
        *out++ = (char)byte;
        p += 2;
    }
    *out = '\0';
    return true;
}

static void encode(struct lvn_text *out, const char *text)
{
    if (!*text) lvn_text_add(out, "%");
    for (int n = 0; *text && n < LVN_WIRE_TEXT; text++, n++) {
        unsigned char c = (unsigned char)*text;
        if (c <= ' ' || c == '%' || c == 127) {
            lvn_text_printf(out, "%%%02X", c);
        } else {
            lvn_text_add_bytes(out, text, 1);
        }
    }
}

bool lvn_message_parse(char *line, struct lvn_message *message)
{
    int n_i = 0, n_d = 0, n_t = 0;
    char *rest = line, *end, *name = strsep(&rest, " ");
    *message = (struct lvn_message){0};
    int kind = 0;
    while (kind < MESSAGES && strcmp(messages[kind].name, name)) kind++;
    if (kind == MESSAGES) return false;
    message->kind = (enum lvn_message_kind)kind;
    for (const char *f = messages[kind].fields; *f; f++) {
        char *word = rest ? strsep(&rest, " ") : NULL;
        if (!word || !*word) return false;
        errno = 0;
        if (*f == 'i') {
            message->i[n_i++] = strtoll(word, &end, 10);
            if (*end || errno) return false;
        } else if (*f == 'd') {
            message->d[n_d++] = strtod(word, &end);
            if (*end) return false;
        } else {
            if (!decode(word)) return false;
            message->t[n_t++] = word;
        }
    }
    return !rest;
}

void lvn_message_add(struct lvn_text *out, enum lvn_message_kind kind, ...)
{
    va_list list;
    va_start(list, kind);
    lvn_text_add(out, messages[kind].name);
    for (const char *f = messages[kind].fields; *f; f++) {
        lvn_text_add(out, " ");
        if (*f == 'i') lvn_text_printf(out, "%lld", (long long)va_arg(list, int64_t));
        if (*f == 'd') lvn_text_printf(out, "%.9g", va_arg(list, double));
        if (*f == 't') encode(out, va_arg(list, const char *));
    }
    lvn_text_add(out, "\n");
    va_end(list);
}

bool lvn_wire_read(struct lvn_wire *wire)
{
    if (wire->fd < 0) return false;
    if (wire->taken) {
        memmove(wire->in, wire->in + wire->taken, (size_t)(wire->used - wire->taken));
        wire->used -= wire->taken;
        wire->taken = 0;
    }
    while (wire->used < LVN_WIRE_LINE) {
        ssize_t n = recv(wire->fd, wire->in + wire->used, (size_t)(LVN_WIRE_LINE - wire->used), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (n == 0) return false;
        wire->used += (int)n; /* continue reading: this poll must notice the end of the connection (lvn_lost_text) */
    }
    return true;
}

char *lvn_wire_line(struct lvn_wire *wire)
{
    char *start = wire->in + wire->taken, *end = memchr(start, '\n', (size_t)(wire->used - wire->taken));
    if (!end) {
        if (wire->used - wire->taken == LVN_WIRE_LINE) wire->broken = true;
        return NULL;
    }
    *end = '\0';
    wire->taken = (int)(end + 1 - wire->in);
    if (strlen(start) != (size_t)(end - start)) start[0] = '\0'; /* contains a NUL: not a message */
    return start;
}

void lvn_wire_flush(struct lvn_wire *wire)
{
    if (lvn_text_status(&wire->out)) wire->broken = true;
    while (wire->fd >= 0 && !wire->broken && wire->sent < wire->out.n) {
        ssize_t n =
            send(wire->fd, wire->out.p + wire->sent, (size_t)(wire->out.n - wire->sent), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK) wire->broken = true;
            return;
        }
        wire->sent += n;
    }
    if (wire->sent == wire->out.n) {
        lvn_text_clear(&wire->out);
        wire->sent = 0;
    }
}

void lvn_wire_close(struct lvn_wire *wire)
{
    if (wire->fd >= 0) close(wire->fd);
    wire->fd = -1;
    lvn_text_release(&wire->out);
}
