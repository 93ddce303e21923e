/* s3.h - what s3.c and s3_upload.c share. */
#ifndef LVN_S3_H
#define LVN_S3_H

#include "stores/store_kind.h"

/* A request; for answers with content that is XML. */
extern const struct lvn_upload_ops lvn_s3_upload;

#endif
