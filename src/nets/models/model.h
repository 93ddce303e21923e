/* model.h - a model family: a configuration in, a graph out.
 *
 * A family is one file that ends in a `struct lvn_model` (variants may share a file), and a line in models.def. It
 * writes the network once, as expressions over operations; training, evaluation and generation build graphs of the
 * same expressions. Three tables in the file translate its names:
 *
 *   keys    a field of the family's configuration <-> a key of config.json <-> a key of recipes; range, default
 *   files   how names and layouts of tensors in files differ from those of the parameters
 *   sizes   names of published and other well-known models of the family, and where they are published
 *
 * Callers read and write model directories, check, list and explain settings through these tables (models/keys.h,
 * models/weight_files.h, model_io/pretrained.h): of other folders only cli/config names families, in its recipes. Not
 * here: the values of parameters, and reading and writing files. */
#ifndef LVN_MODEL_H
#define LVN_MODEL_H

#include "base/field.h"
#include "graph/graph.h"

/* Low-rank adapters of linear layers (models/lora.h). */
struct lvn_lora {
    int64_t rank; /* 0: none */
    double alpha;
    bool rslora;           /* scaled by alpha / sqrt(rank) instead of alpha / rank */
    double dropout;        /* rate on the input of A, in training */
    const char *targets;   /* patterns over names (graph/names.h) */
    const int32_t *tokens; /* [n_tokens] ids whose rows of the embedding are trained */
    int n_tokens;
};

/* A model's head for a task. If a file has another head, the parameters of this one get initial values. */
struct lvn_head {
    const char *task;               /* a name of tasks.def; "": no task */
    enum lvn_label_kind label;      /* what it predicts */
    const char *architecture;       /* `architectures` of config.json; NULL ends a list */
    const struct lvn_field *inputs; /* fields that the model reads with this head; NULL: the model's */
    const char *params; /* patterns over names of the head's parameters (graph/names.h); NULL: it has none */
};

/* A model's configuration: a plain value, freely copied. `fields` holds the family's struct, which only the family's
 * file knows; others reach its members by the family's keys (models/keys.h). */
enum { LVN_FIELDS_BYTES = 320 };
/* What a classification head was trained for, as `problem_type` of config.json says. */
enum lvn_problem { LVN_SINGLE_LABEL, LVN_REGRESSION, LVN_MULTI_LABEL };
enum { LVN_PAD_NONE = -1, LVN_PAD_END = -2 /* the end token */ };
/* A parameter that files have in packed blocks (packed/packed.h). */
struct lvn_stored_type {
    const char *name; /* of the parameter */
    enum lvn_dtype dtype;
};

struct lvn_model_config {
    const struct lvn_model *model;
    struct lvn_lora lora;
    const struct lvn_head *head; /* one of the model's heads; NULL: the model has no list of them */
    bool fresh_head;             /* the files lack it or have another one: it starts with initial values */
    bool other_head;             /* config.json names a head that levin does not have: its tensors are skipped */
    int64_t classes;             /* of a classification head */
    enum lvn_problem problem;    /* of a classification head; of a head for numbers LVN_REGRESSION */
    const char *class_names;     /* `classes` texts, each with its NUL; NULL: none. Copies share it. Set by
                                    lvn_model_name_classes(), read by lvn_class_name() */
    int64_t end_id;              /* id of the end-of-text token, of several the first; -1: none */
    bool end_known;              /* config.json or the user named end_id; otherwise a tokenizer may */
    int64_t pad_id;              /* pads texts for a classifier if `kept` names no token: LVN_PAD_...; an id */
    const char *kept;            /* members of config.json that are written back as they were found, as JSON;
                                    NULL: none. Copies share it (lvn_intern()) */
    const struct lvn_model *kept_variant; /* the variant whose config.json they are from */
    const struct lvn_stored_type *stored; /* [n_stored]: weights that stay in memory in the packed blocks of their
                                             files. Copies share it */
    int n_stored;
    int64_t fields[LVN_FIELDS_BYTES / 8]; /* the family's struct; int64_t for its alignment */
};

