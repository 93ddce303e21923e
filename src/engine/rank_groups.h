/* rank_groups.h - communicators of the groups of ranks that divide the model among them (trainer.fsdp_size), and of the
 * ranks of all groups that own the same shards.
 *
 * train_programs.c makes them when the number of a group is known; reduction.c runs collectives on them. */
#ifndef LVN_RANK_GROUPS_H
#define LVN_RANK_GROUPS_H

#include "engine/ranks.h"
#include "passes/program.h"

struct lvn_rank_groups;

/* All ranks, after the devices were joined: divide them into groups of `group` consecutive ranks. 0: there are no
 * groups, and nothing is done. */
enum lvn_status lvn_ranks_divide(struct lvn_ranks *r, int group) LVN_CHECKED;
/* Close what lvn_ranks_divide() made; before the communicators of all ranks. */
void lvn_ranks_undivide(struct lvn_ranks *r);
/* The communicator of a collective, between processors or between devices. */
struct lvn_comm *lvn_ranks_comm(const struct lvn_ranks *r, enum lvn_scope scope, bool device);
/* As lvn_comm_cancel(), of those between devices. */
void lvn_rank_groups_cancel(const struct lvn_rank_groups *g);

#endif
