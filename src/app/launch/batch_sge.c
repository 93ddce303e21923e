/* batch_sge.c - Grid Engine and its descendants: each line of PE_HOSTFILE is one host, "node1 4 all.q@node1 UNDEFINED";
 * the second word is its number of slots. In a parallel environment with control_slaves, qrsh is the remote shell.
 *
 * Source: sge_pe(5), qrsh(1). */
#include "launch/batch_system.h"

const struct lvn_batch_system lvn_batch_system_sge = {
    .title = "Grid Engine", .hosts_variable = "PE_HOSTFILE", .has_slots = true, .remote = "qrsh -inherit"};
