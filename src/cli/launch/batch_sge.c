/* batch_sge.c - Grid Engine and its kin: a line of PE_HOSTFILE for each host, "node1 4 all.q@node1 UNDEFINED", whose
 * second word is its number of slots. In a parallel environment with control_slaves, qrsh reaches the job's hosts.
 *
 * Source: sge_pe(5), qrsh(1). */
#include "cli/launch/batch_system.h"

const struct lvn_batch_system lvn_batch_system_sge = {
    .title = "Grid Engine", .file = "PE_HOSTFILE", .counts = true, .remote = "qrsh -inherit"};
