/* benchmark_private.h - the readers of benchmarks; for src/text/benchmarks alone. */
#ifndef LVN_BENCHMARK_PRIVATE_H
#define LVN_BENCHMARK_PRIVATE_H

#include "base/list.h"
#include "benchmarks/prompts.h"

/* Append an empty task. */
enum lvn_status lvn_benchmarks_add(struct lvn_benchmarks *b, struct lvn_benchmark **out) LVN_CHECKED;
/* benchmark_harness.c */
enum lvn_status lvn_harness_read(struct lvn_benchmarks *b, struct lvn_prompts *p, const char *path) LVN_CHECKED;
/* benchmark_core.c */
enum lvn_status lvn_core_read(struct lvn_benchmarks *b, struct lvn_prompts *p, const char *folder) LVN_CHECKED;

#endif
