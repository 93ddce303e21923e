/* launch_order.c - the order in which a run launches a program's instructions; see launch_order.h. */
#include "passes/launch_order.h"

struct lvn_launch_order lvn_launch_order_begin(const struct lvn_program *p, int64_t n_micro_batches)
{
    return (struct lvn_launch_order){
        .program = p, .n_micro_batches = n_micro_batches, .next = -1, .next_sum = p->first_sum};
}

/* The next launch of the current micro-batch; false: it is done. */
static bool next_of_micro_batch(struct lvn_launch_order *order)
{
    const struct lvn_program *p = order->program;
    bool last = order->micro_batch + 1 == order->n_micro_batches;
    while (order->next < p->first_sum) {
        order->instr = &p->instrs[order->next++];
        const enum lvn_when when = order->instr->when;
        if (when == LVN_EVERY_MICRO_BATCH || (when == LVN_LAST_MICRO_BATCH && last)) return true;
        if (when == (order->micro_batch ? LVN_LATER_MICRO_BATCHES : LVN_FIRST_MICRO_BATCH)) return true;
    }
    if (order->next_sum == p->first_update || p->instrs[order->next_sum].micro_batch != order->micro_batch)
        return false;
    order->instr = &p->instrs[order->next_sum++];
    return true;
}

bool lvn_launch_order_next(struct lvn_launch_order *order)
{
    const struct lvn_program *p = order->program;
    for (; order->micro_batch < order->n_micro_batches; order->micro_batch++, order->next = -1) {
        order->event = order->next < 0 ? LVN_ORDER_MICRO_BATCH : LVN_ORDER_LAUNCH;
        if (order->next < 0) {
            order->next = 0;
            return true;
        }
        if (next_of_micro_batch(order)) return true;
    }
    order->event = order->next < 0 ? LVN_ORDER_BACKWARD_DONE : LVN_ORDER_LAUNCH;
    if (order->next < 0) {
        order->next = p->first_update;
        return true;
    }
    if (order->next == p->n_instrs) return false;
    order->instr = &p->instrs[order->next++];
    return true;
}
