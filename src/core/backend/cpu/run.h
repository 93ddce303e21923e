/* run.h - functions of the backend cpu for running programs (run.c) and measuring rates (run_rate.c), called through
 * the table in cpu.c. */
#ifndef LVN_CPU_RUN_H
#define LVN_CPU_RUN_H

#include "backend/backend.h"

enum lvn_status lvn_cpu_bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b);
void lvn_cpu_unbind(struct lvn_bound *b);
enum lvn_status lvn_cpu_run(struct lvn_bound *b, const struct lvn_execution *execution);
enum lvn_status lvn_cpu_rate(struct lvn_device *d, enum lvn_rate rate, double *per_s);

#endif
