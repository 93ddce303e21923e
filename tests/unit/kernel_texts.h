/* kernel_texts.h - the source texts of all kernels for devices: those that the cases of ops_cases.h launch, in fp32,
 * and in bf16 if the operation accepts it. Of each source, and of each kernel with a separate text (attention), two
 * texts are taken: the first in fp32, and the one with the most bf16 operands, of these the one for matrix units. fp16
 * differs from bf16 by a few words, so only products have it. How many numbers attention keeps in registers follows
 * from the size of a head: there are texts for the head sizes of real models, without dropout, and, in fp16, for
 * devices without matrix units. */
#ifndef LVN_KERNEL_TEXTS_H
#define LVN_KERNEL_TEXTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/modules.h"
#include "backend/gpu/kernel_sources.h"
#include "unit/ops_cases.h"

enum { MAX_TEXTS = 1000 };

static struct lvn_arena arena;
static struct lvn_gpu_module modules[MAX_TEXTS];
static int n_modules;
static bool launches[LVN_OP_COUNT]; /* in some case */

static inline void must(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
}

/* --- selection of texts --- */

static const char *more_definitions = "";

static inline void add(const struct lvn_gpu_launch *l)
{
    const char *definition = lvn_gpu_definitions(&arena, l->source, l->defines);
    assert_non_null(definition);
    definition = lvn_arena_printf(&arena, "%s%s", definition, more_definitions);
    for (int k = 0; k < n_modules; k++)
        if (!strcmp(modules[k].source, l->source) && !strcmp(modules[k].definition, definition)) return;
    assert_true(n_modules < MAX_TEXTS);
    modules[n_modules++] = (struct lvn_gpu_module){.source = l->source, .definition = definition};
}

/* The operands of a case; BF16, F16: all that accept 16 bits have this type; F32: none. */
static inline void describe(const struct op_case *c, enum lvn_dtype half, struct lvn_shapes *s, struct lvn_call *call)
{
    const struct lvn_op *op = lvn_op(c->op, LVN_F32);
    *s = (struct lvn_shapes){.op = op->name, .attr = &c->attr, .real = LVN_F32};
    for (int i = 0; i < op->n_in; i++) {
        struct op_input in = c->in[i];
        if (c->count) in = (struct op_input){.filling = REALS, .rank = 1, .dim = {c->count}};
        s->has[i] = in.filling != ABSENT;
        if (s->has[i]) s->in[i] = input_desc(&in, LVN_F32);
    }
    must(op->shape(s));
    *call = (struct lvn_call){.attr = &c->attr, .matmul_dtype = half};
    for (int i = 0; i < op->n_in; i++) {
        if (!s->has[i]) continue;
        if (op->low_precision_ok & LVN_READS_IN(i) && s->in[i].dtype == LVN_F32) s->in[i].dtype = half;
        call->in[i].desc = &s->in[i];
        if (c->in[i].filling == REALS && !c->in[i].constant) call->din[i].desc = &s->in[i];
    }
    for (int k = 0; k < op->n_out + op->n_saved; k++) {
        if (op->low_precision_ok & LVN_READS_OUT(k) && s->out[k].dtype == LVN_F32) s->out[k].dtype = half;
        call->out[k].desc = &s->out[k];
        if (k < op->n_out) call->dout[k].desc = &s->out[k];
    }
}

static inline void gather(const struct op_case *c, enum lvn_dtype half, bool units)
{
    const struct lvn_gpu_operation *o = lvn_gpu_operation_of(c->op);
    if (!o) return;
    void (*const phase[])(struct lvn_gpu *) = {o->forward, o->backward, o->restore};
    for (int k = 0; k < LVN_PHASE_COUNT; k++) {
        struct lvn_shapes *s = lvn_arena_alloc(&arena, sizeof *s);
        struct lvn_call *call = lvn_arena_alloc(&arena, sizeof *call);
        assert_true(s && call);
        describe(c, half, s, call);
        call->phase = (enum lvn_phase)k;
        struct lvn_gpu g = {.call = call, .arena = &arena, .source = o->name, .matrix_units = units};
        if (phase[k]) phase[k](&g);
        lvn_error_clear(); /* a refused launch has no text */
        launches[c->op] |= g.n_launches > 0 && g.status == LVN_OK;
        for (int l = 0; l < g.n_launches && g.status == LVN_OK; l++) add(&g.launches[l]);
    }
}