/* --- keys --- */

enum lvn_key_kind {
    LVN_KEY_END,
    LVN_KEY_INT,  /* int64_t */
    LVN_KEY_REAL, /* double */
    LVN_KEY_BOOL, /* bool */
    LVN_KEY_WORD, /* int64_t: one of `words`; config.json may hold a list of them: the one that is last in `words` */
    LVN_KEY_LIST, /* const char *: a list of `words` in config.json, stored as a string of their first letters, which
                     copies share; NULL: the file has no list. Read only */
    /* keys of config.json without a field: */
    LVN_KEY_MUST,  /* read only: true, false or a number, which must be `default_value` */
    LVN_KEY_NAME,  /* written: a list of one name, the head's architecture, or `text` */
    LVN_KEY_TOKEN, /* written: the end token; `default_value` if neither an id nor null was named; null if the
                      vocabulary has no such token */
    LVN_KEY_DTYPE, /* written: the number type of the weights */
};

/* What the rest of the program asks a model for, whatever its family calls it. */
enum lvn_role {
    LVN_ROLE_NOTHING,
    LVN_ROLE_LAYERS,
    LVN_ROLE_HEADS,
    LVN_ROLE_HEAD_SIZE,  /* of families whose head's size is a key; 0 until defaults are resolved */
    LVN_ROLE_POSITIONS,  /* the longest sequence; a run's windows may be shorter */
    LVN_ROLE_VOCABULARY, /* tokens */
};

/* A value of a key. A list of them ends with a NULL `description`. */
struct lvn_key_word {
    const char *name; /* in config.json; NULL: the key is not LVN_KEY_WORD */
    int64_t value;
    const char *description; /* for messages: "the tanh GELU" */
};

struct lvn_key {
    enum lvn_key_kind kind;
    uint32_t offset;    /* of the field in the family's struct */
    const char *json;   /* key of config.json; NULL: none. "levin.bias" is `bias` in the object `levin` (levin's own),
                           and likewise for other objects; objects in objects are possible if the key is read only */
    const char *recipe; /* key of recipes, without `model.`; keys of the same name are set together; NULL: none */
    double default_value;
    double min;                   /* INT, REAL: smallest value */
    double max;                   /* INT, REAL: largest value */
    double absent;                /* value if config.json lacks the key (0: the default). JSON null means the default */
    double null_value;            /* the value for JSON null, which is also written as null; 0: null is the default */
    uint32_t default_multiple_of; /* offset of an INT field: an INT of 0 means default_multiple times that field */
    int32_t default_multiple;     /* 0: an INT of 0 is 0 */
    int64_t json_offset;          /* INT: the value in config.json is greater by this */
    int64_t (*of_layers)(int64_t n); /* INT: the default in a recipe, from the number of layers; NULL: default_value */
    const char *help;                /* of the recipe's key */
    const struct lvn_key_word *words;
    const char *text;      /* NAME */
    enum lvn_role role;    /* LVN_ROLE_NOTHING: none */
    bool required : 1;     /* config.json must have it */
    bool read_only : 1;    /* read from config.json, never written */
    bool omit_default : 1; /* written to config.json only if it differs from the default */
    bool null : 1;         /* the default is written as null */
    bool by_data : 1;      /* 0 in a recipe: set from the data */
    bool any_time : 1;     /* a recipe may set it for a loaded model, too */
    bool fixed : 1;        /* always the default; distinguishes this variant from others of the family */
    bool count : 1;        /* REAL: written as an integer if it is one */
    bool in_positions : 1; /* INT: a recipe's value may not exceed the number of positions */
};
/* {LVN_KEY_INT_OF(struct gpt2, n_layer), .json = ...}: the field must have the kind's type. */
#define LVN_KEY_OF(kind_, type, field, c_type)                                                                         \
    .kind = kind_, .offset = offsetof(type, field) + 0 * sizeof(_Generic(&((type *)0)->field, c_type * : (char)0))
