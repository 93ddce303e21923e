/* batch_pbs.c - OpenPBS, PBS Pro and Torque: a line of PBS_NODEFILE for each slot, so a host stands there several
 * times.
 *
 * Source: PBS Professional user's guide, "the job's node file". */
#include "cli/launch/batch_system.h"

const struct lvn_batch_system lvn_batch_system_pbs = {.title = "PBS", .file = "PBS_NODEFILE", .remote = "pbs_tmrsh"};
