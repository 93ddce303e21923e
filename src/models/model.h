/* model.h - what a model is: a configuration in, a graph out.
 *
 * A family is one file that ends in a `struct lvn_model` (variants may share a file), and a line in models.def. It
 * writes the network down once, as expressions over operations; training, evaluation and generation are graphs of the
 * same expressions. What it is called elsewhere stands in three small tables beside it:
 *
 *   keys    a field of the family's own configuration <-> a key of config.json <-> a key of recipes, range, default
 *   files   how names and layouts of files differ from those of the parameters
 *   sizes   what published and other well-known models of the family are called, and where they are published
 *
 * Reading and writing of model directories, checks, recipes and help are made from these (models/keys.h,
 * models/weight_files.h, model_io/pretrained.h): no other room knows a family by name. */
#ifndef LVN_MODEL_H
#define LVN_MODEL_H

#include "base/field.h"
#include "graph/graph.h"

/* Adapters beside linear maps (models/lora.h). */
struct lvn_lora {
    int64_t rank; /* 0: none */
    double alpha;
    const char *targets; /* patterns over names (graph/names.h) */
};

/* What stands on the network, for a task. Where a file has another head, this one's parameters begin anew. */
struct lvn_head {
    const char *task;               /* a name of tasks.def; "": it learns nothing */
    const char *architecture;       /* `architectures` of config.json; NULL ends a list */
    const struct lvn_field *inputs; /* fields that are read for it; NULL: the model's */
    const char *own;                /* names of its parameters (graph/names.h); NULL: it has none */
};

/* A model's configuration: a plain value, copied and thrown away. `own` holds the family's struct, which its file alone
 * knows; others reach the fields by the family's keys (models/keys.h). */
enum { LVN_OWN_BYTES = 256, LVN_CLASS_NAMES = 256 };
/* What a head for classes learnt: to choose one of them, a number each, or yes or no for each. */
enum lvn_problem { LVN_ONE_CLASS, LVN_REGRESSION, LVN_SEVERAL_CLASSES };
struct lvn_model_config {
    const struct lvn_model *model;
    struct lvn_lora lora;
    const struct lvn_head *head;       /* of the model's; NULL: it has no list of them */
    int64_t classes;                   /* that a head for classification tells apart */
    enum lvn_problem problem;          /* that it learnt; only LVN_ONE_CLASS can be used */
    char class_names[LVN_CLASS_NAMES]; /* of config.json, each ended by a line's end; "": they have none */
    int64_t end_id;                    /* the token that ends a text; -1: there is none */
    bool end_known;                    /* somebody named it; else a tokenizer may */
    int64_t own[LVN_OWN_BYTES / 8];    /* of this type for its alignment */
};

/* --- keys --- */

enum lvn_key_kind {
    LVN_KEY_END,
    LVN_KEY_INT,  /* int64_t */
    LVN_KEY_REAL, /* double */
    LVN_KEY_BOOL, /* bool */
    LVN_KEY_WORD, /* int64_t: one of `words`; of a list of them the last in their order */
    /* without a field, in config.json alone: */
    LVN_KEY_MUST,  /* read: true or false, or a number, which must be `initial` */
    LVN_KEY_NAME,  /* written: a list of one name, the head's, or `text` */
    LVN_KEY_TOKEN, /* written: the end token, `initial` where nobody names one, not even as null; null where the
                      vocabulary has none such */
    LVN_KEY_DTYPE, /* written: the number type of the weights */
};

/* What others ask a model for, whatever its family calls it. */
enum lvn_role {
    LVN_ROLE_NOTHING,
    LVN_ROLE_LAYERS,
    LVN_ROLE_HEADS,
    LVN_ROLE_POSITIONS,  /* the longest sequence; a run's windows may be shorter */
    LVN_ROLE_VOCABULARY, /* tokens */
};

/* A value of a key: its word in config.json (WORD), and what sentences call it. Ended by a NULL `called`. */
struct lvn_word {
    const char *name;
    int64_t value;
    const char *called;
};