/* Attention of heads of 64 (with dropout, too) and 128 channels, and of 256 (pythia-1b, Gemma). */
static inline void gather_heads(void)
{
    static const struct heads {
        int64_t channels;
        double dropout;
    } heads[] = {{64, 0}, {64, 0.1}, {128, 0}, {256, 0.1}};
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        const struct op_input x = REAL(1, 128, 1, heads[k].channels);
        const struct op_case c = {
            LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.1, .p = heads[k].dropout}, .in = {x, x, x}};
        gather(&c, LVN_BF16, true);
        if (heads[k].channels != 128) gather(&c, LVN_F16, false);
    }
}

static inline int by_name(const void *a, const void *b)
{
    const struct lvn_gpu_module *x = a, *y = b;
    int order = strcmp(x->source, y->source);
    return order ? order : strcmp(x->definition, y->definition);
}

static inline int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) n++;
    return n;
}

/* The same source, and the same kernel if the first definition names one (attention). */
static inline bool same_kernels(const struct lvn_gpu_module *a, const struct lvn_gpu_module *b)
{
    const size_t n = strncmp(a->definition, "#define ATTENTION_", 18) ? 0 : strcspn(a->definition, "\n");
    return !strcmp(a->source, b->source) && !strncmp(a->definition, b->definition, n);
}

/* More bf16 operands weigh more, then several numbers an item, and running sums; for matrix units larger heads do,
 * except those that gather_heads() has. */
static inline int weight(const struct lvn_gpu_module *m)
{
    const char *size = strstr(m->definition, "#define D ");
    int D = 0;
    if (size && strstr(m->definition, "#define ROWS")) sscanf(size, "#define D %d", &D);
    return 2 * count(m->definition, " bf16") + count(m->definition, "#define LVN_WIDTH") +
           count(m->definition, "#define SUMMED") + (D <= 128 ? 100 * D : 0);
}

/* Of adjacent texts of the same kernels keep the one with the least and the one with the most bf16. */
static inline void thin_out(void)
{
    int kept = 0;
    for (int k = 0, end; k < n_modules; k = end) {
        int min = k, max = k;
        for (end = k; end < n_modules && same_kernels(&modules[end], &modules[k]); end++) {
            if (weight(&modules[end]) < weight(&modules[min])) min = end;
            if (weight(&modules[end]) > weight(&modules[max])) max = end;
        }
        const struct lvn_gpu_module a = modules[min], b = modules[max];
        modules[kept++] = a;
        if (max != min) modules[kept++] = b;
    }
    n_modules = kept;
}

/* Does it use a 16-bit type? */
static inline bool has_16_bits(const struct lvn_gpu_module *m)
{
    return strstr(m->definition, " bf16") || strstr(m->definition, " f16");
}

static inline int set_up(void **state)
{
    (void)state;
    lvn_arena_init(&arena);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int k = 0; k < N_OP_CASES; k++) gather(&op_cases[k], bf16 ? LVN_BF16 : LVN_F32, true);
    gather(&op_case_wide, LVN_BF16, true);
    for (int id = 0; id < LVN_OP_COUNT; id++) /* operations without cases: with empty definitions */
        if (lvn_gpu_operation_of(id) && !launches[id])
            add(&(struct lvn_gpu_launch){.source = lvn_gpu_operation_of(id)->name, .defines = ""});
    qsort(modules, (size_t)n_modules, sizeof *modules, by_name);
    thin_out();
    gather(&op_case_wide, LVN_F16, true);
    gather_heads();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    lvn_arena_release(&arena);
    return 0;
}

