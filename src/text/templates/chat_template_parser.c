/* chat_template_parser.c - see chat_template_private.h: tokens to nodes, by recursive descent, like Jinja's parser.
 * Filters and tests are looked up here, so that a template with an unknown one is refused before anything is rendered.
 */

#include "templates/chat_template_private.h"

enum { MAX_DEPTH = 150, MAX_NAMES = 4096 };

struct parser {
    struct lvn_chat_template *t;
    const struct lvn_tpl_token *k; /* the current token */
    int depth, loops;              /* loops: around the current statement, within a macro */
    int ifs;                       /* around the current statement */
    int32_t names_capacity;
};
typedef enum lvn_status parse_function(struct parser *p, struct lvn_tpl_node **out);

#define REFUSE(p, status, ...) return refuse(p, LVN_##status, __VA_ARGS__)

static enum lvn_status refuse(struct parser *p, enum lvn_status status, const char *format, ...) LVN_PRINTF(3, 4);
static enum lvn_status refuse(struct parser *p, enum lvn_status status, const char *format, ...)
{
    char text[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return lvn_fail(status, "'%s', line %d: %s", p->t->name, p->k->line, text);
}

static enum lvn_status unexpected(struct parser *p, const char *expected)
{
    bool data = p->k->kind == LVN_TOKEN_DATA;
    REFUSE(p, FORMAT, "found %s%.*s%s, expected %s", data ? "text" : "'",
           data           ? 0
           : p->k->n < 60 ? (int)p->k->n
                          : 60,
           p->k->p, data ? "" : "'", expected);
}

static struct lvn_tpl_node *node(struct parser *p, enum lvn_tpl_node_kind kind)
{
    struct lvn_tpl_node *made = lvn_arena_alloc(&p->t->arena, sizeof *made);
    if (!made) return NULL;
    made->kind = (uint8_t)kind;
    made->line = p->k->line;
    return made;
}

/* Create *out, or return LVN_MEMORY from the calling function. */
#define MAKE(p, out, kind)                                                                                             \
    do {                                                                                                               \
        if (!(*(out) = node(p, kind))) return LVN_MEMORY;                                                              \
    } while (0)

static bool is_op(const struct parser *p, enum lvn_tpl_operator op)
{
    return p->k->kind == LVN_TOKEN_OPERATOR && p->k->op == op;
}

static bool is_word(const struct lvn_tpl_token *k, const char *word)
{
    return k->kind == LVN_TOKEN_NAME && k->n == (int64_t)strlen(word) && memcmp(k->p, word, (size_t)k->n) == 0;
}

static bool skip_op(struct parser *p, enum lvn_tpl_operator op)
{
    bool is = is_op(p, op);
    p->k += is;
    return is;
}

static bool skip_word(struct parser *p, const char *word)
{
    bool is = is_word(p->k, word);
    p->k += is;
    return is;
}

static enum lvn_status expect_op(struct parser *p, enum lvn_tpl_operator op, const char *text)
{
    return skip_op(p, op) ? LVN_OK : unexpected(p, text);
}

/* The index of a name in t->names; a new name is added. */
static enum lvn_status name_index(struct parser *p, const char *text, int64_t n, int32_t *out)
{
    struct lvn_chat_template *t = p->t;
    for (*out = 0; *out < t->n_names; ++*out)
        if (strncmp(t->names[*out], text, (size_t)n) == 0 && !t->names[*out][n]) return LVN_OK;
    if (t->n_names == p->names_capacity) {
        LVN_CHECK(t->n_names < MAX_NAMES, UNSUPPORTED, "'%s' has more than %d variables", t->name, MAX_NAMES);
        int32_t capacity = t->n_names ? 2 * t->n_names : 64;
        const char **more = lvn_arena_alloc(&t->arena, (size_t)capacity * sizeof *more);
        if (!more) return LVN_MEMORY;
        if (t->n_names) memcpy(more, t->names, (size_t)t->n_names * sizeof *more);
        t->names = more;
        p->names_capacity = capacity;
    }
    char *copy = lvn_arena_printf(&t->arena, "%.*s", (int)n, text);
    if (!copy) return LVN_MEMORY;
    t->names[t->n_names++] = copy;
    return LVN_OK;
}

/* The current token, a name, as a string that ends with a NUL. */
static enum lvn_status kept_name(struct parser *p, struct lvn_tpl_value *out)
{
    int32_t name;
    LVN_TRY(name_index(p, p->k->p, p->k->n, &name));
    *out = lvn_tpl_name(p->t->names[name]);
    return LVN_OK;
}

/* --- expressions --- */

static parse_function parse_expression, parse_or, parse_unary_filtered, parse_tuple_free;
static enum lvn_status parse_primary(struct parser *p, struct lvn_tpl_node **out);

static bool ends_tuple(const struct parser *p)
{
    return p->k->kind == LVN_TOKEN_OUTPUT_END || p->k->kind == LVN_TOKEN_STATEMENT_END || p->k->kind == LVN_TOKEN_END ||
           is_op(p, LVN_SIGN_RPAREN) || is_word(p->k, "in");
}

/* One expression, or several with commas, which become a tuple. */
static enum lvn_status parse_tuple(struct parser *p, parse_function *one, bool in_parentheses,
                                   struct lvn_tpl_node **out)
{
    struct lvn_tpl_node *tuple, **last;
    bool comma = false;
    MAKE(p, &tuple, LVN_NODE_LIST);
    tuple->op = 1;
    for (last = &tuple->a; !ends_tuple(p); last = &(*last)->next) {
        LVN_TRY(one(p, last));
        if (!is_op(p, LVN_SIGN_COMMA)) {
            last = &(*last)->next;
            break;
        }
        p->k++;
        comma = true;
    }
    if (!tuple->a && !in_parentheses) return unexpected(p, "an expression");
    *out = comma || !tuple->a ? tuple : tuple->a;
    return LVN_OK;
}

static enum lvn_status parse_tuple_free(struct parser *p, struct lvn_tpl_node **out)
{
    return parse_tuple(p, parse_expression, false, out);
}

static enum lvn_status parse_number(struct parser *p, struct lvn_tpl_node *number)
{
    char digits[48];
    int n = 0;
    bool real = false;
    for (int64_t i = 0; i < p->k->n; i++)
        if (p->k->p[i] != '_') {
            digits[n++] = p->k->p[i];
            real = real || strchr(".eE", p->k->p[i]);
        }
    digits[n] = 0;
    number->v = (struct lvn_tpl_value){.kind = LVN_TPL_FLOAT, .f = strtod(digits, NULL)};
    if (real) return LVN_OK;
    if (n > 18 || (n > 1 && *digits == '0')) REFUSE(p, UNSUPPORTED, "the number '%s' is not supported", digits);
    number->v = lvn_tpl_int(strtoll(digits, NULL, 10));
    return LVN_OK;
}

static enum lvn_status parse_literal(struct parser *p, struct lvn_tpl_node *literal)
{
    if (p->k->kind == LVN_TOKEN_NUMBER) {
        LVN_TRY(parse_number(p, literal));
        p->k++;
        return LVN_OK;
    }
    int64_t n = 0;
    const struct lvn_tpl_token *first = p->k; /* neighboring strings are one string */
    for (; p->k->kind == LVN_TOKEN_STRING; p->k++) n += p->k->n;
    char *copy = lvn_arena_alloc(&p->t->arena, (size_t)n + 1), *to = copy;
    if (!copy) return LVN_MEMORY;
    for (; first < p->k; to += first->n, first++) memcpy(to, first->p, (size_t)first->n);
    literal->v = lvn_tpl_text(copy, n);
    return LVN_OK;
}

static enum lvn_status parse_list(struct parser *p, bool dict, struct lvn_tpl_node **out)
{
    enum lvn_tpl_operator close = dict ? LVN_SIGN_RBRACE : LVN_SIGN_RBRACKET;
    MAKE(p, out, dict ? LVN_NODE_DICT : LVN_NODE_LIST);
    p->k++;
    for (struct lvn_tpl_node **last = &(*out)->a; !skip_op(p, close); last = &(*last)->next) {
        if ((*out)->a) LVN_TRY(expect_op(p, LVN_SIGN_COMMA, dict ? "',' or '}'" : "',' or ']'"));
        if (skip_op(p, close)) break;
        if (!dict) {
            LVN_TRY(parse_expression(p, last));
            continue;
        }
        MAKE(p, last, LVN_NODE_PAIR);
        LVN_TRY(parse_expression(p, &(*last)->a));
        LVN_TRY(expect_op(p, LVN_SIGN_COLON, "':' after a key"));
        LVN_TRY(parse_expression(p, &(*last)->b));
    }
    return LVN_OK;
}

static enum lvn_status parse_word(struct parser *p, struct lvn_tpl_node **out)
{
    static const struct {
        const char *word;
        uint8_t kind;
        bool b;
    } constants[] = {{"true", LVN_TPL_BOOL, true},   {"True", LVN_TPL_BOOL, true},  {"false", LVN_TPL_BOOL, false},
                     {"False", LVN_TPL_BOOL, false}, {"none", LVN_TPL_NONE, false}, {"None", LVN_TPL_NONE, false}};
    MAKE(p, out, LVN_NODE_NAME);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (is_word(p->k, constants[i].word)) {
            (*out)->kind = LVN_NODE_CONST;
            (*out)->v = (struct lvn_tpl_value){.kind = constants[i].kind, .b = constants[i].b};
            p->k++;
            return LVN_OK;
        }
    LVN_TRY(name_index(p, p->k->p, p->k->n, &(*out)->name));
    p->k++;
    return LVN_OK;
}

static enum lvn_status parse_primary(struct parser *p, struct lvn_tpl_node **out)
{
    if (p->k->kind == LVN_TOKEN_NAME) return parse_word(p, out);
    if (p->k->kind == LVN_TOKEN_STRING || p->k->kind == LVN_TOKEN_NUMBER) {
        MAKE(p, out, LVN_NODE_CONST);
        return parse_literal(p, *out);
    }
    if (is_op(p, LVN_SIGN_LBRACKET)) return parse_list(p, false, out);
    if (is_op(p, LVN_SIGN_LBRACE)) return parse_list(p, true, out);
    if (!skip_op(p, LVN_SIGN_LPAREN)) return unexpected(p, "an expression");
    LVN_TRY(parse_tuple(p, parse_expression, true, out));
    return expect_op(p, LVN_SIGN_RPAREN, "')'");
}

/* Arguments in parentheses, a PAIR for each keyword. */
static enum lvn_status parse_arguments(struct parser *p, struct lvn_tpl_node **out)
{
    int n = 0;
    bool keywords = false;
    p->k++;
    for (struct lvn_tpl_node **last = out; !skip_op(p, LVN_SIGN_RPAREN); last = &(*last)->next) {
        if (n++) LVN_TRY(expect_op(p, LVN_SIGN_COMMA, "',' or ')'"));
        if (n > 1 && skip_op(p, LVN_SIGN_RPAREN)) break;
        if (n > LVN_TPL_ARGUMENTS)
            REFUSE(p, UNSUPPORTED, "more than %d arguments are not supported", LVN_TPL_ARGUMENTS);
        if (is_op(p, LVN_SIGN_MUL) || is_op(p, LVN_SIGN_POW))
            REFUSE(p, UNSUPPORTED, "arguments with '*' or '**' are not supported");
        bool keyword =
            p->k->kind == LVN_TOKEN_NAME && p->k[1].kind == LVN_TOKEN_OPERATOR && p->k[1].op == LVN_SIGN_ASSIGN;
        if (keywords && !keyword) REFUSE(p, FORMAT, "an argument without a keyword follows one with a keyword");
        keywords = keyword;
        if (!keyword) {
            LVN_TRY(parse_expression(p, last));
            continue;
        }
        MAKE(p, last, LVN_NODE_PAIR);
        LVN_TRY(kept_name(p, &(*last)->v));
        p->k += 2;
        LVN_TRY(parse_expression(p, &(*last)->a));
    }
    return LVN_OK;
}

static enum lvn_status parse_subscript(struct parser *p, struct lvn_tpl_node **out)
{
    struct lvn_tpl_node *slice, **part[3];
    MAKE(p, &slice, LVN_NODE_SLICE);
    part[0] = &slice->a;
    part[1] = &slice->b;
    part[2] = &slice->c;
    int colons = 0;
    for (;;) {
        if (!is_op(p, LVN_SIGN_COLON) && !is_op(p, LVN_SIGN_RBRACKET)) LVN_TRY(parse_expression(p, part[colons]));
        if (colons == 2 || !skip_op(p, LVN_SIGN_COLON)) break;
        colons++;
    }
    *out = colons ? slice : slice->a;
    if (!*out) return unexpected(p, "an index");
    return expect_op(p, LVN_SIGN_RBRACKET, "']'");
}

/* .name, [key] and calls after an expression. */
static enum lvn_status parse_postfix(struct parser *p, struct lvn_tpl_node **out)
{
    for (struct lvn_tpl_node *made;; *out = made) {
        if (is_op(p, LVN_SIGN_DOT)) {
            MAKE(p, &made, LVN_NODE_ATTR);
            p->k++;
            made->a = *out;
            if (p->k->kind == LVN_TOKEN_NUMBER) {
                made->kind = LVN_NODE_ITEM;
                MAKE(p, &made->b, LVN_NODE_CONST);
                LVN_TRY(parse_number(p, made->b));
            } else if (p->k->kind != LVN_TOKEN_NAME) {
                return unexpected(p, "a name after '.'");
            } else {
                LVN_TRY(kept_name(p, &made->v));
            }
            p->k++;
        } else if (is_op(p, LVN_SIGN_LBRACKET)) {
            MAKE(p, &made, LVN_NODE_ITEM);
            p->k++;
            made->a = *out;
            LVN_TRY(parse_subscript(p, &made->b));
        } else if (is_op(p, LVN_SIGN_LPAREN)) {
            MAKE(p, &made, LVN_NODE_CALL);
            made->a = *out;
            LVN_TRY(parse_arguments(p, &made->b));
        } else {
            return LVN_OK;
        }
    }
}

/* The node's value points to the row of the filter or test. As in Jinja, an unknown name is refused immediately, but
 * within an if only when it is used. */
static enum lvn_status parse_filter(struct parser *p, struct lvn_tpl_node **out)
{
    struct lvn_tpl_node *made;
    MAKE(p, &made, LVN_NODE_FILTER);
    if (p->k->kind != LVN_TOKEN_NAME) return unexpected(p, "the name of a filter");
    made->a = *out;
    const struct lvn_tpl_builtin *row = lvn_tpl_filter(p->k->p, p->k->n);
    bool mapping = lvn_tpl_is_mapping_filter(p->k->p, p->k->n);
    if (!row && p->t->strict) row = lvn_tpl_strict_filter(p->k->p, p->k->n);
    if (!row && !mapping && !p->ifs)
        REFUSE(p, UNSUPPORTED, "the filter '%.*s' is not supported", (int)p->k->n, p->k->p);
    LVN_TRY(name_index(p, p->k->p, p->k->n, &made->name));
    made->v.items = (const void *)row;
    made->op = !row && !mapping;
    p->k++;
    if (is_op(p, LVN_SIGN_LPAREN)) LVN_TRY(parse_arguments(p, &made->b));
    *out = made;
    return LVN_OK;
}

static enum lvn_status parse_test(struct parser *p, struct lvn_tpl_node **out)
{
    struct lvn_tpl_node *made, *negation = NULL;
    bool negated = skip_word(p, "not");
    MAKE(p, &made, LVN_NODE_TEST);
    if (p->k->kind != LVN_TOKEN_NAME) return unexpected(p, "the name of a test");
    made->a = *out;
    made->v.items = (const void *)lvn_tpl_test(p->k->p, p->k->n);
    if (!made->v.items && !p->ifs) REFUSE(p, UNSUPPORTED, "the test 'is %.*s' is not supported", (int)p->k->n, p->k->p);
    LVN_TRY(name_index(p, p->k->p, p->k->n, &made->name));
    p->k++;
    bool word = p->k->kind == LVN_TOKEN_NAME && !is_word(p->k, "else") && !is_word(p->k, "or") && !is_word(p->k, "and");
    if (is_op(p, LVN_SIGN_LPAREN)) {
        LVN_TRY(parse_arguments(p, &made->b));
    } else if (word || p->k->kind == LVN_TOKEN_STRING || p->k->kind == LVN_TOKEN_NUMBER ||
               is_op(p, LVN_SIGN_LBRACKET) || is_op(p, LVN_SIGN_LBRACE)) {
        if (is_word(p->k, "is")) REFUSE(p, FORMAT, "tests cannot follow each other; use 'and'");
        LVN_TRY(parse_primary(p, &made->b));
        LVN_TRY(parse_postfix(p, &made->b));
    }
    *out = made;
    if (!negated) return LVN_OK;
    MAKE(p, &negation, LVN_NODE_NOT);
    negation->a = made;
    *out = negation;
    return LVN_OK;
}

static enum lvn_status parse_unary(struct parser *p, bool filtered, struct lvn_tpl_node **out)
{
    if (++p->depth > MAX_DEPTH) REFUSE(p, UNSUPPORTED, "expressions nest more than %d levels", MAX_DEPTH);
    if (is_op(p, LVN_SIGN_SUB) || is_op(p, LVN_SIGN_ADD)) {
        MAKE(p, out, LVN_NODE_NEGATE);
        (*out)->op = p->k->op;
        p->k++;
        LVN_TRY(parse_unary(p, false, &(*out)->a));
    } else {
        LVN_TRY(parse_primary(p, out));
    }
    LVN_TRY(parse_postfix(p, out));
    while (filtered) {
        if (skip_op(p, LVN_SIGN_PIPE))
            LVN_TRY(parse_filter(p, out));
        else if (skip_word(p, "is"))
            LVN_TRY(parse_test(p, out));
        else if (is_op(p, LVN_SIGN_LPAREN))
            LVN_TRY(parse_postfix(p, out));
        else
            break;
    }
    p->depth--;
    return LVN_OK;
}

static enum lvn_status parse_unary_filtered(struct parser *p, struct lvn_tpl_node **out)
{
    return parse_unary(p, true, out);
}

/* Left-associative operators, from the strongest level to the weakest. */
static enum lvn_status parse_level(struct parser *p, int level, struct lvn_tpl_node **out)
{
    static const uint8_t ops[][5] = {{LVN_SIGN_POW},
                                     {LVN_SIGN_MUL, LVN_SIGN_DIV, LVN_SIGN_FLOORDIV, LVN_SIGN_MOD},
                                     {LVN_SIGN_TILDE},
                                     {LVN_SIGN_ADD, LVN_SIGN_SUB}};
    if (level < 0) return parse_unary_filtered(p, out);
    LVN_TRY(parse_level(p, level - 1, out));
    while (p->k->kind == LVN_TOKEN_OPERATOR && p->k->op && memchr(ops[level], p->k->op, 4)) {
        struct lvn_tpl_node *made;
        MAKE(p, &made, LVN_NODE_BINARY);
        made->op = p->k->op;
        made->a = *out;
        p->k++;
        LVN_TRY(parse_level(p, level - 1, &made->b));
        *out = made;
    }
    return LVN_OK;
}

static enum lvn_status parse_compare(struct parser *p, struct lvn_tpl_node **out)
{
    struct lvn_tpl_node *compare = NULL, **last = NULL;
    LVN_TRY(parse_level(p, 3, out));
    for (;;) {
        enum lvn_tpl_operator op = LVN_SIGN_NONE;
        if (p->k->kind == LVN_TOKEN_OPERATOR && p->k->op >= LVN_SIGN_EQ && p->k->op <= LVN_SIGN_GE)
            op = (enum lvn_tpl_operator)p->k->op;
        if (is_word(p->k, "in")) op = LVN_SIGN_IN;
        if (is_word(p->k, "not") && is_word(p->k + 1, "in")) op = LVN_SIGN_NOT_IN;
        if (!op) return LVN_OK;
        if (!compare) {
            MAKE(p, &compare, LVN_NODE_COMPARE);
            compare->a = *out;
            *out = compare;
            last = &compare->b;
        }
        p->k += op == LVN_SIGN_NOT_IN ? 2 : 1;
        MAKE(p, last, LVN_NODE_COMPARE);
        (*last)->op = (uint8_t)op;
        LVN_TRY(parse_level(p, 3, &(*last)->a));
        last = &(*last)->next;
    }
}

static enum lvn_status parse_not(struct parser *p, struct lvn_tpl_node **out)
{
    if (!is_word(p->k, "not")) return parse_compare(p, out);
    if (++p->depth > MAX_DEPTH) REFUSE(p, UNSUPPORTED, "expressions nest more than %d levels", MAX_DEPTH);
    MAKE(p, out, LVN_NODE_NOT);
    p->k++;
    LVN_TRY(parse_not(p, &(*out)->a));
    p->depth--;
    return LVN_OK;
}

static enum lvn_status parse_logic(struct parser *p, bool or, struct lvn_tpl_node **out)
{
    LVN_TRY(or ? parse_logic(p, false, out) : parse_not(p, out));
    while (is_word(p->k, or ? "or" : "and")) {
        struct lvn_tpl_node *made;
        MAKE(p, &made, or ? LVN_NODE_OR : LVN_NODE_AND);
        p->k++;
        made->a = *out;
        LVN_TRY(or ? parse_logic(p, false, &made->b) : parse_not(p, &made->b));
        *out = made;
    }
    return LVN_OK;
}

static enum lvn_status parse_or(struct parser *p, struct lvn_tpl_node **out)
{
    return parse_logic(p, true, out);
}

static enum lvn_status parse_expression(struct parser *p, struct lvn_tpl_node **out)
{
    if (++p->depth > MAX_DEPTH) REFUSE(p, UNSUPPORTED, "expressions nest more than %d levels", MAX_DEPTH);
    LVN_TRY(parse_or(p, out));
    while (is_word(p->k, "if")) {
        struct lvn_tpl_node *made;
        MAKE(p, &made, LVN_NODE_IF_ELSE);
        p->k++;
        made->b = *out;
        LVN_TRY(parse_or(p, &made->a));
        if (skip_word(p, "else")) LVN_TRY(parse_expression(p, &made->c));
        *out = made;
    }
    p->depth--;
    return LVN_OK;
}

/* --- statements --- */

static enum lvn_status parse_body(struct parser *p, const char *const *ends, struct lvn_tpl_node **out);

static enum lvn_status end_tag(struct parser *p)
{
    if (p->k->kind != LVN_TOKEN_STATEMENT_END) return unexpected(p, "'%}'");
    p->k++;
    return LVN_OK;
}

/* After parse_body(): skip the word that ended it, and the end of its tag. */
static enum lvn_status close_tag(struct parser *p)
{
    p->k++;
    return end_tag(p);
}

static enum lvn_status parse_target(struct parser *p, struct lvn_tpl_node **out)
{
    if (p->k->kind != LVN_TOKEN_NAME && !is_op(p, LVN_SIGN_LPAREN)) return unexpected(p, "the name of a variable");
    LVN_TRY(parse_primary(p, out));
    if (!skip_op(p, LVN_SIGN_DOT)) return LVN_OK;
    struct lvn_tpl_node *attribute;
    if (p->k->kind != LVN_TOKEN_NAME) return unexpected(p, "a name after '.'");
    MAKE(p, &attribute, LVN_NODE_ATTR);
    attribute->a = *out;
    LVN_TRY(kept_name(p, &attribute->v));
    p->k++;
    *out = attribute;
    return LVN_OK;
}

static enum lvn_status check_target(struct parser *p, const struct lvn_tpl_node *target)
{
    for (const struct lvn_tpl_node *one = target->kind == LVN_NODE_LIST ? target->a : target; one;
         one = target->kind == LVN_NODE_LIST ? one->next : NULL)
        if (one->kind != LVN_NODE_NAME && one->kind != LVN_NODE_ATTR) return unexpected(p, "names of variables");
    return LVN_OK;
}

/* elif is an if in the else branch, with op 1. It is parsed in a loop, so a chain of them does not count as nesting. */
static enum lvn_status parse_if(struct parser *p, struct lvn_tpl_node **out)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct lvn_tpl_node *one = NULL;
    do {
        MAKE(p, out, LVN_NODE_IF);
        (*out)->op = one != NULL;
        one = *out;
        LVN_TRY(parse_tuple(p, parse_or, false, &one->a));
        LVN_TRY(end_tag(p));
        p->ifs++;
        LVN_TRY(parse_body(p, ends, &one->b));
        p->ifs--;
        out = &one->c;
    } while (skip_word(p, "elif"));
    if (is_word(p->k, "else")) {
        LVN_TRY(close_tag(p));
        p->ifs++;
        LVN_TRY(parse_body(p, ends + 2, &one->c));
        p->ifs--;
    }
    return close_tag(p);
}

