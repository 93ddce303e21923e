/* wgmma_double.h - a double of the warpgroups' instructions that ops/wgmma_gpu.h calls, in front of NVIDIA's of
 * matrix_doubles.h: wgmma.mma_async with its descriptor, fence, commit_group and wait_group, and fence.proxy.async.
 *
 * A product reads b where its descriptor says (PTX ISA, "Matrix Descriptor Format", "Strides", "Shared Memory Matrix
 * Layout"), and puts sums into the lanes of "Register Fragments for wgmma.mma_async.m64nNk16". It takes place at once,
 * or as late as the wait for its group; copies do when the proxy fence after their wait makes them visible, if they are
 * late. A product that no fence precedes since the last wait is of registers that nobody knows: its sums are NaN, as
 * with a layout that no kernel has.
 *
 * `defects` are definitions of what a kernel could have forgotten: NO_FENCE, NO_COMMIT, NO_WAIT, NO_PROXY_FENCE, and
 * WRONG, which is added to descriptors. */
#ifndef LVN_WGMMA_DOUBLE_H
#define LVN_WGMMA_DOUBLE_H

#include "matrix_doubles.h"

#define WGMMA_UNIT                                                                                                     \
    "#define LVN_MATRIX_WGMMA\n"                                                                                       \
    "#define LVN_TILES_AT(name, count, bytes) \\\n"                                                                    \
    "    __local ushort name##_memory[(count) + (bytes) / 2]; \\\n"                                                    \
    "    __local ushort *name = (__local ushort *)(((ulong)name##_memory + (bytes) - 1) / (bytes) * (bytes))\n"        \
    "#define LVN_WGMMA_ADDRESS(p) ((uint)(ulong)(p))\n"                                                                \
    "#define LVN_PIN(d, n) (void)0\n"                                                                                  \
    "#define LVN_PIN_LEFT(a) (void)0\n"                                                                                \
    "#ifndef WRONG\n"                                                                                                  \
    "#define WRONG 0\n"                                                                                                \
    "#endif\n"                                                                                                         \
    "struct copy { __local ushort *to; const __global ushort *from; };\n"                                              \
    "struct product { float *d; uint a[4]; ulong near, descriptor; int n, by_rows, more; };\n"                         \
    "struct unit { struct copy copies[32]; struct product list[32]; int n_copies, visible, n, committed; bool "        \
    "fenced; };\n"                                                                                                     \
    "#define LVN_COPIES struct unit unit = {.n = 0};\n"                                                                \
    "#define LVN_COPY_ASYNC(to_, from_, there) \\\n"                                                                   \
    "    unit.copies[unit.n_copies % 32].to = to_, \\\n"                                                               \
    "    unit.copies[unit.n_copies++ % 32].from = there ? from_ : (const __global ushort *)0; \\\n"                    \
    "    if (!LATE) copy_all(&unit, unit.n_copies)\n"                                                                  \
    "#define LVN_COPY_WAIT() unit.visible = unit.n_copies\n"                                                           \
    "#ifdef NO_PROXY_FENCE\n"                                                                                          \
    "#define LVN_WGMMA_SEES_COPIES() (void)0\n"                                                                        \
    "#else\n"                                                                                                          \
    "#define LVN_WGMMA_SEES_COPIES() copy_all(&unit, unit.visible)\n"                                                  \
    "#endif\n"                                                                                                         \
    "#ifdef NO_FENCE\n"                                                                                                \
    "#define LVN_WGMMA_FENCE() (void)0\n"                                                                              \
    "#else\n"                                                                                                          \
    "#define LVN_WGMMA_FENCE() unit.fenced = true\n"                                                                   \
    "#endif\n"                                                                                                         \
    "#ifdef NO_COMMIT\n"                                                                                               \
    "#define LVN_WGMMA_COMMIT() (void)0\n"                                                                             \
    "#else\n"                                                                                                          \
    "#define LVN_WGMMA_COMMIT() unit.committed = unit.n\n"                                                             \
    "#endif\n"                                                                                                         \
    "#ifdef NO_WAIT\n"                                                                                                 \
    "#define LVN_WGMMA_WAIT() (void)0\n"                                                                               \
    "#else\n"                                                                                                          \
    "#define LVN_WGMMA_WAIT() multiply_all(&unit)\n"                                                                   \
    "#endif\n"                                                                                                         \
    "#define LVN_WGMMA(d, n, a, b, width, by_rows, more) \\\n"                                                         \
    "    issue(&unit, d, n, a, (ulong)(b), lvn_wgmma_descriptor(b, width) + WRONG, by_rows, more)\n"                   \
    "static inline void copy_all(struct unit *u, int n)\n"                                                             \
    "{\n"                                                                                                              \
    "    for (int i = 0; i < n; i++)\n"                                                                                \
    "        vstore8(u->copies[i].from ? vload8(0, u->copies[i].from) : (ushort8)0, 0, u->copies[i].to);\n"            \
    "    u->n_copies = u->visible = 0;\n"                                                                              \
    "}\n"                                                                                                              \
    "static inline void multiply(const struct product *p)\n"                                                           \
    "{\n"                                                                                                              \
    "    int lane = (int)get_sub_group_local_id(), g = lane / 4, t = lane % 4, mode = (int)(p->descriptor >> 62);\n"   \
    "    ulong start = (p->near & ~(ulong)0x3ffff) | (p->descriptor & 0x3fff) << 4;\n"                                 \
    "    int leading = (int)(p->descriptor >> 16 & 0x3fff) << 4, stride = (int)(p->descriptor >> 32 & 0x3fff) << 4;\n" \
    "    int width = mode == 1 ? 128 : mode == 2 ? 64 : 32;\n"                                                         \
    "    for (int i = 0; i < p->n / 2; i++)\n"                                                                         \
    "        if (!p->more || mode == 0) p->d[i] = mode == 0 ? NAN : 0;\n"                                              \
    "    for (int k = 0; k < 16; k++) {\n"                                                                             \
    "        uint upper = intel_sub_group_shuffle(p->a[k / 8 * 2], g * 4 + k % 8 / 2) >> k % 2 * 16;\n"                \
    "        uint lower = intel_sub_group_shuffle(p->a[k / 8 * 2 + 1], g * 4 + k % 8 / 2) >> k % 2 * 16;\n"            \
    "        for (int i = 0; i < p->n / 4; i++) {\n"                                                                   \
    "            int j = i / 2 * 8 + 2 * t + i % 2;\n"                                                                 \
    "            ulong at = start + (ulong)(p->by_rows ? 2 * j / width * leading + 2 * j % width + k / 8 * stride\n"   \
    "                                                        + k % 8 * width\n"                                        \
    "                                                  : j / 8 * stride + j % 8 * width + 2 * k);\n"                   \
    "            at ^= (at >> 7 & (ulong)(width / 16 - 1)) << 4;\n"                                                    \
    "            float b = of_16(*(__local const ushort *)at);\n"                                                      \
    "            p->d[i / 2 * 4 + i % 2] += of_16(upper & 0xffffu) * b;\n"                                             \
    "            p->d[i / 2 * 4 + i % 2 + 2] += of_16(lower & 0xffffu) * b;\n"                                         \
    "        }\n"                                                                                                      \
    "    }\n"                                                                                                          \
    "}\n"                                                                                                              \
    "static inline void issue(struct unit *u, float *d, int n, const uint *a, ulong near, ulong descriptor, int "      \
    "by_rows,\n"                                                                                                       \
    "                         int more)\n"                                                                             \
    "{\n"                                                                                                              \
    "    struct product *p = &u->list[u->n++ % 32];\n"                                                                 \
    "    p->d = d, p->n = n, p->near = near, p->by_rows = by_rows, p->more = more;\n"                                  \
    "    p->descriptor = u->fenced ? descriptor : descriptor & ~((ulong)3 << 62);\n"                                   \
    "    for (int i = 0; i < 4; i++) p->a[i] = a[i];\n"                                                                \
    "    if (!LATE) multiply(p), p->n = 0;\n"                                                                          \
    "}\n"                                                                                                              \
    "static inline void multiply_all(struct unit *u)\n"                                                                \
    "{\n"                                                                                                              \
    "    for (int i = 0; i < u->committed; i++)\n"                                                                     \
    "        if (u->list[i].n) multiply(&u->list[i]);\n"                                                               \
    "    if (u->committed) u->n = u->committed = 0;\n"                                                                 \
    "    u->fenced = false;\n"                                                                                         \
    "}\n"

#define WGMMA(type, late, defects) "#define LATE " late "\n" defects NVIDIA(type, WGMMA_UNIT)

#endif
