/* node_agent.h - levin launch on a node other than node 0; launch.c calls it. */
#ifndef LVN_NODE_AGENT_H
#define LVN_NODE_AGENT_H

#include "launch/launch.h"

/* Start ranks as node 0 requests, until it has sent the launch's exit code: *code. */
enum lvn_status lvn_node_agent_run(struct lvn_launch *l, int *code) LVN_CHECKED;

#endif
