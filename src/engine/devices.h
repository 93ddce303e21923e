/* devices.h - which device each rank computes on, and how devices exchange data.
 *
 * `levin train` and `bench` call it once ranks have joined. Ranks of a host take its devices (those of trainer.devices
 * if it lists some) in turn, by their local ranks. Two ranks on one device are refused unless trainer.share_devices
 * allows it; a device is recognised by its id, not its index, since launchers may show each rank another device as
 * index 0. If each rank has a device of its own, and there is a library for its memory (for cuda NCCL; a row of
 * comm/comm_kinds.def), the sums of a step go from device to device; all other collectives are small and go through the
 * processors. */
#ifndef LVN_DEVICES_H
#define LVN_DEVICES_H

#include "engine/ranks.h"

/* Are there as many nodes and ranks as the settings say, and has each rank a device? The same status on all ranks. */
enum lvn_status lvn_ranks_check(struct lvn_ranks *r, const struct lvn_settings *s) LVN_CHECKED;
/* *number: index of the device of s's accelerator that this rank computes on, by its local rank. */
enum lvn_status lvn_ranks_device(const struct lvn_ranks *r, const struct lvn_settings *s, int *number) LVN_CHECKED;
/* Make the devices of all ranks one group that exchanges by itself, if they can and lvn_ranks_check() passed; rank 0
 * logs how the ranks exchange. The same status on all ranks. */
enum lvn_status lvn_ranks_group(struct lvn_ranks *r, struct lvn_device *d, const struct lvn_settings *s) LVN_CHECKED;
/* Call before the device is closed. */
void lvn_ranks_ungroup(struct lvn_ranks *r);
/* A rank is lost: abort the group's communication, for which this device waits. Any thread; takes a few seconds at
 * most. */
void lvn_ranks_give_up(struct lvn_ranks *r);

#endif