static inline char *read_all(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 20);
    if (f && text) text[fread(text, 1, (1 << 20) - 1, f)] = '\0';
    if (f) fclose(f);
    return text;
}

/* "x=bf16 N=64": the definitions of a text that are not fp32. */
static inline const char *variant(const struct lvn_gpu_module *m)
{
    const char *text = "";
    char name[64], value[64];
    for (const char *at = m->definition; (at = strstr(at, "#define ")); at++) {
        if (sscanf(at, "#define %63s %63s", name, value) != 2 || !strcmp(value, "f32")) continue;
        const char *short_name = strncmp(name, "TYPE_", 5) ? name : name + 5;
        text = lvn_arena_printf(&arena, "%s%s%s=%s", text, *text ? " " : "", short_name, value);
    }
    return *text ? text : "fp32";
}

/* --- tables of compilers' figures ---
 *
 * The first line names the compiler. Each text has a line "text HASH TARGET SOURCE: VARIANT", followed by a line of
 * figures for each of its kernels. The hash covers the text, the target and the compiler's options: a text whose line
 * is in the table is not compiled again. Without the file, LEVIN_WRITE_TABLE=1 compiles all texts. */

enum { HASH_END = sizeof "text 0123456789abcdef" - 1 };

static char *table; /* all of the file; empty if it is of another compiler */
static int n_not_in_table;

static inline void table_read(const char *path, const char *compiler)
{
    const size_t n = strlen(compiler);
    table = read_all(path);
    if (table && (strncmp(table, compiler, n) != 0 || table[n] != '\n')) *table = '\0';
}

/* Write the line of a text. True: its figures are in the table, and have been written, too. `always`: false. */
static inline bool table_has(FILE *to, const struct lvn_gpu_module *m, const char *target, const char *options,
                             const char *text, bool always)
{
    const char *all = lvn_arena_printf(&arena, "%s\n%s\n%s", target, options, text);
    const char *line = lvn_arena_printf(&arena, "text %016llx %s %s: %s\n", (unsigned long long)lvn_name_hash(all),
                                        target, m->source, variant(m));
    const char *at = strstr(table, line);
    fputs(line, to);
    n_not_in_table += !at;
    if (!at || always) return false;
    at += strlen(line);
    const char *end = strstr(at, "\ntext ");
    fwrite(at, 1, !strncmp(at, "text ", 5) ? 0 : end ? (size_t)(end + 1 - at) : strlen(at), to);
    return true;
}

/* Where the comparison of a line begins: a text may change while its figures do not. */
static inline size_t compared_from(const char *line)
{
    return strncmp(line, "text ", 5) ? 0 : HASH_END;
}

/* Fail with the first line that differs. */
static inline void compare_lines(const char *path, const char *now, const char *before)
{
    while (*now || *before) {
        size_t a = strcspn(now, "\n"), b = strcspn(before, "\n"), from = compared_from(now);
        if (a != b || from != compared_from(before) || strncmp(now + from, before + from, a - from) != 0)
            fail_msg("%s has\n%.*s\nand now it is\n%.*s\nis that better? LEVIN_WRITE_TABLE=1 updates the table", path,
                     (int)b, before, (int)a, now);
        now += a + (now[a] == '\n');
        before += b + (before[b] == '\n');
    }
}

/* Compare with the table at `path`. False: it is of another compiler. With LEVIN_WRITE_TABLE the table is written
 * first. */
static inline bool compare_table(const char *path, const char *compiler, const char *now)
{
    if (getenv("LEVIN_WRITE_TABLE")) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(now, f);
        fclose(f);
        free(table);
        table_read(path, compiler);
    } else if (*table && n_not_in_table) {
        print_message("%d changed texts were compiled; LEVIN_WRITE_TABLE=1 stores them in %s\n", n_not_in_table, path);
    }
    const bool same = *table;
    if (same) compare_lines(path, now, table);
    free(table);
    return same;
}

#endif
