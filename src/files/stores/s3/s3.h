/* s3.h - shared by s3.c and s3_upload.c. */
#ifndef LVN_S3_H
#define LVN_S3_H

#include "stores/store_kind.h"

extern const struct lvn_upload_ops lvn_s3_upload;

#endif
