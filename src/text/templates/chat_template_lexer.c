/* chat_template_lexer.c - see chat_template_private.h: the text of a template to tokens.
 *
 * As Jinja with trim_blocks and lstrip_blocks: the newline after a block or a comment is removed, and so is white space
 * between the beginning of a line and a block; `-` removes all white space on its side, `+` keeps it. Line ends become
 * newlines, and a newline at the end of the template is removed. In a strict template only `-` removes white space. */
#include "templates/chat_template_private.h"

#include "base/list.h"

struct lexer {
    struct lvn_chat_template *t;
    const char *p, *end;
    int32_t line;
    bool line_begins; /* the text before p ends a line, or p is the beginning */
    struct lvn_tpl_token *token;
    int64_t n, capacity;
};

static enum lvn_status add(struct lexer *x, enum lvn_tpl_token_kind kind, int op, const char *p, int64_t n)
{
    if (!lvn_arena_list_reserve(&x->t->arena, &x->token, x->n, &x->capacity, x->n + 1, sizeof *x->token))
        return LVN_MEMORY;
    x->token[x->n++] =
        (struct lvn_tpl_token){.kind = (uint8_t)kind, .op = (uint8_t)op, .line = x->line, .p = p, .n = n};
    return LVN_OK;
}

static bool is_space(char c)
{
    return lvn_tpl_space((unsigned char)c < 0x80 ? c : 'x');
}

static void advance(struct lexer *x, const char *to)
{
    for (; x->p < to; x->p++) x->line += *x->p == '\n';
}

static void skip_space(struct lexer *x)
{
    const char *p = x->p;
    while (p < x->end && is_space(*p)) p++;
    advance(x, p);
}

/* After the end of a tag: `-` removes white space; without a sign, a block or comment removes one newline. */
static void after_tag(struct lexer *x, char sign, bool trims)
{
    if (sign == '-')
        skip_space(x);
    else if (sign != '+' && trims && !x->t->strict && x->p < x->end && *x->p == '\n')
        advance(x, x->p + 1);
    x->line_begins = x->p[-1] == '\n';
}

/* --- within a tag --- */

/* Write the character of an escape sequence at p, after the backslash; returns the bytes read, 0: it is none. */
static int unescape(const char *p, const char *end, char **to)
{
    static const char letters[] = "n\nt\tr\r\\\\'\'\"\"a\ab\bf\fv\v";
    int digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    int32_t code;
    for (const char *l = letters; *l && !digits; l += 2)
        if (*l == *p) {
            *(*to)++ = l[1];
            return 1;
        }
    if (*p == '\n') return 1;
    if (digits) {
        const int64_t number = end - p > digits ? lvn_hex_number(p + 1, digits) : -1;
        if (number < 0 || number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) return 0;
        *to += lvn_utf8_encode((int32_t)number, *to);
        return digits + 1;
    }
    if (*p < '0' || *p > '7') return 0;
    int n = 0;
    for (code = 0; n < 3 && p + n < end && p[n] >= '0' && p[n] <= '7'; n++) code = code * 8 + (p[n] - '0');
    *to += lvn_utf8_encode(code, *to);
    return n;
}

