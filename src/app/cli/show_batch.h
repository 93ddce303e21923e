/* show_batch.h - levin train --show-batch: prints the first rows of the first batch, as training reads them, and which
 * tokens have labels. levin train calls it. */
#ifndef LVN_SHOW_BATCH_H
#define LVN_SHOW_BATCH_H

#include "cli/cli.h"

/* Open data and model (of which only the sizes and the tokenizer are read), print, and close them. */
enum lvn_status lvn_show_batch(struct lvn_cli *c) LVN_CHECKED;

#endif
