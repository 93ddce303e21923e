/* rotary.h - how the frequencies of a rotary table are scaled, so that a model reads longer texts than it was trained
 * on: attr.rotary_table.scaling. */
#ifndef LVN_ROTARY_H
#define LVN_ROTARY_H

enum lvn_rotary_scaling {
    LVN_ROTARY_PLAIN,
    LVN_ROTARY_LINEAR, /* all divided by factor */
    LVN_ROTARY_YARN,   /* those that turn fewer than `high` times within `original` positions are divided, those that
                          turn more than `low` times stay, between them a ramp over their numbers, whose ends are whole
                          where attr.whole */
    LVN_ROTARY_LLAMA3, /* those that turn fewer than `low` times within `original` positions are divided, those that
                          turn more than `high` times stay, between them a ramp over their turns */
};

#endif
