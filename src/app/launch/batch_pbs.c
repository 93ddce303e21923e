/* batch_pbs.c - OpenPBS, PBS Pro and Torque: each line of PBS_NODEFILE is one slot, so a host may occur several times;
 * pbs_tmrsh is the remote shell within a job.
 *
 * Source: PBS Professional user's guide, "the job's node file". */
#include "launch/batch_system.h"

const struct lvn_batch_system lvn_batch_system_pbs = {
    .title = "PBS", .hosts_variable = "PBS_NODEFILE", .remote = "pbs_tmrsh"};
