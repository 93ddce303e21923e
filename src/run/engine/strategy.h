/* strategy.h - the values of trainer.strategy for several ranks: what is sharded among them.
 *
 * train_programs.c plans with it, and auto tries the list; memory advice and `levin plan --fit` choose from it. */
#ifndef LVN_STRATEGY_H
#define LVN_STRATEGY_H

#include "options/values.h"
#include "passes/program.h"

/* The name of strategy i; each shards more than the previous one. NULL: no more. */
const char *lvn_strategy_at(int i);
/* Set of enum lvn_shards for trainer.strategy and the other settings; with auto the set that is tried first. */
unsigned lvn_strategy_shards(const struct lvn_values *v);
/* The next set after `shards` that the other settings allow; 0: none. */
unsigned lvn_strategy_more(const struct lvn_values *v, unsigned shards);
/* The name of the strategy that shards this set. */
const char *lvn_strategy_name(const struct lvn_values *v, unsigned shards);
/* *group: number of ranks that shard the parameters among them, by trainer.fsdp_size; 0: all ranks. ARG: it does not
 * divide their number. */
enum lvn_status lvn_strategy_group(const struct lvn_values *v, int size, int *group) LVN_CHECKED;
/* If other settings prevent trainer.strategy from sharding something: write a sentence about it and return true. */
bool lvn_strategy_note(const struct lvn_values *v, char *text, size_t capacity);
/* The strategy that shards the most with the other settings, and its name. */
const char *lvn_strategy_smallest(const struct lvn_values *v, enum lvn_trainer_strategy *strategy);

#endif
