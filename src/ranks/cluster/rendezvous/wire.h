/* wire.h - messages as lines of text over a nonblocking connection, for members and the server; messages.def lists
 * them.
 *
 * A message is one line: its name and its fields, separated by blanks. Texts are percent-encoded, so that they contain
 * neither blanks nor line ends. A connection that sends an invalid line is closed. */
#ifndef LVN_WIRE_H
#define LVN_WIRE_H

#include "base/text.h"

enum lvn_message_kind {
#define LVN_MESSAGE(name, fields) LVN_MESSAGE_##name,
#include "cluster/rendezvous/messages.def"
};

enum { LVN_WIRE_LINE = 8192, LVN_WIRE_TEXT = 2000 }; /* bytes of a line; of one text before encoding */

/* The fields in order, by type. Texts point into the line. */
struct lvn_message {
    enum lvn_message_kind kind;
    int64_t i[8];
    double d[3];
    const char *t[3];
};

/* Parse a line without its end; modifies it. False: not a valid message. */
bool lvn_message_parse(char *line, struct lvn_message *message);
/* Append a message. Fields are int64_t, double and const char *, in order. Texts are truncated to LVN_WIRE_TEXT. */
void lvn_message_add(struct lvn_text *out, enum lvn_message_kind kind, ...);

/* A nonblocking connection. Initially all zero except fd. */
struct lvn_wire {
    int fd; /* -1: closed */
    bool broken;
    int used;            /* bytes in `in` */
    int taken;           /* bytes of them that were returned as lines */
    struct lvn_text out; /* lines to send */
    int64_t sent;        /* bytes of `out` that are sent */
    char in[LVN_WIRE_LINE];
};
/* Read available bytes. False: the peer has closed, or the connection has failed; complete lines may be left. */
bool lvn_wire_read(struct lvn_wire *wire);
/* The next complete line; NULL: none yet. A line that is too long sets `broken`. Valid until the next read. */
char *lvn_wire_line(struct lvn_wire *wire);
/* Send as much as possible now. */
void lvn_wire_flush(struct lvn_wire *wire);
void lvn_wire_close(struct lvn_wire *wire);

#endif
