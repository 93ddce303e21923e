/* test_labelled.c - covers: src/text/data/table.c src/text/data/dataset.c src/text/data/mask.c
 *
 * Tables, labelled texts and masks. */
#include "faults.h"
#include "io_test.h"

#include <math.h>

#include "base/arena.h"
#include "base/random.h"
#include "data/dataset.h"
#include "data/table.h"

/* --- tables --- */

static const char *put(const char *name, const char *text)
{
    test_put(name, text, (int64_t)strlen(text));
    return test_path(name);
}

/* All rows as "text|label;" or "!MESSAGE;", without the path. */
static bool next(struct lvn_table *t, struct lvn_table_row *row)
{
    bool more;
    ASSERT_OK(lvn_table_next(t, row, &more));
    return more;
}

static void assert_rows(const char *name, const char *file, const char *expected)
{
    struct lvn_table t;
    struct lvn_table_row row;
    struct lvn_text got = {0};
    char path[512];
    snprintf(path, sizeof path, "%s", put(name, file));
    ASSERT_OK(lvn_table_open(&t, path));
    ASSERT_OK(lvn_table_column(&t, "document|text", true));
    ASSERT_OK(lvn_table_column(&t, "label", true));
    while (next(&t, &row)) {
        if (*row.bad)
            lvn_text_printf(&got, "!%s;", row.bad + strlen(path) + 1);
        else
            lvn_text_printf(&got, "%.*s|%.*s;", (int)row.cell[0].n, row.cell[0].p, (int)row.cell[1].n, row.cell[1].p);
    }
    assert_string_equal(lvn_text_string(&got), expected);
    lvn_text_release(&got);
    lvn_table_close(&t);
}

static void quotes(void **state)
{
    (void)state;
    struct lvn_table t;
    /* as Python's csv.reader(strict=True): the line where the faulty one was opened; the next line is a row */
    assert_rows(
        "strict.csv",
        "text,label\n\"he said,1\nmore,0\na \"quote\" inside,2\n\"closing\" of,3\n\"fine\",4\r\n\"\",5\n\"x\"\n",
        "!2: text after the closing quote; within a quoted cell a quotation mark is written twice;more|0;a "
        "\"quote\" inside|2;!5: text after the closing quote; within a quoted cell a quotation mark is written "
        "twice;fine|4;|5;!8: 1 columns; the first line has 2;");
    assert_rows("open.csv", "text,label\n\"two\nlines\",\"0\n1\n",
                "!3: a quotation mark is never closed;!3: a quotation mark is never closed;!4: 1 columns; the first "
                "line has 2;");
    ASSERT_FAILS(FORMAT, "quoted.csv:1: text after the closing quote",
                 lvn_table_open(&t, put("quoted.csv", "\"a\"b,c\n")));
    lvn_table_close(&t);
}

static void other_encodings(void **state)
{
    (void)state;
    struct lvn_table t;
    ASSERT_OK(lvn_table_open(&t, put("cp949.jsonl", "{\"text\": \"\xbf\xc0\", \"label\": 1}\n")));
    ASSERT_FAILS(FORMAT, "line 1: it is not UTF-8 text: " LVN_UTF8_ADVICE, lvn_table_column(&t, "text", true));
    lvn_table_close(&t);
    ASSERT_FAILS(FORMAT, "cp949.csv:1: byte 6 is not UTF-8; convert the file with iconv -f ENCODING",
                 lvn_table_open(&t, put("cp949.csv", "text,\xbf\xc0\n1,a\n")));
    lvn_table_close(&t);
}

