/* evaluate_tasks.h - `levin evaluate MODEL --tasks`: the scores of a model in benchmark tasks; called by evaluate.c. */
#ifndef LVN_EVALUATE_TASKS_H
#define LVN_EVALUATE_TASKS_H

#include "cli/cli.h"

enum lvn_status lvn_evaluate_tasks(struct lvn_cli *c) LVN_CHECKED;
/* ARG for an option that has an effect with --tasks alone. */
enum lvn_status lvn_evaluate_without_tasks(const struct lvn_cli *c) LVN_CHECKED;

#endif
