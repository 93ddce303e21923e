/* rotary.h - scaling of a rotary table's frequencies (attr.rotary_table.scaling), which lets a model read longer texts
 * than it was trained on.
 *
 * Models set it from config.json; ops/rotary_table.h computes it. The "rotations" of a frequency are the number of
 * times its pair of channels rotates within `original` positions. `low`, `high`, `original`, `factor` and `whole` are
 * attributes. */
#ifndef LVN_ROTARY_H
#define LVN_ROTARY_H

enum lvn_rotary_scaling {
    LVN_ROTARY_PLAIN,
    /* All frequencies are divided by factor. */
    LVN_ROTARY_LINEAR,
    /* Below `high` rotations: divided by factor. Above `low` rotations: unchanged. Between: a ramp over the pair index,
     * whose ends are rounded outward to integers if `whole` is set. */
    LVN_ROTARY_YARN,
    /* Below `low` rotations: divided by factor. Above `high` rotations: unchanged. Between: a ramp over the rotations.
     */
    LVN_ROTARY_LLAMA3,
};

#endif
