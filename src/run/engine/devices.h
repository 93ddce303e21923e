/* devices.h - assigns a device to each rank, and decides how devices exchange data.
 *
 * `levin train` and `bench` call it once ranks have joined. Ranks of a host use its devices (those of trainer.devices
 * if it lists some) in turn, by local rank. Two ranks on one device are refused unless trainer.share_devices allows it;
 * each then plans for an equal part of its memory. A device is identified by its id instead of its index, because
 * launchers may present a different device as index 0 to each rank. If each rank has its own device and a library
 * supports its memory (for cuda NCCL; a row of comm/comm_kinds.def), the gradient sums of a step run between devices;
 * all other collectives are small and use the CPUs. */
#ifndef LVN_DEVICES_H
#define LVN_DEVICES_H

#include "engine/ranks.h"

/* Does the run have the numbers of nodes and ranks that were given, and each rank a device? Same status on all
 * ranks. */
enum lvn_status lvn_ranks_check(struct lvn_ranks *r, const struct lvn_values *v) LVN_CHECKED;
/* *number: index of this rank's device, by local rank, among the devices of trainer.accelerator. */
enum lvn_status lvn_ranks_device(const struct lvn_ranks *r, const struct lvn_values *v, int *number) LVN_CHECKED;
/* Create a communicator between the devices of all ranks, if possible and lvn_ranks_check() passed; rank 0 logs how the
 * ranks exchange data. Same status on all ranks. */
enum lvn_status lvn_ranks_group(struct lvn_ranks *r, struct lvn_device *d, const struct lvn_values *v) LVN_CHECKED;
/* Call before the device is closed. */
void lvn_ranks_ungroup(struct lvn_ranks *r);
/* After a rank is lost: abort the communication for which this device waits. Any thread; lasts a few seconds at most.
 */
void lvn_ranks_give_up(struct lvn_ranks *r);

#endif