#define LVN_KEY_INT_OF(type, field) LVN_KEY_OF(LVN_KEY_INT, type, field, int64_t)
#define LVN_KEY_REAL_OF(type, field) LVN_KEY_OF(LVN_KEY_REAL, type, field, double)
#define LVN_KEY_BOOL_OF(type, field) LVN_KEY_OF(LVN_KEY_BOOL, type, field, bool)
#define LVN_KEY_LIST_OF(type, field) LVN_KEY_OF(LVN_KEY_LIST, type, field, const char *)
#define LVN_KEY_WORD_OF(type, field) LVN_KEY_OF(LVN_KEY_WORD, type, field, int64_t)

/* --- files --- */

/* How a tensor of a file corresponds to a parameter; see models/weight_files.h. Flags of a row. */
enum lvn_file_flag {
    LVN_FILE_TRANSPOSED = 1,       /* (out, in) in the file, (in, out) in memory */
    LVN_FILE_INTERLEAVED = 2,      /* rows in the file: q, k and v of the first head, then of the second; rows in
                                      memory: all q, all k, all v */
    LVN_FILE_ROWS = 4,             /* a row per token or position; the file may have more or fewer. Embeddings always
                                      have this flag */
    LVN_FILE_ZEROS_IF_MISSING = 8, /* the parameter is zeros if the file lacks the tensor */
    LVN_FILE_ZERO_FILL = 16,       /* written as zeros if the model lacks it: one for each column of `param` */
    LVN_FILE_DUPLICATE = 32,       /* a second copy of `param`, if the model has no parameter of this name */
    LVN_FILE_LEGACY = 128,         /* name in older files: read if the usual name is missing, never written */
    LVN_FILE_IGNORED = 64,         /* skipped when read, if the model has no parameter of this name */
    LVN_FILE_OTHER_PART = 256,     /* of a part that levin does not have (a vision model): skipped and reported */
    LVN_FILE_PAIRED = 512,         /* rows of a head in the file: the first of both halves, then the second of both */
    LVN_FILE_PLUS_ONE = 1024,      /* values in the file are those in memory plus 1 */
    LVN_FILE_PADDED = 2048,        /* the file may have up to 63 further rows, which round a vocabulary up to a multiple
                                      of 64; they are skipped */
};
/* The first row that matches a name counts. In patterns `*` matches any text, the same on both sides. A name without a
 * matching row is the same in file and model. A NULL name ends the table. */
struct lvn_file {
    const char *name;  /* in files */
    const char *param; /* name of the parameter; NULL: the same */
    unsigned flags;    /* LVN_FILE_... or-ed */
};

/* --- GGUF --- */

/* A value of config.json in the metadata of a GGUF file. */
struct lvn_gguf_key {
    const char *name; /* after the architecture's name and a point; NULL ends a table */
    const char *json; /* key of config.json */
    enum {
        LVN_GGUF_PLAIN,
        LVN_GGUF_PER_HEAD, /* in config.json divided by a head's size */
        LVN_GGUF_TENSOR,   /* true if the file has the tensor `name` */
        LVN_GGUF_LAYERS,   /* layer_types: a list with true for each layer with a window */
    } how;
};
/* How llama.cpp's files describe models of a family. */
struct lvn_gguf_family {
    const char *architecture;        /* general.architecture; of two families, files are of the first in models.def */
    const struct lvn_gguf_key *keys; /* further ones are the same in all families (model_io/gguf_model.c) */
    const struct lvn_file *files;    /* names and layouts of all parameters */
    /* UNSUPPORTED with a message if llama.cpp computes such a model (resolved fields) differently; NULL: never. */
    enum lvn_status (*check)(const void *fields);
    /* Set what follows from other fields in llama.cpp; NULL: nothing. */
    void (*derive)(void *fields);
};

/* --- sizes --- */

struct lvn_key_value {
    const char *key; /* key of recipes, without `model.`; NULL ends a list */
    double value;
};
enum { LVN_SIZE_KEYS = 12 };
struct lvn_size {
    const char *name;             /* model.size; NULL ends the list */
    const char *repository;       /* on the Hugging Face hub; NULL: not published */
    int64_t value[LVN_SIZE_KEYS]; /* of the model's size_keys */
};

