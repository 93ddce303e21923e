/* ranks_request.h - the request to start the ranks of one host, which `levin ranks` sends to the `levin ranks --part`
 * there, through a pipe to its standard input. Only ranks_launcher.c uses it. Signals, which use the same pipe later,
 * are not read here. */
#ifndef LVN_RANKS_REQUEST_H
#define LVN_RANKS_REQUEST_H

#include "cli/process.h"

struct lvn_ranks_request {
    int first; /* first rank of this host */
    int n;     /* number of ranks of this host */
    int size;  /* number of ranks of the run */
    int node;  /* index of this host */
    int nodes; /* number of hosts of the run */
    struct lvn_words command;
    struct lvn_words variables; /* NAME=VALUE; if a NAME occurs twice, the first is used */
};

/* Append this process's environment to the variables of the request. */
void lvn_ranks_request_add_environment(struct lvn_ranks_request *request);
/* The value of the first variable that begins with `name` ("NAME="); NULL: not found. */
const char *lvn_ranks_request_variable(const struct lvn_ranks_request *request, const char *name);
/* Write the request, with the variables that are exported (lvn_launch_exports()) and the current folder, to `fd`. A
 * closed pipe is not an error, because the child's exit code shows what happened. */
enum lvn_status lvn_ranks_request_send(int fd, const struct lvn_ranks_request *request) LVN_CHECKED;
/* Read a request from standard input, change to its folder and add this process's environment. request->command already
 * contains the program; new words are in `a`. If it contains more words, they are the command, and that of the request
 * is ignored; then the folder does not change, and only variables that a launcher sets for its ranks are used. So a
 * node's launcher never runs a command that it receives. ARG: no request, or no such folder. */
enum lvn_status lvn_ranks_request_read(struct lvn_arena *a, struct lvn_ranks_request *request) LVN_CHECKED;

#endif