static void tables(void **state)
{
    (void)state;
    assert_rows("a.tsv", "id\tdocument\tlabel\n1\ta \"b\t0\n2\t\t1\r\n\n3\tx\n4\ta\tb\tc\n5\tend\t1",
                "a \"b|0;|1;!5: 2 columns; the first line has 3;!6: 4 columns; the first line has 3;end|1;");
    assert_rows("b.csv", "\xef\xbb\xbflabel , text\n0,\"a, \"\"b\"\"\nnext\"\n1,plain\n2,\"open\n3,rest\n",
                "a, \"b\"\nnext|0;plain|1;!5: a quotation mark is never closed;rest|3;");
    assert_rows(
        "c.jsonl", "{\"text\": \"a\\tb\", \"label\": 1}\n{\"text\": \"a\"}\n[1]\n{\"text\": 1.5, \"label\": 0}\n",
        "a\tb|1;!2: there is no 'label';!3: no JSON object, but an array: `jq -c '.[]' FILE > FILE.jsonl` makes "
        "lines of it;!4: 'text' is neither text nor a whole number;");
    assert_rows("d.tsv", "text\tlabel\na\xff\t1\nb\t0\n", "!2: byte 2 is not UTF-8: " LVN_UTF8_ADVICE ";b|0;");
    struct lvn_table t;
    ASSERT_OK(lvn_table_open(&t, put("e.tsv", "words\tclass\na\t1\n")));
    ASSERT_FAILS(FORMAT, "has no column 'document' or 'text'; its columns are words, class",
                 lvn_table_column(&t, "document|text", true));
    lvn_table_close(&t);
    ASSERT_OK(lvn_table_open(&t, put("f.jsonl", "{\"words\": 1, \"class\": 2}\n")));
    ASSERT_FAILS(FORMAT, "has no column 'text'; its columns are words, class", lvn_table_column(&t, "text", true));
    lvn_table_close(&t);
    ASSERT_OK(lvn_table_open(&t, put("g.jsonl", "[{\"text\": \"a\"},\n{\"text\": \"b\"}]\n")));
    ASSERT_FAILS(FORMAT, "no line is a JSON object; each must be a row", lvn_table_column(&t, "text", true));
    lvn_table_close(&t);
    ASSERT_OK(lvn_table_open(&t, put("nan.jsonl", "\n{\"text\": Nan}\n{\"text\": 1,}\n")));
    ASSERT_FAILS(FORMAT, "\"label\": 0}; line 2: invalid token near 'Nan'", lvn_table_column(&t, "text", true));
    lvn_table_close(&t);
    /* malformed headers */
    ASSERT_FAILS(FORMAT, "t.tsv:1: byte 6 is not UTF-8; convert the file with iconv -f ENCODING",
                 lvn_table_open(&t, put("t.tsv", "label\xff\ttext\n1\ta\n")));
    lvn_table_close(&t);
    ASSERT_FAILS(FORMAT, "semicolon.csv:1: 'text;label' has no comma",
                 lvn_table_open(&t, put("semicolon.csv", "text;label\na;1\n")));
    lvn_table_close(&t);
    ASSERT_OK(lvn_table_open(&t, put("one.tsv", "a, b\nc\n"))); /* a table of one column */
    lvn_table_close(&t);
    ASSERT_FAILS(FORMAT, "zero.tsv:1: contains a NUL byte, as text in UTF-16 does; convert",
                 lvn_table_open_text(&t, "zero.tsv", "la\0bel\ttext\n1\ta\n", 17));
    lvn_table_close(&t);
    ASSERT_OK(lvn_table_open(&t, put("twice.csv", "text,text,label\na,b,1\n")));
    ASSERT_FAILS(FORMAT, "2 columns have the name 'text'", lvn_table_column(&t, "document|text", true));
    lvn_table_close(&t);
    ASSERT_OK(lvn_table_open(&t, put("long.jsonl", "{\"text\": 1}\n")));
    ASSERT_FAILS(ARG, "a column's name has at most 63 bytes",
                 lvn_table_column(&t, "a2345678901234567890123456789012345678901234567890123456789012345", true));
    lvn_table_close(&t);
    /* lines before the first object are bad rows, and its columns are found */
    struct lvn_table_row row;
    ASSERT_OK(lvn_table_open(&t, put("late.jsonl", "\n{\"text\n[1]\n{\"text\": \"a\"}\n")));
    ASSERT_OK(lvn_table_column(&t, "document|text", true));
    for (int line = 2; line <= 3; line++) {
        assert_true(next(&t, &row));
        assert_int_equal(row.line, line);
        assert_non_null(strstr(row.bad, "no JSON object"));
    }
    assert_true(next(&t, &row));
    assert_string_equal(row.bad, "");
    assert_memory_equal(row.cell[0].p, "a", 2);
    lvn_table_close(&t);
    /* further text of the same file: line numbers continue */
    ASSERT_OK(lvn_table_open_text(&t, "part.tsv", "text\na\n", 7));
    ASSERT_OK(lvn_table_column(&t, "text", true));
    assert_true(next(&t, &row));
    assert_false(next(&t, &row));
    lvn_table_continue(&t, "b\nc\td\n", 6);
    assert_true(next(&t, &row) && row.line == 3 && !*row.bad && *row.cell[0].p == 'b');
    assert_true(next(&t, &row));
    assert_string_equal(row.bad, "part.tsv:4: 2 columns; the first line has 1");
    lvn_table_close(&t);
    ASSERT_FAILS(FORMAT, "fewer than 12 bytes", lvn_table_open(&t, put("f.parquet", "PAR1")));
    lvn_table_close(&t);
}

/* --- the data set --- */

