/* devices.h - which devices the ranks of a run compute on, and how these exchange numbers.
 *
 * Ranks of a host take its devices in turns, those of trainer.devices where that lists some. Two ranks on one device,
 * which is told by its id and not by its number (launchers may show each rank another one as number 0), is refused
 * unless trainer.share_devices says so. Where each rank has a device of its own, and its backend a library for that
 * (NCCL), the sums of a step go from device to device; everything else that ranks do together is small, and goes as it
 * does on processors. */
#ifndef LVN_DEVICES_H
#define LVN_DEVICES_H

#include "engine/ranks.h"

/* Are as many nodes and ranks there as the settings say, and has each rank a device? The same answer on all ranks. */
enum lvn_status lvn_ranks_check(struct lvn_ranks *r, const struct lvn_settings *s) LVN_CHECKED;
/* Which device of s's accelerator this rank computes on: the one of its number among the ranks of its host. */
enum lvn_status lvn_ranks_device(const struct lvn_ranks *r, const struct lvn_settings *s, int *number) LVN_CHECKED;
/* Have the devices of all ranks exchange by themselves, where they can and lvn_ranks_check() passed; rank 0 logs how
 * they do. The same status on all ranks. */
enum lvn_status lvn_ranks_group(struct lvn_ranks *r, struct lvn_device *d, const struct lvn_settings *s) LVN_CHECKED;
/* The device is about to be closed. */
void lvn_ranks_ungroup(struct lvn_ranks *r);
/* A rank is lost: end what this device waits for. Any thread; not longer than some moments. */
void lvn_ranks_give_up(struct lvn_ranks *r);

#endif