static enum lvn_status parse_for(struct parser *p, struct lvn_tpl_node **out)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    MAKE(p, out, LVN_NODE_FOR);
    LVN_TRY(parse_tuple(p, parse_target, false, &(*out)->a));
    LVN_TRY(check_target(p, (*out)->a));
    if (!skip_word(p, "in")) return unexpected(p, "'in'");
    LVN_TRY(parse_tuple(p, parse_or, false, &(*out)->b));
    if (skip_word(p, "if")) LVN_TRY(parse_expression(p, &(*out)->e));
    if (is_word(p->k, "recursive")) REFUSE(p, UNSUPPORTED, "recursive loops are not supported");
    LVN_TRY(end_tag(p));
    p->loops++;
    LVN_TRY(parse_body(p, ends, &(*out)->c));
    p->loops--;
    if (is_word(p->k, "else")) {
        LVN_TRY(close_tag(p));
        LVN_TRY(parse_body(p, ends + 1, &(*out)->d));
    }
    return close_tag(p);
}

static enum lvn_status parse_set(struct parser *p, struct lvn_tpl_node **out)
{
    static const char *const ends[] = {"endset", NULL};
    MAKE(p, out, LVN_NODE_SET);
    LVN_TRY(parse_tuple(p, parse_target, false, &(*out)->a));
    LVN_TRY(check_target(p, (*out)->a));
    if (skip_op(p, LVN_SIGN_ASSIGN)) {
        LVN_TRY(parse_tuple_free(p, &(*out)->b));
        return end_tag(p);
    }
    (*out)->kind = LVN_NODE_SET_BODY;
    while (skip_op(p, LVN_SIGN_PIPE)) LVN_TRY(parse_filter(p, &(*out)->c));
    LVN_TRY(end_tag(p));
    LVN_TRY(parse_body(p, ends, &(*out)->b));
    return close_tag(p);
}

