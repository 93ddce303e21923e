/* device_list.h - trainer.devices as numbers: how many devices of a node a run uses, or which.
 *
 * settings_check.c and engine/devices.c call it. engine/devices.c checks whether this machine has these devices. */
#ifndef LVN_DEVICE_LIST_H
#define LVN_DEVICE_LIST_H

#include "options/values.h"

enum { LVN_MAX_DEVICES = 64 };
struct lvn_devices {
    int64_t n;                   /* ranks on a node; 0: not given */
    bool listed;                 /* by device numbers, with one rank on each */
    int number[LVN_MAX_DEVICES]; /* [n], if listed */
};
enum lvn_status lvn_devices_read(struct lvn_devices *out, const struct lvn_values *v) LVN_CHECKED;
/* Ranks on a node, of checked values; 0: not given. */
int64_t lvn_devices_count(const struct lvn_values *v);

#endif