static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##c\nd\n";
enum { CLS = 2, SEP, MASK, A, B, XC, D };

static struct lvn_data_options options(const char *name, const char *file)
{
    static char path[512], dir[512];
    put("vocab.txt", vocabulary);
    snprintf(path, sizeof path, "%s", put(name, file));
    snprintf(dir, sizeof dir, "%s", test_path("vocab.txt"));
    return (struct lvn_data_options){
        .kind = "labelled", .path = path, .tokenizer = dir, .block_size = 8, .for_evaluation = true};
}

/* Sample i of the split `all`. */
static void assert_sample(const struct lvn_dataset *d, int64_t i, int64_t T, const int32_t *ids, const int32_t *types,
                          int32_t length, int32_t label)
{
    int32_t got[2][16], n, of;
    ASSERT_OK(
        lvn_dataset_sample(d, LVN_SPLIT_ALL, i, (struct lvn_draw){.length = T}, (void *[]){got[0], got[1], &n, &of}));
    assert_memory_equal(got[0], ids, sizeof *ids * (size_t)T);
    assert_memory_equal(got[1], types, sizeof *types * (size_t)T);
    assert_int_equal(n, length);
    assert_int_equal(of, label);
}

static void samples(void **state)
{
    struct lvn_dataset *d;
    struct lvn_data_options o =
        options("a.tsv", "text\tmore\tlabel\na b\td\t0\nac\ta b d\t2\na b a b a b\td d d d\t1\n");
    (void)state;
    ASSERT_OK(lvn_dataset_open(&d, &o));
    assert_int_equal(d->vocab_size, 9);
    assert_int_equal(d->fields.field[3].below, 3);
    assert_sample(d, 0, 6, (int32_t[]){CLS, A, B, SEP, 0, 0}, (int32_t[6]){0}, 4, 0);
    assert_sample(d, 1, 5, (int32_t[]){CLS, A, XC, SEP, 0}, (int32_t[5]){0}, 4, 2);
    assert_sample(d, 2, 8, (int32_t[]){CLS, A, B, A, B, A, B, SEP}, (int32_t[8]){0}, 8, 1);
    lvn_dataset_close(d);
    o.pair_column = "more";
    ASSERT_OK(lvn_dataset_open(&d, &o));
    assert_sample(d, 0, 8, (int32_t[]){CLS, A, B, SEP, D, SEP, 0, 0}, (int32_t[]){0, 0, 0, 0, 1, 1, 0, 0}, 6, 0);
    assert_sample(d, 1, 8, (int32_t[]){CLS, A, XC, SEP, A, B, D, SEP}, (int32_t[]){0, 0, 0, 0, 1, 1, 1, 1}, 8, 2);
    /* the longer text is truncated first, then both */
    assert_sample(d, 2, 8, (int32_t[]){CLS, A, B, A, SEP, D, D, SEP}, (int32_t[]){0, 0, 0, 0, 0, 1, 1, 1}, 8, 1);
    lvn_dataset_close(d);
}

