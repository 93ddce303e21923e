/* config_fp16.c - mixed precision in fp16 of another program's file; called by config_nanogpt.c and
 * config_accelerate.c. */

#include "cli/config/config.h"

bool lvn_config_names_gpu(const struct lvn_config *cf)
{
    static const char *const not_gpus[] = {"auto", "cpu", "reference"};
    for (size_t i = 0; i < sizeof not_gpus / sizeof *not_gpus; i++)
        if (!strcmp(cf->s->values.trainer.accelerator, not_gpus[i])) return false;
    return true;
}

enum lvn_status lvn_config_fp16(struct lvn_config *cf, const char *key, int line)
{
    const bool gpu = lvn_config_names_gpu(cf);
    if (!gpu)
        LVN_TRY(lvn_config_note(cf, key,
                                "fp16 is for GPUs (trainer.precision 16-mixed); bf16-mixed is used instead; it needs "
                                "no loss scale"));
    return lvn_config_set(cf, "trainer.precision", gpu ? "16-mixed" : "bf16-mixed", line);
}