/* --- a model --- */

/* How to train a model by its depth. */
enum { LVN_DEPTH_KEYS = 16, LVN_DEPTH_TEXT = 1024 };
struct lvn_depth_plan {
    int64_t batch;  /* tokens of a step */
    int64_t steps;  /* of training */
    int64_t tokens; /* of training */
    double min_lr;  /* last learning rate, as a fraction of optimizer.lr */
    /* Keys of the optimizer, the schedule and clipping with their values: optimizer.kind first, schedule.kind before
     * other keys of schedules; the last one has no key. */
    struct {
        const char *key;
        char value[LVN_DEPTH_TEXT];
    } set[LVN_DEPTH_KEYS + 1];
};

struct lvn_model {
    const char *name;                      /* model.kind */
    const char *type;                      /* model_type of config.json; NULL: the name */
    const char *whole;                     /* model_type of multimodal models whose text model is this one, described
                                              by the object `text_config` of config.json; NULL: none */
    const char *help;                      /* how it differs from other models */
    const struct lvn_key *keys;            /* ended by LVN_KEY_END */
    const struct lvn_file *files;          /* NULL: names and layouts are those of the parameters */
    const struct lvn_gguf_family *gguf;    /* NULL: llama.cpp does not have the family */
    const char *prefix;                    /* of names in files; some files leave it out; NULL: none */
    const struct lvn_model *saved_as;      /* the variant whose keys and files its directories have; NULL: itself */
    const char *checkpoint;                /* file of torch.save() with `model` and `model_args`; NULL: none */
    const char *metadata;                  /* not NULL: the checkpoint holds tensors alone, and a JSON file next to it
                                              `model_config`. In both names `*` is the number of the step */
    const char *program;                   /* the program that writes such checkpoints */
    const struct lvn_size *sizes;          /* NULL: no named sizes */
    const char *size_keys[LVN_SIZE_KEYS];  /* keys of recipes that a size sets */
    const struct lvn_key_value *published; /* further values of published sizes */
    int64_t published_tokens;              /* of their tokenizer; 0: the number of rows of their vocabulary */
    const struct lvn_key_value *tiny;      /* sizes for tests */
    const char *linear_layers;             /* names of the linear layers that may have adapters; NULL: none */
    const char *lora_targets;              /* the maps that have adapters by default */
    const char *freeze_example;            /* patterns for the setting that freezes parameters, an example */
    bool generates;                        /* has a cache of keys and values, so that it can generate text */
    bool bounded; /* generation ends when all positions are used; otherwise it continues from the last positions */
    /* Replace each 0 that means a derived default by its value; NULL: there are none. The graph is built from,
     * and config.json written with, the resolved fields; the configuration itself keeps the zeros. */
    void (*resolve_defaults)(void *fields);
    size_t rope; /* bytes from the fields to their struct lvn_rope, where that may depend on positions; 0: none */
    /* Prepare for fewer positions, with which the model computes the same: write down what follows from the present
     * number. ARG if that is impossible; NULL: nothing follows from it. */
    enum lvn_status (*shorten)(void *fields, int64_t positions);
    /* The authors' training settings for a depth; NULL: none. */
    void (*train_by_depth)(const void *fields, int64_t batch, struct lvn_depth_plan *out);
    /* Check conditions that ranges cannot express; sizes set from the data may still be 0. ARG or UNSUPPORTED with a
     * message; NULL: none. */
    enum lvn_status (*check)(const void *fields);
    const struct lvn_head *heads;   /* the default first; NULL: one head without a name */
    int64_t classes;                /* of a model without heads that predicts classes; 0: it predicts none */
    const struct lvn_field *inputs; /* fields that it reads; ends with one without a name */
    const char *const *tasks;       /* tasks that it can learn (tasks.def), the default first; ends with NULL */
    /* The network: the prediction from the inputs, in their order; for language models ids (B,T) and logits (B,T,V). */
    struct levin_tensor *(*build)(struct levin_graph *g, const struct lvn_model_config *c,
                                  struct levin_tensor *const *inputs);
    /* The target of the prediction, for tasks without a label field; NULL: it cannot learn such tasks. */
    struct levin_tensor *(*target)(struct levin_graph *g, const struct lvn_model_config *c,
                                   struct levin_tensor *const *inputs);
};
enum { LVN_MODEL_INPUTS = LVN_MAX_FIELDS };
/* Inputs and tasks of models from token ids (B,T) to logits (B,T,V). */
extern const struct lvn_field lvn_language_inputs[];
extern const char *const lvn_language_tasks[];
/* Tasks of those that have a classification head as well. */
extern const char *const lvn_decoder_tasks[];

