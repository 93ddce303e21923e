/* isa.h - the instruction sets for which the CPU kernels are compiled, and the choice among them. */
#ifndef LVN_ISA_H
#define LVN_ISA_H

/* In ascending order of speed. */
enum lvn_isa { LVN_ISA_GENERIC, LVN_ISA_AVX2, LVN_ISA_AVX512, LVN_ISA_AVX512_BF16, LVN_ISA_AMX, LVN_ISA_COUNT };

const char *lvn_isa_name(enum lvn_isa isa);
/* The best instruction set that the processor, LEVIN_ISA (generic, avx2, avx512, avx512_bf16 or amx) and
 * lvn_isa_limit() allow. */
enum lvn_isa lvn_isa_best(void);
/* Set an upper bound, to which all ranks have agreed. Must be called before kernels are chosen. */
void lvn_isa_limit(enum lvn_isa max);
/* The best instruction set of this processor. */
enum lvn_isa lvn_isa_processor(void);

/* In a NAME.cpu.c: the name with the instruction set for which the file is compiled appended, as NAME_avx512. */
#define LVN_PASTE_(a, b) a##_##b
#define LVN_PASTE(a, b) LVN_PASTE_(a, b)
#define LVN_ISA_NAME(name) LVN_PASTE(name, LVN_ISA_SUFFIX)
/* The file is compiled for AMX with bf16. Some versions of Clang have the second name only. */
#if defined(__AMX_BF16__) || defined(__AMXBF16__)
#define LVN_AMX
#endif

#endif