struct lvn_key {
    enum lvn_key_kind kind;
    size_t offset;    /* of the field in the family's own struct */
    const char *json; /* key of config.json; "levin.bias" is `bias` of the object `levin`, which is our own, and so with
                         other objects; or NULL */
    const char *recipe; /* `model.` before it makes the key of recipes; keys of one name are set together; or NULL */
    double initial;     /* without a word */
    double min, max;    /* INT, REAL */
    double absent;      /* if not 0: what config.json without the key means, whatever `initial` is; null is `initial` */
    size_t else_of;     /* else_times > 0, and the INT is 0: it is so many times the INT that lies here */
    int64_t else_times;
    const char *help; /* of the recipe's key */
    const struct lvn_word *words;
    const char *text;
    enum lvn_role means;
    bool required;  /* config.json must have it */
    bool read_only; /* config.json is read, and not written, with it */
    bool only_told; /* config.json is written with it only where it is not `initial` */
    bool null;      /* `initial` is written as null */
    bool by_data;   /* 0 in a recipe: as the data want it */
    bool any_time;  /* a recipe may set it for a model that is loaded, too */
    bool fixed;     /* always `initial`, which tells the variant from others of the family */
};
/* {LVN_KEY_INT_OF(struct gpt2, n_layer), .json = ...}: the field must have the kind's type. */
#define LVN_KEY_OF(kind_, type, field, c_type)                                                                         \
    .kind = kind_, .offset = offsetof(type, field) + 0 * sizeof(_Generic(&((type *)0)->field, c_type * : (char)0))
#define LVN_KEY_INT_OF(type, field) LVN_KEY_OF(LVN_KEY_INT, type, field, int64_t)
#define LVN_KEY_REAL_OF(type, field) LVN_KEY_OF(LVN_KEY_REAL, type, field, double)
#define LVN_KEY_BOOL_OF(type, field) LVN_KEY_OF(LVN_KEY_BOOL, type, field, bool)
#define LVN_KEY_WORD_OF(type, field) LVN_KEY_OF(LVN_KEY_WORD, type, field, int64_t)

/* --- files --- */

/* How a tensor of a file and a parameter belong together; see models/weight_files.h. */
enum lvn_file_how {
    LVN_FILE_TRANSPOSED = 1,   /* (out, in) in the file, (in, out) in memory */
    LVN_FILE_INTERLEAVED = 2,  /* the file's rows: q, k and v of the first head, then of the second; memory's: all q,
                                  all k, all v */
    LVN_FILE_ROWS = 4,         /* a row a token or position, of which there may be more or fewer; so have embeddings */
    LVN_FILE_ELSE_ZEROS = 8,   /* the parameter is zeros where the file lacks it */
    LVN_FILE_ZERO_FILL = 16,   /* where the model lacks it the file has zeros: one for each column of `param` */
    LVN_FILE_DUPLICATE = 32,   /* `param` a second time, where the model has nothing of this name */
    LVN_FILE_LEGACY = 128,     /* what older files call it: read where the usual name is not there, and never written */
    LVN_FILE_PASSED_OVER = 64, /* read without a look, where the model has nothing of this name */
};
/* The first row that fits a name counts. Patterns: `*` is any text, and the same on both sides. A name that no row fits
 * is the same in both. Ended by a NULL name. */
struct lvn_file {
    const char *name;  /* in files */
    const char *param; /* the parameter's; NULL: the same */
    unsigned how;      /* LVN_FILE_... or-ed */
};

/* --- sizes --- */

struct lvn_key_value {
    const char *key; /* as recipes call it, without `model.`; NULL ends a list */
    double value;
};
enum { LVN_SIZE_KEYS = 12 };
struct lvn_size {
    const char *name;             /* model.size; NULL ends the list */
    const char *repository;       /* of Hugging Face's hub, where it is published; NULL: nowhere */
    int64_t value[LVN_SIZE_KEYS]; /* of the model's size_keys */
};

/* --- a model --- */

