/* curve.h - the loss curve of a run as a picture for a slide (SVG).
 *
 * Drawn from metrics.csv, so a resumed run's picture holds all of its steps. Training loss stands as a pale line with a
 * smoothed one over it, validation loss as points with their values. */
#ifndef LVN_CURVE_H
#define LVN_CURVE_H

#include "base/status.h"

/* Read the rows of `csv` and replace `svg`. No rows: nothing is written, and that is fine. FORMAT when the file is none
 * of levin's, IO when one cannot be read or written. */
enum lvn_status lvn_curve_write(const char *csv, const char *svg, const char *title) LVN_CHECKED;

#endif