/* Inputs with a length: ids (B,T), length (B). */
extern const struct lvn_field lvn_text_inputs[];

/* The head for a task; NULL: the model has no heads, or none for the task. */
const struct lvn_head *lvn_model_head(const struct lvn_model *m, const char *task);
/* The head that predicts labels of this kind; NULL: the model has no heads, or none of this kind. */
const struct lvn_head *lvn_model_head_of(const struct lvn_model *m, enum lvn_label_kind label);
/* Does the configuration's head predict labels of this kind? */
bool lvn_model_predicts(const struct lvn_model_config *c, enum lvn_label_kind label);
/* Is its prediction one for each sample, a class or a number? */
bool lvn_model_predicts_samples(const struct lvn_model_config *c);
/* Give the configuration a head with this number of classes, without names; a regression head has a single class. */
void lvn_model_set_head(struct lvn_model_config *c, const struct lvn_head *head, int64_t classes);
/* Names the classes of the configuration's head: c->classes names of any length and number, in the order of the ids.
 * They are copied, and config.json holds them as id2label and label2id. */
enum lvn_status lvn_model_name_classes(struct lvn_model_config *c, const char *const *names) LVN_CHECKED;
/* The name of class i, or LABEL_i (in `text`) if the classes have no names. Valid until `text` ends, or forever. */
enum { LVN_CLASS_NAME = 32 };
const char *lvn_class_name(const struct lvn_model_config *c, int64_t i, char text[LVN_CLASS_NAME]);
/* The fields that the model reads with its head. */
const struct lvn_field *lvn_model_inputs(const struct lvn_model_config *c);
/* By name; NULL if there is none. */
const struct lvn_model *lvn_model_find(const char *name);
/* All models, ended by NULL; the first is the default. */
const struct lvn_model *const *lvn_models(void);
/* model_type of config.json. */
const char *lvn_model_type(const struct lvn_model *m);
/* The variant whose keys and files the directories of m have. */
const struct lvn_model *lvn_model_file_variant(const struct lvn_model *m);
/* The variant of m's family by the name of its format; `huggingface` is lvn_model_file_variant(). ARG if there is none.
 */
enum lvn_status lvn_model_variant(const struct lvn_model *m, const char *format,
                                  const struct lvn_model **out) LVN_CHECKED;
/* NULL: m has no size of this name. */
const struct lvn_size *lvn_size_find(const struct lvn_model *m, const char *name);
/* The size of a published model by its name or its repository, and the model that it belongs to. NULL: not found. */
const struct lvn_size *lvn_published_find(const char *name, const struct lvn_model **model);
/* The name of the published model that a user may have meant: spelled almost like it, or its repository's name without
 * the organization, in any case of letters. NULL: none. */
const char *lvn_published_nearest(const char *name);

/* The prediction from the inputs, adapters included. Errors are recorded in the graph (lvn_graph_status). */
struct levin_tensor *lvn_model_build(struct levin_graph *g, const struct lvn_model_config *c,
                                     struct levin_tensor *const *inputs);
/* Build the same on the smallest possible inputs, to declare the model's parameters. */
void lvn_model_declare(struct levin_graph *g, const struct lvn_model_config *c);
/* The model's parameters, without values, to compare files with. */
enum lvn_status lvn_model_params_new(struct lvn_params **out, const struct lvn_model_config *c) LVN_CHECKED;

#endif