struct lvn_model {
    const char *name;                      /* model.kind */
    const char *type;                      /* model_type of config.json; NULL: the name */
    const char *what;                      /* what tells it from others, for help */
    const struct lvn_key *keys;            /* ended by LVN_KEY_END */
    const struct lvn_file *files;          /* NULL: names and layouts are the parameters' */
    const char *prefix;                    /* of names in files, which some files leave out; NULL: none */
    const struct lvn_model *saved_as;      /* the variant whose keys and files its directories have; NULL: itself */
    const char *checkpoint;                /* file of torch.save() with `model` and `model_args`, or NULL: */
    const char *program;                   /* how this program keeps such models */
    const struct lvn_size *sizes;          /* NULL: none has a name */
    const char *size_keys[LVN_SIZE_KEYS];  /* what they tell */
    const struct lvn_key_value *published; /* what published ones have besides */
    const struct lvn_key_value *tiny;      /* sizes that a test takes */
    const char *linear_maps;               /* names of those that adapters may stand beside; NULL: none */
    const char *lora_targets;              /* those that have one when nobody says which */
    const char *parts;                     /* names as freezing takes them, an example */
    bool generates;                        /* keeps keys and values between runs, so that it can go on with a text */
    bool bounded; /* a text ends with the positions; else its last part goes on as if it were all */
    /* Fills in what is 0 and follows from other values; NULL: nothing. The network is built of, and config.json told,
     * what comes out; the configuration itself stays as it was said. */
    void (*settle)(void *own);
    /* What ranges do not tell; sizes that the data decide on may still be 0. ARG with a sentence; NULL: nothing. */
    enum lvn_status (*check)(const void *own);
    const struct lvn_head *heads;   /* that it can have, the usual one first; NULL: one, without a name */
    const struct lvn_field *inputs; /* fields that it reads; ends with one without a name */
    const char *const *tasks;       /* that it can learn (tasks.def), the usual one first; ends with NULL */
    /* The network: the prediction from the inputs, in their order; for language models ids (B,T) and logits (B,T,V). */
    struct lvn_tensor *(*build)(struct lvn_graph *g, const struct lvn_model_config *c,
                                struct lvn_tensor *const *inputs);
    /* What the prediction should be, for tasks without a field to learn from; NULL: it can do none of those. */
    struct lvn_tensor *(*target)(struct lvn_graph *g, const struct lvn_model_config *c,
                                 struct lvn_tensor *const *inputs);
};
enum { LVN_MODEL_INPUTS = LVN_MAX_FIELDS };
/* What models from token ids (B,T) to logits (B,T,V) read and learn. */
extern const struct lvn_field lvn_language_inputs[];
extern const char *const lvn_language_tasks[];
/* Of those with a head for classes besides. */
extern const char *const lvn_decoder_tasks[];

/* Of texts that have an end: ids (B,T), length (B). */
extern const struct lvn_field lvn_text_inputs[];

/* The head for a task; NULL: the model has no heads, or none for it. */
const struct lvn_head *lvn_model_head(const struct lvn_model *m, const char *task);
/* Has it the head for this task? */
bool lvn_model_is_for(const struct lvn_model_config *c, const char *task);
/* What it reads, with the head that it has. */
const struct lvn_field *lvn_model_inputs(const struct lvn_model_config *c);
/* By name; NULL when there is none. */
const struct lvn_model *lvn_model_find(const char *name);
/* All, ended by NULL; the first is the one that nobody asked for. */
const struct lvn_model *const *lvn_models(void);
/* What config.json calls it. */
const char *lvn_model_type(const struct lvn_model *m);
/* The variant whose keys and files a model's directories have. */
const struct lvn_model *lvn_model_form(const struct lvn_model *m);
/* The variant of m's family that a format is called after; `huggingface` is lvn_model_form(). ARG when there is none.
 */
enum lvn_status lvn_model_variant(const struct lvn_model *m, const char *format,
                                  const struct lvn_model **out) LVN_CHECKED;
/* NULL: m has no size of this name. */
const struct lvn_size *lvn_size_find(const struct lvn_model *m, const char *name);
/* A published model by its name or its repository: its size, and of which model that is. NULL: there is none. */
const struct lvn_size *lvn_published_find(const char *name, const struct lvn_model **model);

/* The prediction from the inputs, adapters included. Errors are in the graph (lvn_graph_status). */
struct lvn_tensor *lvn_model_build(struct lvn_graph *g, const struct lvn_model_config *c,
                                   struct lvn_tensor *const *inputs);
/* The same on the smallest inputs there can be, for the parameters that it declares. */
void lvn_model_declare(struct lvn_graph *g, const struct lvn_model_config *c);

#endif
