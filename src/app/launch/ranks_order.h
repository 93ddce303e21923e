/* ranks_order.h - the order of levin ranks for one host, and how it is sent to the levin ranks there (--part), through
 * a pipe to its standard input. Only ranks_launcher.c uses it. Signals, which use the same pipe later, are not read
 * here. */
#ifndef LVN_RANKS_ORDER_H
#define LVN_RANKS_ORDER_H

#include "cli/process.h"

struct lvn_ranks_order {
    int first; /* first rank of this host */
    int n;     /* number of ranks of this host */
    int size;  /* number of ranks of the run */
    int node;  /* index of this host */
    int nodes; /* number of hosts of the run */
    struct lvn_words command;
    struct lvn_words variables; /* NAME=VALUE; if a NAME occurs twice, the first is used */
};

/* Append this process's environment to the variables of the order. */
void lvn_ranks_order_add_environment(struct lvn_ranks_order *order);
/* The value of the first variable that begins with `name` ("NAME="); NULL: not found. */
const char *lvn_ranks_order_variable(const struct lvn_ranks_order *order, const char *name);
/* Write the order, with the variables that are exported (lvn_launch_exports()) and the current folder, to `fd`. A
 * closed pipe is not an error, because the child's exit code shows what happened. */
enum lvn_status lvn_ranks_order_send(int fd, const struct lvn_ranks_order *order) LVN_CHECKED;
/* Read an order from standard input, change to its folder and add this process's environment. order->command already
 * contains the program; new words are in `a`. If it contains more words, they are the command, and that of the order is
 * ignored; then the folder does not change, and only variables that a launcher sets for its ranks are used. So a node's
 * launcher never runs a command that it receives. ARG: no order, or no such folder. */
enum lvn_status lvn_ranks_order_read(struct lvn_arena *a, struct lvn_ranks_order *order) LVN_CHECKED;

#endif