static enum lvn_status lex_string(struct lexer *x)
{
    const char *p = x->p + 1, *begin = p;
    while (p < x->end && *p != *x->p) p += *p == '\\' && p + 1 < x->end ? 2 : 1;
    LVN_CHECK(p < x->end, FORMAT, "'%s', line %d: a string has no end; close its quote", x->t->name, x->line);
    char *copy = lvn_arena_alloc(&x->t->arena, (size_t)(p - begin) + 5), *to = copy;
    if (!copy) return LVN_MEMORY;
    for (const char *q = begin; q < p;) {
        if (*q != '\\' || q + 1 == p) {
            *to++ = *q++;
            continue;
        }
        bool escape = q[1] && strchr("xuUN", q[1]);
        int used = unescape(q + 1, p, &to);
        LVN_CHECK(used || !escape, FORMAT, "'%s', line %d: the escape sequence '\\%c' is not supported", x->t->name,
                  x->line, q[1]);
        if (!used) *to++ = '\\';
        q += 1 + used;
    }
    LVN_TRY(add(x, LVN_TOKEN_STRING, 0, copy, to - copy));
    advance(x, p + 1);
    return LVN_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static enum lvn_status lex_number(struct lexer *x)
{
    const char *p = x->p;
    bool after_dot = x->n && x->token[x->n - 1].kind == LVN_TOKEN_OPERATOR && x->token[x->n - 1].op == LVN_SIGN_DOT;
    while (p < x->end && (is_digit(*p) || *p == '_')) p++;
    if (!after_dot && p + 1 < x->end && *p == '.' && is_digit(p[1]))
        for (p++; p < x->end && is_digit(*p);) p++;
    if (!after_dot && p + 1 < x->end && (*p == 'e' || *p == 'E')) {
        const char *q = p + 1 + (p[1] == '+' || p[1] == '-');
        if (q < x->end && is_digit(*q)) p = q;
        while (p < x->end && is_digit(*p)) p++;
    }
    LVN_CHECK((p == x->end || !is_name(*p)) && p - x->p < 40, UNSUPPORTED,
              "'%s', line %d: the number '%.20s' is not supported", x->t->name, x->line, x->p);
    LVN_TRY(add(x, LVN_TOKEN_NUMBER, 0, x->p, p - x->p));
    x->p = p;
    return LVN_OK;
}

static enum lvn_status lex_operator(struct lexer *x, int *depth)
{
    static const struct {
        char text[3];
        uint8_t op;
    } all[] = {{"==", LVN_SIGN_EQ},       {"!=", LVN_SIGN_NE},      {"<=", LVN_SIGN_LE},      {">=", LVN_SIGN_GE},
               {"//", LVN_SIGN_FLOORDIV}, {"**", LVN_SIGN_POW},     {"<", LVN_SIGN_LT},       {">", LVN_SIGN_GT},
               {"+", LVN_SIGN_ADD},       {"-", LVN_SIGN_SUB},      {"*", LVN_SIGN_MUL},      {"/", LVN_SIGN_DIV},
               {"%", LVN_SIGN_MOD},       {"~", LVN_SIGN_TILDE},    {"=", LVN_SIGN_ASSIGN},   {".", LVN_SIGN_DOT},
               {",", LVN_SIGN_COMMA},     {":", LVN_SIGN_COLON},    {"|", LVN_SIGN_PIPE},     {"(", LVN_SIGN_LPAREN},
               {")", LVN_SIGN_RPAREN},    {"[", LVN_SIGN_LBRACKET}, {"]", LVN_SIGN_RBRACKET}, {"{", LVN_SIGN_LBRACE},
               {"}", LVN_SIGN_RBRACE}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t n = strlen(all[i].text);
        if ((size_t)(x->end - x->p) < n || memcmp(x->p, all[i].text, n) != 0) continue;
        if (n == 1 && strchr("([{", *x->p)) ++*depth;
        if (n == 1 && strchr(")]}", *x->p)) --*depth;
        LVN_TRY(add(x, LVN_TOKEN_OPERATOR, all[i].op, x->p, (int64_t)n));
        x->p += n;
        return LVN_OK;
    }
    int used;
    (void)lvn_utf8_decode(x->p, x->end - x->p, &used);
    LVN_FAIL(FORMAT, "'%s', line %d: unexpected character '%.*s' in a tag", x->t->name, x->line, used, x->p);
}

/* The tokens of a tag up to its end: %} or }}. */
static enum lvn_status lex_tag(struct lexer *x, bool statement)
{
    const char *close = statement ? "%}" : "}}";
    int32_t line = x->line;
    for (int depth = 0;;) {
        skip_space(x);
        LVN_CHECK(x->p < x->end, FORMAT, "'%s', line %d: a tag is not closed; '%s' is missing", x->t->name, line,
                  close);
        char sign = *x->p == '-' || (*x->p == '+' && statement) ? *x->p : 0;
        const char *at = x->p + (sign != 0);
        if (depth <= 0 && x->end - at >= 2 && memcmp(at, close, 2) == 0) {
            LVN_TRY(add(x, statement ? LVN_TOKEN_STATEMENT_END : LVN_TOKEN_OUTPUT_END, 0, at, 2));
            x->p = at + 2;
            after_tag(x, sign, statement);
            return LVN_OK;
        }
        if (*x->p == '"' || *x->p == '\'') {
            LVN_TRY(lex_string(x));
        } else if (is_digit(*x->p)) {
            LVN_TRY(lex_number(x));
        } else if (is_name(*x->p)) {
            const char *p = x->p;
            while (p < x->end && is_name(*p)) p++;
            LVN_TRY(add(x, LVN_TOKEN_NAME, 0, x->p, p - x->p));
            x->p = p;
        } else {
            LVN_TRY(lex_operator(x, &depth));
        }
    }
}

/* --- between tags --- */

static enum lvn_status skip_comment(struct lexer *x)
{
    int32_t line = x->line;
    const char *p = x->p;
    while (p + 1 < x->end && !(p[0] == '#' && p[1] == '}')) p++;
    LVN_CHECK(p + 1 < x->end, FORMAT, "'%s', line %d: a comment is not closed; '#}' is missing", x->t->name, line);
    char sign = p > x->p ? p[-1] : 0;
    advance(x, p + 2);
    after_tag(x, sign, true);
    return LVN_OK;
}

/* The text before a tag that begins at `tag`. */
static enum lvn_status lex_data(struct lexer *x, const char *tag, char sign, bool output)
{
    const char *to = tag;
    if (sign == '-') {
        while (to > x->p && is_space(to[-1])) to--;
    } else if (sign != '+' && !output && !x->t->strict) {
        while (to > x->p && is_space(to[-1]) && to[-1] != '\n') to--;
        if (to == x->p ? !x->line_begins : to[-1] != '\n') to = tag;
    }
    if (to > x->p) LVN_TRY(add(x, LVN_TOKEN_DATA, 0, x->p, to - x->p));
    advance(x, tag);
    return LVN_OK;
}

/* Copy the text with "\n" for all line ends, without one at its end. */
static char *with_newlines(struct lvn_chat_template *t, const char *text, int64_t bytes, int64_t *n)
{
    char *copy = lvn_arena_alloc(&t->arena, (size_t)bytes + 1), *to = copy;
    for (int64_t i = 0; copy && i < bytes; i++) {
        bool cr = text[i] == '\r';
        if (cr && i + 1 < bytes && text[i + 1] == '\n') i++;
        *to++ = cr ? '\n' : text[i];
    }
    if (copy && to > copy && to[-1] == '\n' && !t->strict) to--;
    *n = to - copy;
    return copy;
}

enum lvn_status lvn_tpl_lex(struct lvn_chat_template *t, const char *text, int64_t bytes, struct lvn_tpl_token **out)
{
    int64_t n;
    char *copy = with_newlines(t, text, bytes, &n);
    if (!copy) return LVN_MEMORY;
    struct lexer x = {.t = t, .p = copy, .end = copy + n, .line = 1, .line_begins = true};
    while (x.p < x.end) {
        const char *tag = x.p;
        while (tag + 1 < x.end && !(tag[0] == '{' && tag[1] && strchr("%{#", tag[1]))) tag++;
        if (tag + 1 >= x.end) {
            LVN_TRY(add(&x, LVN_TOKEN_DATA, 0, x.p, x.end - x.p));
            break;
        }
        bool output = tag[1] == '{';
        char sign = tag + 2 < x.end && (tag[2] == '-' || tag[2] == '+') ? tag[2] : 0;
        LVN_TRY(lex_data(&x, tag, sign, output));
        x.p = tag + 2 + (sign != 0);
        if (tag[1] == '#') {
            LVN_TRY(skip_comment(&x));
            continue;
        }
        LVN_TRY(add(&x, output ? LVN_TOKEN_OUTPUT : LVN_TOKEN_STATEMENT, 0, tag, 2));
        LVN_TRY(lex_tag(&x, !output));
    }
    LVN_TRY(add(&x, LVN_TOKEN_END, 0, "the end of the template", 23));
    *out = x.token;
    return LVN_OK;
}
