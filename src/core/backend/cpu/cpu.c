/* cpu.c - the backend `cpu`: this machine's CPUs, with kernels for the best supported instruction set (host/isa.h). Its
 * memory is host memory, so nothing is copied. See run.c for running programs and run_rate.c for measuring rates. */

#include "backend/calls.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/run.h"
#include "base/arena.h"

struct device {
    struct lvn_device base;
    const struct lvn_cpu_op *ops; /* [LVN_OP_COUNT] */
};

extern const struct lvn_backend lvn_backend_cpu;

static enum lvn_status open_device(struct lvn_device **out, const struct lvn_device_options *o)
{
    *out = NULL;
    LVN_CHECK(o->real == LVN_F32, UNSUPPORTED, "cpu computes in fp32, not in %s; set trainer.accelerator to reference",
              lvn_dtype_name(o->real));
    struct device *d = lvn_calloc(1, sizeof *d);
    if (!d) return LVN_MEMORY;
    d->base = (struct lvn_device){.backend = &lvn_backend_cpu, .real = o->real, .threads = o->threads};
    d->ops = lvn_cpu_ops(lvn_isa_best());
    *out = &d->base;
    return LVN_OK;
}

static enum lvn_status choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    const struct lvn_cpu_op *op = &((const struct device *)d)->ops[i->id];
    struct lvn_call call;
    LVN_CHECK(op->fast[i->phase] || op->plain[i->phase], UNSUPPORTED, "%s: cpu has no kernel for '%s'", i->name,
              i->op->name);
    lvn_instr_describe(i, &call);
    i->kernel = op;
    i->rounds = lvn_cpu_rounds(op, &call);
    *scratch = lvn_cpu_scratch(op, &call, d->threads);
    return LVN_OK;
}

const struct lvn_backend lvn_backend_cpu = {.name = "cpu",
                                            .description = "this processor",
                                            .packed = true,
                                            .rounds_decoding = true,
                                            .hides = true,
                                            .computes = true,
                                            .micro_batch_tokens = 16384,
                                            .open = open_device,
                                            .close = lvn_host_close,
                                            .host_memory = true,
                                            .alloc = lvn_host_alloc,
                                            .free = lvn_host_free,
                                            .write = lvn_host_write,
                                            .read = lvn_host_read,
                                            .choose = choose,
                                            .bind = lvn_cpu_bind,
                                            .unbind = lvn_cpu_unbind,
                                            .run = lvn_cpu_run,
                                            .rate = lvn_cpu_rate};