static enum lvn_status parse_macro(struct parser *p, struct lvn_tpl_node **out)
{
    static const char *const ends[] = {"endmacro", NULL};
    int loops = p->loops, n = 0;
    MAKE(p, out, LVN_NODE_MACRO);
    if (p->k->kind != LVN_TOKEN_NAME) return unexpected(p, "the name of a macro");
    LVN_TRY(name_index(p, p->k->p, p->k->n, &(*out)->name));
    p->k++;
    LVN_TRY(expect_op(p, LVN_SIGN_LPAREN, "'('"));
    for (struct lvn_tpl_node **last = &(*out)->a; !skip_op(p, LVN_SIGN_RPAREN); last = &(*last)->next) {
        if (n++) LVN_TRY(expect_op(p, LVN_SIGN_COMMA, "',' or ')'"));
        if (p->k->kind != LVN_TOKEN_NAME) return unexpected(p, "the name of a parameter");
        MAKE(p, last, LVN_NODE_NAME);
        LVN_TRY(name_index(p, p->k->p, p->k->n, &(*last)->name));
        p->k++;
        if (skip_op(p, LVN_SIGN_ASSIGN)) LVN_TRY(parse_expression(p, &(*last)->a));
    }
    LVN_TRY(end_tag(p));
    p->loops = 0;
    LVN_TRY(parse_body(p, ends, &(*out)->b));
    p->loops = loops;
    return close_tag(p);
}

