/* strategy.h - the values of trainer.strategy for several ranks: what each of them keeps in shards.
 *
 * train_programs.c plans by it, and auto goes through the list; memory advice and `levin plan --fit` choose from it. */
#ifndef LVN_STRATEGY_H
#define LVN_STRATEGY_H

#include "passes/program.h"
#include "settings/settings.h"

/* The name of the i-th; each has more in shards than those before it. NULL: there are no more. */
const char *lvn_strategy_at(int i);
/* Set of enum lvn_shards that trainer.strategy and the other settings make; with auto what is tried first. */
unsigned lvn_strategy_shards(const struct lvn_settings *s);
/* The next set after `shards` that is possible beside the other settings; 0: there is none. */
unsigned lvn_strategy_more(const struct lvn_settings *s, unsigned shards);
/* The name of the strategy that has this set in shards. */
const char *lvn_strategy_name(const struct lvn_settings *s, unsigned shards);
/* *group: how many ranks divide the parameters among them, by trainer.fsdp_size; 0: all of them. ARG: it does not
 * divide their number. */
enum lvn_status lvn_strategy_group(const struct lvn_settings *s, int size, int *group) LVN_CHECKED;
/* If trainer.strategy keeps something whole because of the other settings: write a sentence on it, and return true. */
bool lvn_strategy_note(const struct lvn_settings *s, char *text, size_t capacity);
/* The strategy with the most in shards that is possible beside the other settings, and its name. */
const char *lvn_strategy_smallest(const struct lvn_settings *s, enum lvn_trainer_strategy *strategy);

#endif
