/* ranks_order.h - what levin ranks starts on one host, and how it is sent to the levin ranks there (--part), by a pipe
 * to its standard input. Used by ranks.c alone. Signals, which go through the same pipe later, are not read here. */
#ifndef LVN_RANKS_ORDER_H
#define LVN_RANKS_ORDER_H

#include "cli/process.h"

struct lvn_ranks_order {
    int first; /* rank */
    int n;     /* ranks of this host */
    int size;  /* ranks of the run */
    int node;  /* number of this host */
    int nodes; /* hosts of the run */
    struct lvn_words command;
    struct lvn_words variables; /* NAME=VALUE; of two with one NAME the first counts */
};

/* Add this process's environment behind the variables of the order. */
void lvn_ranks_order_add_environment(struct lvn_ranks_order *o);
/* The value of the first variable that begins with `name` ("NAME="); NULL: there is none. */
const char *lvn_ranks_order_variable(const struct lvn_ranks_order *o, const char *name);
/* Write the order, with the variables that are exported (lvn_launch_exports()) and the current folder, to `fd`. A
 * closed pipe is no error: the child's exit code says what happened. */
enum lvn_status lvn_ranks_order_send(int fd, const struct lvn_ranks_order *o) LVN_CHECKED;
/* Read an order from standard input, change to its folder and add this process's environment. o->command holds the
 * program already; o's words are in `a`. If it holds more words, they are the command, whatever the order says: then
 * the folder stays, too, and of the variables only those count that a launcher sets for its ranks. So a node's launcher
 * never runs what somebody else tells it. ARG: there is no order, or no such folder. */
enum lvn_status lvn_ranks_order_read(struct lvn_arena *a, struct lvn_ranks_order *o) LVN_CHECKED;

#endif
