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
    /* YARN and LLAMA3: frequencies below `low` rotations are divided by factor, those above `high` rotations are
     * unchanged. In between is a ramp: of YARN over the pair index (its ends are rounded outward to integers if `whole`
     * is set), of LLAMA3 over the rotations. */
    LVN_ROTARY_YARN,
    LVN_ROTARY_LLAMA3,
};

#endif
