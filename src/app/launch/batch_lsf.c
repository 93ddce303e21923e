/* batch_lsf.c - LSF: each line of LSB_DJOB_HOSTFILE is one slot; blaunch is the remote shell within a job.
 *
 * Source: IBM Spectrum LSF, environment variables, LSB_DJOB_HOSTFILE. */
#include "launch/batch_system.h"

const struct lvn_batch_system lvn_batch_system_lsf = {
    .title = "LSF", .hosts_variable = "LSB_DJOB_HOSTFILE", .remote = "blaunch"};
