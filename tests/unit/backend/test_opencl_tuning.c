/* test_opencl_tuning.c - covers: src/core/backend/opencl/tuning_variants.c src/core/backend/gpu/kernel_launch.c
 *
 * Products in tiles of two sizes on an OpenCL device: both give the same bits, the faster one is chosen, measured
 * once, and cached. Skipped where there is no device. */
#include <unistd.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/opencl/opencl_device.h"
#include "device_run.h"
#include "device_skip.h"
#include "ops_cases.h"

enum { SLOW_US = 100000, ROWS = 300, COLUMNS = 1000, SMALL = (COLUMNS + 63) / 64, LARGE = (COLUMNS + 127) / 128 };

static const struct op_case product = {LVN_OP_linear, .attr.linear = {true},
                                       .in = {REAL(ROWS, 40), REAL(40, COLUMNS), REAL(COLUMNS)}, .large = true};

static int n_launches;
static size_t slow, last; /* how many groups side by side the one that is held up has; of the last launch */
static int (*launch)(void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *,
                     void *);

static int counted(void *queue, void *kernel, uint32_t dims, const size_t *offset, const size_t *all,
                   const size_t *group, uint32_t n, void *wait, void *event)
{
    n_launches++;
    last = all[0] / group[0];
    if (last == slow) usleep(SLOW_US);
    return launch(queue, kernel, dims, offset, all, group, n, wait, event);
}

/* The product in this form (struct lvn_opencl_device), of the same numbers every time. */
static void multiply(struct lvn_device *d, enum lvn_gpu_variant form, enum lvn_dtype half, struct run *r)
{
    ((struct lvn_opencl_device *)d)->variant = form;
    run_init(r, &product, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[product.op]);
    r->half = half;
    n_launches = 0;
    device_must(device_phase(d, r, LVN_FORWARD, 0, 0));
}

static void variants_give_the_same_bits(void **state)
{
    struct lvn_device *d = *state;
    if (!d) skip();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        struct run first, other;
        size_t wide[2];
        multiply(d, LVN_GPU_VARIANT_FIRST, bf16 ? LVN_BF16 : LVN_F32, &first);
        wide[0] = last;
        multiply(d, LVN_GPU_VARIANT_SECOND, bf16 ? LVN_BF16 : LVN_F32, &other);
        wide[1] = last;
        assert_true(wide[0] == SMALL && wide[1] == LARGE);
        assert_memory_equal(first.out[0].p, other.out[0].p, first.out[0].bytes);
        run_release(&first);
        run_release(&other);
    }
}

static void the_faster_one_is_kept(void **state)
{
    struct lvn_device *d = *state;
    char cache[] = "/tmp/levin-forms.XXXXXX", remove[64];
    const char *own = getenv("LEVIN_CACHE");
    if (!d) skip();
    char *before = own ? strdup(own) : NULL;
    for (size_t k = 0; k < 2; k++) {
        struct run r;
        memcpy(cache + sizeof cache - 7, "XXXXXX", 6);
        assert_non_null(mkdtemp(cache));
        setenv("LEVIN_CACHE", cache, 1);
        slow = k ? SMALL : LARGE;
        for (int again = 0; again < 2; again++) {
            multiply(d, LVN_GPU_VARIANT_UNKNOWN, LVN_F32, &r);
            assert_int_equal(last, k ? LARGE : SMALL);
            assert_true(again ? n_launches == 1 : n_launches > 4);
            run_release(&r);
        }
        snprintf(remove, sizeof remove, "rm -rf %s", cache);
        assert_int_equal(system(remove), 0);
    }
    slow = 0;
    if (before)
        setenv("LEVIN_CACHE", before, 1);
    else
        unsetenv("LEVIN_CACHE");
    free(before);
}

static int open_one(void **state)
{
    struct lvn_device_options o = {.real = LVN_F32, .threads = 1};
    struct lvn_device *d = NULL;
    if (lvn_backend_find("opencl")->open(&d, &o) != LVN_OK) {
        print_message("skipped: %s\n", levin_error_text());
        return 0;
    }
    launch = lvn_cl.launch;
    lvn_cl.launch = counted;
    *state = d;
    return 0;
}

static int close_it(void **state)
{
    struct lvn_device *d = *state;
    if (d) d->backend->close(d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_give_the_same_bits),
        cmocka_unit_test(the_faster_one_is_kept),
    };
    return cmocka_run_group_tests(tests, open_one, close_it);
}
