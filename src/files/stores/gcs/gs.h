/* gs.h - shared by gs.c and gs_upload.c. */
#ifndef LVN_GS_H
#define LVN_GS_H

#include "stores/store_kind.h"

extern const struct lvn_upload_ops lvn_gs_upload;

#endif
