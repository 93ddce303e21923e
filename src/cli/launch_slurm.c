/* launch_slurm.c - levin launch --slurm: an sbatch script. */
#include "cli/launch.h"

enum lvn_status lvn_launch_slurm(struct lvn_cli *c)
{
    (void)c;
    LVN_FAIL(UNSUPPORTED, "not yet");
}
