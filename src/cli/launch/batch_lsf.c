/* batch_lsf.c - LSF: a line of LSB_DJOB_HOSTFILE for each slot; blaunch reaches the hosts of a job.
 *
 * Source: IBM Spectrum LSF, environment variables, LSB_DJOB_HOSTFILE. */
#include "cli/launch/batch_system.h"

const struct lvn_batch_system lvn_batch_system_lsf = {.title = "LSF", .file = "LSB_DJOB_HOSTFILE", .remote = "blaunch"};
