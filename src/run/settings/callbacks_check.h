/* callbacks_check.h - the callbacks' own checks of settings.
 *
 * lvn_settings_finish() calls it; train/callback.c defines it, because settings must not include headers of train/. */
#ifndef LVN_CALLBACKS_CHECK_H
#define LVN_CALLBACKS_CHECK_H

#include "settings/settings.h"

/* ARG: settings of callbacks or loggers contradict each other. */
enum lvn_status lvn_callbacks_check(const struct levin_settings *s) LVN_CHECKED;

#endif