/* The tokens of the two texts of a pair, as the `longest_first` of Hugging Face's tokenizers 0.23 truncates them. */
static void truncated_pairs(void **state)
{
    static const int cases[][5] = {
        /* room, tokens of the texts, tokens left of them */
        {4, 1, 9, 1, 3}, {4, 9, 1, 3, 1}, {4, 3, 3, 2, 2}, {4, 9, 3, 2, 2}, {5, 1, 9, 1, 4}, {5, 3, 3, 2, 3},
        {5, 5, 4, 3, 2}, {5, 4, 5, 2, 3}, {5, 9, 9, 2, 3}, {5, 9, 2, 3, 2}, {5, 2, 9, 2, 3}, {7, 4, 4, 3, 4},
        {7, 5, 4, 4, 3}, {7, 9, 2, 5, 2}, {7, 9, 3, 4, 3}, {7, 4, 9, 3, 4}, {7, 3, 3, 3, 3}, {7, 3, 4, 3, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int *c = cases[i];
        struct lvn_dataset *d;
        struct lvn_text file = {0};
        int32_t ids[16], types[16], n, label, left[2] = {-2, -1}; /* [CLS], [SEP] and [SEP] */
        lvn_text_printf(&file, "text\tmore\tlabel\n%.*s\t%.*s\t0\n", 2 * c[1], "a a a a a a a a a ", 2 * c[2],
                        "b b b b b b b b b ");
        struct lvn_data_options o = options("pair.tsv", lvn_text_string(&file));
        o.pair_column = "more";
        o.max_length = o.block_size = c[0] + 3;
        ASSERT_OK(lvn_dataset_open(&d, &o));
        ASSERT_OK(lvn_dataset_sample(d, LVN_SPLIT_ALL, 0, (struct lvn_draw){.length = c[0] + 3},
                                     (void *[]){ids, types, &n, &label}));
        for (int k = 0; k < n; k++) left[types[k]]++;
        assert_int_equal(left[0], c[3]);
        assert_int_equal(left[1], c[4]);
        lvn_dataset_close(d);
        lvn_text_release(&file);
    }
}

static void bad_rows(void **state)
{
    struct lvn_dataset *d;
    struct lvn_data_options o = options("a.tsv", "text\tlabel\na\t0\nb\tgood\n\t1\nd\t1.5\na\t7\nd\t1\n");
    (void)state;
    ASSERT_FAILS(FORMAT, "a.tsv:3: the label is 'good'; the classes, from '", lvn_dataset_open(&d, &o));
    ASSERT_FAILS(FORMAT, "', are 0 to 7; correct it, or skip such rows with data.skip_bad_rows=true",
                 lvn_dataset_open(&d, &o));
    o.skip_bad_rows = true;
    ASSERT_OK(lvn_dataset_open(&d, &o));
    assert_int_equal(d->skipped, 3);
    assert_int_equal(lvn_dataset_samples(d, LVN_SPLIT_ALL), 3);
    assert_int_equal(d->fields.field[3].below, 8);
    lvn_dataset_close(d);
    o.classes = 2;
    ASSERT_OK(lvn_dataset_open(&d, &o));
    assert_int_equal(d->skipped, 4);
    lvn_dataset_close(d);
    o.skip_bad_rows = false;
    o = options("b.tsv", "text\tlabel\na\t7\n");
    o.classes = 2;
    ASSERT_FAILS(FORMAT, "b.tsv:2: the label is 7; the model knows 0 to 1", lvn_dataset_open(&d, &o));
    o.tokenizer = "";
    ASSERT_FAILS(ARG, "has no tokenizer: give data.tokenizer", lvn_dataset_open(&d, &o));
    o = options("c.txt", "a\n");
    ASSERT_FAILS(FORMAT, "is not a table", lvn_dataset_open(&d, &o));
    o = options("c.txt.gz", "a\n");
    ASSERT_FAILS(FORMAT, "is not a table", lvn_dataset_open(&d, &o));
    o = options("c.csv", "text;label\na;0\n");
    ASSERT_FAILS(FORMAT, "c.csv:1: 'text;label' has no comma, which separates", lvn_dataset_open(&d, &o));
    o = options("c.tsv", "text,label\na,0\n");
    ASSERT_FAILS(FORMAT, "c.tsv:1: 'text,label' has no tab, which separates", lvn_dataset_open(&d, &o));
    o = options("c.csv", "sep=,\ntext,label\na,0\n");
    ASSERT_FAILS(FORMAT, "c.csv:1: 'sep=' is a line for Excel", lvn_dataset_open(&d, &o));
    o = options("c.jsonlines", "{\"text\": \"a\", \"label\": 0}\n{\"text\": \"a\", \"label\": 1}\n");
    ASSERT_OK(lvn_dataset_open(&d, &o));
    lvn_dataset_close(d);
    put("none.txt", "[UNK]\na\n");
    o = options("b.tsv", "text\tlabel\na\t0\n");
    put("vocab.txt", "[UNK]\na\n");
    ASSERT_FAILS(FORMAT, "has no token [CLS]", lvn_dataset_open(&d, &o));
}

/* --- classes --- */

/* "name name ...:class class ...", of the data set's classes and samples, or the failure's sentence. */
static const char *classes_of(const char *name, const char *file, const char *val, struct lvn_data_options more)
{
    static struct lvn_text got;
    static char val_path[512];
    struct lvn_dataset *d;
    struct lvn_data_options o = options(name, file);
    if (val) snprintf(val_path, sizeof val_path, "%s", put("val.tsv", val));
    o.val_path = val ? val_path : NULL;
    o.classes = more.classes;
    o.class_names = more.class_names;
    o.class_advice = more.class_advice;
    o.skip_bad_rows = more.skip_bad_rows;
    o.label = more.label;
    lvn_text_release(&got);
    if (lvn_dataset_open(&d, &o) != LVN_OK) {
        const char *path = strstr(levin_error_text(), o.path);
        lvn_text_add(&got, path && !val ? path + strlen(o.path) - strlen(name) : levin_error_text());
        lvn_error_clear();
        return lvn_text_string(&got);
    }
    const struct lvn_field *f = &d->fields.field[3];
    for (int64_t k = 0; d->class_names && k < f->below; k++) lvn_text_printf(&got, "%s ", d->class_names[k]);
    lvn_text_printf(&got, "(%d):", (int)f->below);
    for (int64_t i = 0; i < d->split[LVN_SPLIT_TRAIN].n_samples; i++) {
        int32_t ids[8], types[8], n, label;
        ASSERT_OK(lvn_dataset_sample(d, LVN_SPLIT_TRAIN, i, (struct lvn_draw){.length = 8},
                                     (void *[]){ids, types, &n, &label}));
        lvn_text_printf(&got, " %d", (int)label);
    }
    lvn_dataset_close(d);
    return lvn_text_string(&got);
}

static void classes(void **state)
{
    static const struct {
        const char *name, *file, *expected;
    } cases[] = {
        {"w.csv", "text,label\na,pos\nb,neg\nd,pos\n", "neg pos (2): 1 0 1"},
        {"t.tsv", "text\tlabel\na\tTrue\nb\tFalse\n", "False True (2): 1 0"},
        {"f.csv", "text,label\na,1.0\nb,0.0\nd,1e+00\n", "(2): 1 0 1"},
        {"s.csv", "text,label\na,\" pos\"\nb,neg \nd,pos\n", "neg pos (2): 1 0 1"},
        {"k.tsv", "text\tlabel\na\t\xea\xb8\x8d\xec\xa0\x95\nb\t\xeb\xb6\x80\xec\xa0\x95\nd\tZ\n",
         "Z \xea\xb8\x8d\xec\xa0\x95 \xeb\xb6\x80\xec\xa0\x95 (3): 1 2 0"},
        {"one.csv", "text,label\na,5\nb,10\nd,1\n", "1 5 10 (3): 1 2 0"}, /* in the order of numbers */
        {"minus.csv", "text,label\na,1\nb,-1\n", "-1 1 (2): 1 0"},
        {"zero.csv", "text,label\na,0\nb,2\n", "(3): 0 2"},
        {"ones.csv", "text,label\na,1\nb,1\n", "(2): 1 1"},
        {"case.csv", "text,label\na,pos\nb,Pos\n", "Pos pos (2): 1 0"},
        {"j.jsonl", "{\"text\": \"a\", \"label\": true}\n{\"text\": \"b\", \"label\": false}\n", "false true (2): 1 0"},
        {"n.jsonl", "{\"text\": \"a\", \"label\": 1.0}\n{\"text\": \"b\", \"label\": 0}\n", "(2): 1 0"},
        {"w.jsonl", "{\"text\": \"a\", \"label\": \"pos\"}\n{\"text\": \"b\", \"label\": \"neg\"}\n",
         "neg pos (2): 1 0"},
        {"code.csv", "text,label\na,007\nb,07\nd,7\ne,10\n", "007 07 10 7 (4): 0 1 3 2"},
        {"nfd.csv", "text,label\na,e\xcc\x81\nb,\xc3\xa9\nd,x\n", "x \xc3\xa9 (2): 1 1 0"},
        {"wide.csv", "text,label\na,pos\xc2\xa0\nb,\xe3\x80\x80pos\nd,neg\xe2\x80\x8b\n", "neg pos (2): 1 1 0"},
        {"mixed.csv", "text,label\na,x\nb,7\nd,y\n", "7 x y (3): 1 0 2"}, /* more words than numbers */
        /* refused */
        {"nul.jsonl", "{\"text\": \"a\", \"label\": null}\n{\"text\": \"b\", \"label\": 0}\n",
         "nul.jsonl:1: 'label' is null; correct it, or skip such rows with data.skip_bad_rows=true"},
        {"h.csv", "text,label\na,pos\ntext,label\nd,neg\n",
         "h.csv:3: the row repeats the names of the columns, as in tables that were joined; correct it, or skip such "
         "rows with data.skip_bad_rows=true"},
        {"e.csv", "text,label\na,pos\nb,\nd,neg\n",
         "e.csv:3: the label is empty; correct it, or skip such rows with data.skip_bad_rows=true"},
        {"c.csv", "text,label\na,\"p\nos\"\nb,neg\nd,pos\n",
         "c.csv:2: the label 'p?os' holds a line end or a control character; correct it, or skip such rows with "
         "data.skip_bad_rows=true"},
        {"r.csv", "text,label\na,0\nb,1.5\n",
         "r.csv:3: the label is 1.5, and a class is a word or a whole number; to learn numbers, set task.kind=regress; "
         "correct it, or skip such rows with data.skip_bad_rows=true"},
        {"m.csv", "text,label\na,0\nb,1\nd,1000000\n",
         "m.csv:4: the label is 1000000; the classes are the whole numbers 0 to 1, and there may be 65536; to learn "
         "numbers, set task.kind=regress; correct it, or skip such rows with data.skip_bad_rows=true"},
        {"same.csv", "text,label\na,pos\nb,pos\n",
         "same.csv': all rows have the label 'pos'; a classifier needs rows of at least two classes, in the column "
         "that "
         "data.label_column names"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(classes_of(cases[i].name, cases[i].file, NULL, (struct lvn_data_options){0}),
                            cases[i].expected);
    /* classes of a model: by name, by number where no name is a number, in the model's order */
    const struct lvn_data_options named = {.classes = 2, .class_names = "pos\0neg"},
                                  stars = {.classes = 3, .class_names = "3\0002\0001"}, numbers = {.classes = 2};
    assert_string_equal(classes_of("a.csv", "text,label\na,pos\nb,neg\nd,1\n", NULL, named), "pos neg (2): 0 1 1");
    assert_string_equal(classes_of("a.csv", "text,label\na,1\nb,3.0\nd,2\n", NULL, stars), "3 2 1 (3): 2 0 1");
    assert_string_equal(classes_of("a.csv", "text,label\na,1\nb,LABEL_0\n", NULL, numbers), "(2): 1 0");
    const char *refused = classes_of("a.csv", "text,label\na,0\nb,neg\n", NULL, stars);
    assert_non_null(strstr(refused, "a.csv:2: the label is 0; the model knows '3', '2', '1'; correct it"));
    refused = classes_of("a.csv", "text,label\na,pos\nb,meh\n", NULL,
                         (struct lvn_data_options){.classes = 2, .class_names = "pos\0neg", .class_advice = "DO THIS"});
    assert_non_null(strstr(refused, "a.csv:3: the label is 'meh'; the model knows 'pos', 'neg'; DO THIS; correct it"));
    /* a class that only validation has */
    refused = classes_of("a.csv", "text,label\na,pos\nb,neg\n", "text\tlabel\na\tpos\nb\tmeh\n",
                         (struct lvn_data_options){0});
    assert_non_null(strstr(refused, "val.tsv:3: the label is 'meh'; the classes, from '"));
    assert_non_null(strstr(refused, "', are 'neg', 'pos'; correct it"));
    refused = classes_of("a.csv", "text,label\na,0\nb,1\n", "text\tlabel\na\t0\nb\t2\n", (struct lvn_data_options){0});
    assert_non_null(strstr(refused, "val.tsv:3: the label is '2'; the classes, from '"));
    assert_non_null(strstr(refused, "', are 0 to 1; correct it"));
}

/* Codes are no numbers, larger numbers keep their digits, and -1 is no class. */
static void codes(void **state)
{
    const struct lvn_data_options none = {0};
    (void)state;
    assert_string_equal(classes_of("e.csv", "text,label\na,1e3\nb,-1e4\nd,1000\n", NULL, none),
                        "-1e4 1000 1e3 (3): 2 0 1");
    assert_string_equal(classes_of("f.csv", "text,label\na,9007199254740992\nb,9007199254740993\n", NULL, none),
                        "9007199254740992 9007199254740993 (2): 0 1");
    assert_string_equal(classes_of("id.jsonl",
                                   "{\"text\": \"a\", \"label\": 18446744073709551615}\n"
                                   "{\"text\": \"b\", \"label\": 18446744073709551614}\n",
                                   NULL, none),
                        "18446744073709551614 18446744073709551615 (2): 1 0");
    const char *refused = classes_of("a.csv", "text,label\na,0\nb,1\n", "text\tlabel\na\t-1\n", none);
    assert_non_null(strstr(refused, "val.tsv:2: the label is -1, with which data sets mark rows without a label, as in "
                                    "their test data; the classes are 0 to 1; correct it"));
}

/* A column of texts, or of numbers to learn, is no column of classes. */
static void no_classes(void **state)
{
    LVN_LOCAL_TEXT(words);
    LVN_LOCAL_TEXT(prices);
    LVN_LOCAL_TEXT(many);
    (void)state;
    lvn_text_add(&words, "text,label\n");
    lvn_text_add(&prices, "text,label\n");
    lvn_text_add(&many, "text,label\n");
    for (int i = 0; i < 30; i++) lvn_text_printf(&words, "a,name %c%d\n", 'a' + i % 26, i);
    for (int i = 0; i < 30; i++) lvn_text_printf(&prices, "a,%d\n", 1000 + 7 * i);
    for (int i = 0; i < 70000; i++) lvn_text_printf(&many, "a,x%d\nb,x%d\n", i, i);
    assert_string_equal(
        classes_of("w.csv", lvn_text_string(&words), NULL, (struct lvn_data_options){0}),
        "w.csv': each of the 30 rows has a different label, such as 'name a0': name the column of the class with "
        "data.label_column");
    assert_string_equal(
        classes_of("p.csv", lvn_text_string(&prices), NULL, (struct lvn_data_options){0}),
        "p.csv': each of the 30 rows has a different label, such as '1000': name the column of the class with "
        "data.label_column, or learn the numbers with task.kind=regress");
    assert_string_equal(classes_of("m.csv", lvn_text_string(&many), NULL, (struct lvn_data_options){0}),
                        "m.csv' has more than 65536 different labels, as 'x0': name the column of the class with "
                        "data.label_column, or learn numbers with task.kind=regress");
}

/* The splits of one file: each row is in exactly one of them, for any seed. */
static void parts(void **state)
{
    struct lvn_text file = {0};
    struct lvn_dataset *d;
    int seen[100] = {0};
    (void)state;
    lvn_text_add(&file, "text\tlabel\n");
    for (int i = 0; i < 100; i++) lvn_text_printf(&file, "a\t%d\n", i);
    struct lvn_data_options o = options("a.tsv", lvn_text_string(&file));
    o.val_fraction = 0.2;
    ASSERT_OK(lvn_dataset_open(&d, &o));
    assert_int_equal(lvn_dataset_samples(d, LVN_SPLIT_TRAIN), 80);
    assert_int_equal(lvn_dataset_samples(d, LVN_SPLIT_VAL), 20);
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < lvn_dataset_samples(d, (enum lvn_split_id)split); i++) {
            int32_t ids[8], types[8], n, label;
            ASSERT_OK(lvn_dataset_sample(d, (enum lvn_split_id)split, i, (struct lvn_draw){.length = 8},
                                         (void *[]){ids, types, &n, &label}));
            seen[label]++;
        }
    for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
    lvn_dataset_close(d);
    lvn_text_release(&file);
}

/* --- masks --- */

static void masks(void **state)
{
    enum { N = 20000 };
    static int32_t ids[N], before[N], labels[N], again[N], other[N];
    struct lvn_tokenizer *t;
    struct lvn_mask m;
    int chosen = 0, hidden = 0, same = 0, alike = 0, halves = 0;
    (void)state;
    put("vocab.txt", vocabulary);
    ASSERT_OK(lvn_tokenizer_open(&t, test_path("vocab.txt")));
    ASSERT_OK(lvn_mask_init(&m, t, 0.15, false, 5));
    for (int i = 0; i < N; i++) before[i] = i % 100 == 0 ? CLS : i % 2 ? A : XC;
    memcpy(ids, before, sizeof ids);
    memcpy(again, before, sizeof again);
    lvn_mask_sample(&m, 3, 7, N, ids, labels);
    lvn_mask_sample(&m, 3, 7, N, again, other);
    assert_memory_equal(ids, again, sizeof ids);
    assert_memory_equal(labels, other, sizeof labels);
    for (int i = 0; i < N; i++) {
        if (labels[i] < 0) assert_int_equal(ids[i], before[i]);
        if (labels[i] < 0) continue;
        assert_int_equal(labels[i], before[i]);
        assert_int_not_equal(before[i], CLS);
        chosen++;
        hidden += ids[i] == MASK;
        same += ids[i] == before[i];
    }
    /* within five standard deviations; one in nine of the random tokens is [MASK], one the same */
    assert_true(fabs(chosen / (0.99 * N) - 0.15) < 5 * sqrt(0.15 * 0.85 / N));
    assert_true(fabs((double)hidden / chosen - (0.8 + 0.1 / 9)) < 5 * sqrt(0.16 / chosen));
    assert_true(fabs((double)same / chosen - (0.1 + 0.1 / 9)) < 5 * sqrt(0.1 / chosen));
    memcpy(again, before, sizeof again);
    lvn_mask_sample(&m, 4, 7, N, again, other); /* another epoch, another choice */
    for (int i = 0; i < N; i++) alike += labels[i] >= 0 && other[i] >= 0;
    assert_true(alike < chosen / 3);
    lvn_tokenizer_close(t);
    static const char *const with_bom[] = {"vocab.txt", "marked.json",
                                           "bare.json"}; /* whole words: the prefix is ##, @, empty */
    static const char json[] =
        "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,"
        "\"[MASK]\":4,\"a\":5,\"b\":6,\"@c\":7,\"d\":8},\"continuing_subword_prefix\":\"%s\"}}";
    char text[sizeof json];
    for (int k = 0; k < 3; k++) {
        snprintf(text, sizeof text, json, k == 1 ? "@" : "");
        if (k) put(with_bom[k], text);
        ASSERT_OK(lvn_tokenizer_open(&t, test_path(with_bom[k])));
        if (k == 2)
            ASSERT_FAILS(ARG, "task.whole_words requires a WordPiece tokenizer with continuation prefixes",
                         lvn_mask_init(&m, t, 0.15, true, 5));
        else
            ASSERT_OK(lvn_mask_init(&m, t, 0.15, true, 5));
        memcpy(ids, before, sizeof ids);
        if (k < 2) lvn_mask_sample(&m, 3, 7, N, ids, labels);
        for (int i = 1; i + 1 < N && k < 2; i += 2)
            if (before[i + 1] == XC) halves += (labels[i] < 0) != (labels[i + 1] < 0);
        assert_int_equal(halves, 0);
        lvn_tokenizer_close(t);
    }
}

/* A special token of the user, which texts have with data.allow_special. */
static void special_tokens_are_no_labels(void **state)
{
    struct lvn_tokenizer *t;
    struct lvn_mask m;
    int32_t ids[1000], labels[1000];
    (void)state;
    put("special.json", "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,"
                        "\"[MASK]\":4,\"a\":5,\"b\":6}},\"added_tokens\":[{\"id\":5,\"content\":\"a\",\"special\":true,"
                        "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false}]}");
    ASSERT_OK(lvn_tokenizer_open(&t, test_path("special.json")));
    ASSERT_OK(lvn_mask_init(&m, t, 0.5, false, 5));
    for (int i = 0; i < 1000; i++) ids[i] = A;
    lvn_mask_sample(&m, 3, 7, 1000, ids, labels);
    for (int i = 0; i < 1000; i++) assert_int_equal(labels[i], -1);
    lvn_tokenizer_close(t);
}

/* The mask token is the one that tokenizer_config.json names, or [MASK], or <mask>. */
static void the_mask_token_is_the_tokenizers_own(void **state)
{
    static const char vocab[] = "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"<unk>\",\"vocab\":{\"<pad>\":0,"
                                "\"<unk>\":1,\"<s>\":2,\"</s>\":3,\"<mask>\":4,\"a\":5,\"b\":6}}}";
    struct lvn_tokenizer *t;
    struct lvn_mask m;
    (void)state;
    mkdir(test_path("own"), 0777);
    put("own/tokenizer.json", vocab);
    for (int named = 0; named < 2; named++) {
        if (named) put("own/tokenizer_config.json", "{\"mask_token\": \"b\"}");
        ASSERT_OK(lvn_tokenizer_open(&t, test_path("own")));
        ASSERT_OK(lvn_mask_init(&m, t, 0.5, false, 5));
        assert_int_equal(m.mask, named ? 6 : 4);
        lvn_tokenizer_close(t);
    }
}

/* A row that cannot be read for lack of memory is not a bad row. */
static void memory_that_runs_out(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"m.tsv", "text\tlabel\na b\t0\nc\t1\n"},
        {"m.csv", "text,label\na b,0\n\"c\",1\n"},
        {"m.jsonl", "{\"text\": \"a b\", \"label\": 0}\n{\"text\": \"c\", \"label\": 1}\n"},
    };
    for (int i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s", put(files[i][0], files[i][1]));
        for (long k = 1;; k++) {
            struct lvn_table t;
            struct lvn_table_row row;
            bool more = true;
            int rows = 0;
            fault_memory_at(k);
            enum lvn_status status = lvn_table_open(&t, path);
            if (status == LVN_OK) status = lvn_table_column(&t, "document|text", true);
            if (status == LVN_OK) status = lvn_table_column(&t, "label", true);
            while (status == LVN_OK && more) {
                status = lvn_table_next(&t, &row, &more);
                if (status != LVN_OK || !more) continue;
                assert_string_equal(row.bad, "");
                rows++;
            }
            fault_memory_at(0);
            lvn_table_close(&t);
            if (status == LVN_OK) {
                assert_int_equal(rows, 2);
                assert_true(k > 2);
                break;
            }
            assert_int_equal(status, LVN_MEMORY);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(other_encodings),
        cmocka_unit_test(quotes),
        cmocka_unit_test(samples),
        cmocka_unit_test(truncated_pairs),
        cmocka_unit_test(bad_rows),
        cmocka_unit_test(classes),
        cmocka_unit_test(codes),
        cmocka_unit_test(no_classes),
        cmocka_unit_test(parts),
        cmocka_unit_test(masks),
        cmocka_unit_test(special_tokens_are_no_labels),
        cmocka_unit_test(the_mask_token_is_the_tokenizers_own),
        cmocka_unit_test(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}
