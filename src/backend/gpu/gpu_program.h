/* gpu_program.h - a program as a list of launches on a device: what the backends opencl and cuda share.
 *
 * lvn_gpu_choose() asks an operation's host half (kernel_launch.h) what an instruction launches. lvn_gpu_bind() asks
 * again, finds memory and offset of every operand, and gathers the texts to compile: one for each operation and set of
 * definitions. The backend then compiles them and makes of each launch what it likes to keep. What moves with the
 * micro-batch is a short list of arguments; struct lvn_step is one small struct on the device, written anew before each
 * micro-batch. Collectives take staged copies: what is summed is read, and written back when it has arrived. */
#ifndef LVN_GPU_PROGRAM_H
#define LVN_GPU_PROGRAM_H

#include "backend/backend.h"
#include "backend/gpu/kernel_launch.h"
#include "base/arena.h"

/* A text for the device's compiler: definitions, then the words, then src/ops/NAME.k. */
struct lvn_gpu_module {
    const char *source;     /* NAME */
    const char *definition; /* all #define lines */
    void *own;              /* the backend's */
};

/* An argument that is another one for each micro-batch. */
struct lvn_gpu_moving {
    struct lvn_gpu_launch *launch;
    int arg;
    int64_t base, stride; /* an operand's offset: of micro-batch 0, or slot 0; bytes to the next one's */
    bool by_slot;
};

struct lvn_gpu_program;

/* Which of two that give the same bits. */
enum lvn_gpu_variant { LVN_GPU_VARIANT_UNKNOWN = -1, LVN_GPU_VARIANT_FIRST, LVN_GPU_VARIANT_SECOND };

/* What a backend does itself. Each but `changed` may fail. */
struct lvn_gpu_driver {
    /* Compile every module and make every launch ready; all of the program's fields but `step` are set. */
    enum lvn_status (*prepare)(struct lvn_gpu_program *p);
    void (*release)(struct lvn_gpu_program *p);
    enum lvn_status (*launch)(struct lvn_gpu_program *p, struct lvn_gpu_launch *l);
    /* The faster form of a launch (lvn_gpu_two_variants()), as it was measured; where nobody knows it, prepare() finds
     * out: before it returns it calls lvn_gpu_tune(). NULL: always the first. */
    enum lvn_gpu_variant (*faster)(const struct lvn_gpu_program *p, const struct lvn_gpu_launch *l);
    /* A collective of a run that is walked through. NULL: on staged copies, as where a hook looks at each instruction.
     */
    enum lvn_status (*communicate)(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                   const struct lvn_collectives *with);
    /* Argument number `arg` of a launch is another one from now on. */
    void (*changed)(struct lvn_gpu_program *p, struct lvn_gpu_launch *l, int arg);
};

struct lvn_gpu_program {
    struct lvn_bound base;
    const struct lvn_gpu_driver *driver;
    const struct lvn_gpu_library *library;
    bool units;
    const struct lvn_program *program;
    struct lvn_binding binding;
    struct lvn_arena arena;
    struct lvn_gpu_launch *launches;
    int n_launches;
    int *first; /* [n_instrs + 1] launches of instruction i: first[i] .. first[i + 1] - 1 */
    struct lvn_gpu_module *modules;
    int n_modules;
    struct lvn_gpu_moving *moving;
    int n_moving;
    struct lvn_memory *step;       /* struct lvn_gpu_step */
    struct lvn_memory **data;      /* of arguments, */
    int n_data;                    /* so many */
    struct lvn_gpu_staging *stage; /* [n_tokens] of collectives */
    int64_t micro_batch;           /* that the launches point at */
    void *own;                     /* the backend's */
};

/* For struct lvn_backend's choose; `what` is the backend's name. library: what makes its products, the same one for
 * both; NULL: kernels do. units: the device has matrix units for which LVN_TILE_ROWS of ops/matrix_gpu.h is defined. */
enum lvn_status lvn_gpu_choose(const char *what, struct lvn_instr *i, int64_t *scratch,
                               const struct lvn_gpu_library *library, bool units) LVN_CHECKED;
enum lvn_status lvn_gpu_bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b,
                             const struct lvn_gpu_driver *driver, const struct lvn_gpu_library *library,
                             bool units) LVN_CHECKED;
void lvn_gpu_unbind(struct lvn_bound *b);
/* Walks through the whole program, launch by launch. */
enum lvn_status lvn_gpu_run(struct lvn_bound *b, const struct lvn_execution *how) LVN_CHECKED;

/* --- for backends that walk themselves --- */
/* What the step's struct must hold while a micro-batch runs. */
struct lvn_gpu_step lvn_gpu_step_at(const struct lvn_gpu_program *p, int64_t micro_batch);
/* Tell the driver which arguments are others for a micro-batch. */
void lvn_gpu_move(struct lvn_gpu_program *p, int64_t micro_batch);
enum lvn_status lvn_gpu_launch_all(struct lvn_gpu_program *p, const struct lvn_instr *i) LVN_CHECKED;
/* Memory, and bytes from its start, of what `o` is for micro-batch 0. */
struct lvn_memory *lvn_gpu_operand_memory(const struct lvn_gpu_program *p, const struct lvn_operand *o,
                                          int64_t *offset);
/* A launch has one form from now on, the first or the other. */
void lvn_gpu_tune(struct lvn_gpu_launch *l, enum lvn_gpu_variant form);
/* A collective, on staged copies. */
enum lvn_status lvn_gpu_communicate(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                    const struct lvn_collectives *with) LVN_CHECKED;
enum lvn_status lvn_gpu_stages_new(struct lvn_gpu_program *p) LVN_CHECKED;
void lvn_gpu_stages_free(struct lvn_gpu_program *p);

/* --- texts --- */
/* The words, and the kernels of an operation; NULL: it has none. */
const char *lvn_gpu_words(void);
const char *lvn_gpu_text(const char *source);
/* Definitions that a module's text begins with, TYPE_x of every operand in it among them, in memory of the arena. */
const char *lvn_gpu_definitions(struct lvn_arena *a, const char *source, const char *defines);
/* What the operation launches; NULL: it has no .k file. */
const struct lvn_gpu_operation *lvn_gpu_operation_of(enum lvn_op_id id);

#endif
