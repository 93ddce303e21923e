/* rank_groups.h - communicators of the groups of ranks that shard one copy of the model (trainer.fsdp_size), and of the
 * ranks of all groups that own the same shards.
 *
 * train_programs.c creates them when the size of a group is known; collective_runner.c runs collectives on them. */
#ifndef LVN_RANK_GROUPS_H
#define LVN_RANK_GROUPS_H

#include "engine/ranks.h"
#include "passes/program.h"

struct lvn_rank_groups;

/* All ranks, after the communicators between devices exist: divide them into groups of `group` consecutive ranks. Does
 * nothing if it is 0. */
enum lvn_status lvn_ranks_divide(struct lvn_ranks *r, int group) LVN_CHECKED;
/* Close the communicators of lvn_ranks_divide(); call it before closing those of all ranks. */
void lvn_ranks_undivide(struct lvn_ranks *r);
/* The communicator of a collective, between CPUs or between devices. */
struct lvn_comm *lvn_ranks_comm(const struct lvn_ranks *r, enum lvn_scope scope, bool device);
/* lvn_comm_cancel() for the communicators between devices. */
void lvn_rank_groups_cancel(const struct lvn_rank_groups *g);

#endif
