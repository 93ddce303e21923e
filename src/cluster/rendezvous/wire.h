/* wire.h - lines of text over a connection, and what they mean.
 *
 * A message is one line: its name and its fields, divided by blanks. Texts are encoded like parts of a URL, so that
 * they hold neither blanks nor line ends. What cannot be read is no message; whoever sent it is cut off. */
#ifndef LVN_WIRE_H
#define LVN_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

enum lvn_message_kind {
#define LVN_MESSAGE(name, fields) LVN_MESSAGE_##name,
#include "cluster/rendezvous/messages.def"
#undef LVN_MESSAGE
};

enum { LVN_WIRE_LINE = 8192, LVN_WIRE_TEXT = 2000 }; /* bytes of a line; of one text in it, before encoding */

/* Fields in their order, by type. Texts point into the line. */
struct lvn_message {
    enum lvn_message_kind kind;
    int64_t i[8];
    double d[3];
    const char *t[3];
};

/* The line (changed) without its end; false when it is no message. */
bool lvn_message_parse(char *line, struct lvn_message *m);
/* Add a message. Fields as int64_t, double and const char *, in their order. Texts are cut at LVN_WIRE_TEXT. */
void lvn_message_add(struct lvn_text *out, enum lvn_message_kind kind, ...);

/* A connection that never blocks. All zero but fd is a fresh one. */
struct lvn_wire {
    int fd; /* -1: closed */
    bool broken;
    int used, taken; /* bytes read; of them, given out as lines */
    struct lvn_text out;
    int64_t sent;
    char in[LVN_WIRE_LINE];
};
/* Read what is there. False when the other side has closed or the connection has failed; lines may be left. */
bool lvn_wire_read(struct lvn_wire *w);
/* The next whole line, NULL: none yet. A line that is too long sets `broken`. Valid until the next read. */
char *lvn_wire_line(struct lvn_wire *w);
/* Send what can be sent now. */
void lvn_wire_flush(struct lvn_wire *w);
void lvn_wire_close(struct lvn_wire *w);

#endif