static enum lvn_status parse_generation(struct parser *p, struct lvn_tpl_node **out)
{
    static const char *const ends[] = {"endgeneration", NULL};
    int loops = p->loops;
    MAKE(p, out, LVN_NODE_GENERATION);
    LVN_TRY(end_tag(p));
    p->loops = 0;
    LVN_TRY(parse_body(p, ends, &(*out)->b));
    p->loops = loops;
    p->t->has_generation = true;
    return close_tag(p);
}

static enum lvn_status parse_filter_block(struct parser *p, struct lvn_tpl_node **out)
{
    static const char *const ends[] = {"endfilter", NULL};
    int loops = p->loops;
    MAKE(p, out, LVN_NODE_FILTER_BLOCK);
    do LVN_TRY(parse_filter(p, &(*out)->c));
    while (skip_op(p, LVN_SIGN_PIPE));
    LVN_TRY(end_tag(p));
    p->loops = 0;
    LVN_TRY(parse_body(p, ends, &(*out)->b));
    p->loops = loops;
    return close_tag(p);
}

static enum lvn_status parse_statement(struct parser *p, struct lvn_tpl_node **out)
{
    static const struct {
        const char *word;
        parse_function *parse;
    } all[] = {{"if", parse_if},
               {"for", parse_for},
               {"set", parse_set},
               {"macro", parse_macro},
               {"filter", parse_filter_block},
               {"generation", parse_generation}};
    bool stop = is_word(p->k, "break");
    if (stop || is_word(p->k, "continue")) {
        if (!p->loops) REFUSE(p, FORMAT, "'%.*s' outside of a loop", (int)p->k->n, p->k->p);
        MAKE(p, out, stop ? LVN_NODE_BREAK : LVN_NODE_CONTINUE);
        return close_tag(p);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (skip_word(p, all[i].word)) return all[i].parse(p, out);
    if (p->k->kind != LVN_TOKEN_NAME) return unexpected(p, "the name of a statement");
    REFUSE(p, UNSUPPORTED, "the statement '{%% %.*s %%}' is not supported here", (int)p->k->n, p->k->p);
}

/* Parse statements up to one whose word is in `ends`, which is then the current token; NULL: up to the end of the
 * template. */
static enum lvn_status parse_body(struct parser *p, const char *const *ends, struct lvn_tpl_node **out)
{
    int32_t line = p->k->line;
    if (++p->depth > MAX_DEPTH) REFUSE(p, UNSUPPORTED, "statements nest more than %d levels", MAX_DEPTH);
    for (struct lvn_tpl_node **last = out;; last = &(*last)->next) {
        if (p->k->kind == LVN_TOKEN_END) {
            p->depth--;
            while (ends && ends[1]) ends++; /* the last one ends the whole block */
            LVN_CHECK(!ends, FORMAT, "'%s': a block that begins in line %d has no '{%% %s %%}'", p->t->name, line,
                      *ends);
            return LVN_OK;
        }
        if (p->k->kind == LVN_TOKEN_DATA) {
            MAKE(p, last, LVN_NODE_TEXT);
            (*last)->v = lvn_tpl_text(p->k->p, p->k->n);
            p->k++;
        } else if (p->k->kind == LVN_TOKEN_OUTPUT) {
            MAKE(p, last, LVN_NODE_OUTPUT);
            p->k++;
            LVN_TRY(parse_tuple_free(p, &(*last)->a));
            if (p->k->kind != LVN_TOKEN_OUTPUT_END) return unexpected(p, "'}}'");
            p->k++;
        } else {
            p->k++;
            for (int i = 0; ends && ends[i]; i++)
                if (is_word(p->k, ends[i])) {
                    p->depth--;
                    return LVN_OK;
                }
            LVN_TRY(parse_statement(p, last));
        }
    }
}

enum lvn_status lvn_tpl_parse(struct lvn_chat_template *t, const struct lvn_tpl_token *token)
{
    static const char *const globals[LVN_GLOBALS] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};
    struct parser p = {.t = t, .k = token};
    int32_t index;
    for (int i = 0; i < LVN_GLOBALS; i++) LVN_TRY(name_index(&p, globals[i], (int64_t)strlen(globals[i]), &index));
    LVN_TRY(parse_body(&p, NULL, &t->body));
    for (t->loop_name = t->n_names - 1; t->loop_name >= 0 && strcmp(t->names[t->loop_name], "loop") != 0;)
        t->loop_name--;
    return LVN_OK;
}
