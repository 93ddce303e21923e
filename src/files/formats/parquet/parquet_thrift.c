/* parquet_thrift.c - Thrift's compact protocol, in which Parquet files describe themselves; see parquet_private.h.
 *
 * Errors are collected: after an error every read returns 0 and every struct ends, so callers check `bad` once. */
#include "formats/parquet/parquet_private.h"

enum { DEPTH = 64 };

static int byte(struct lvn_thrift *t)
{
    if (t->bad || t->p == t->end) t->bad = true;
    return t->bad ? 0 : *t->p++;
}

static uint64_t varint(struct lvn_thrift *t)
{
    uint64_t x = 0;
    t->bad = t->bad || !lvn_varint(&t->p, t->end, &x);
    return t->bad ? 0 : x;
}

static int64_t zigzag(struct lvn_thrift *t)
{
    const uint64_t x = varint(t);
    return (int64_t)(x >> 1 ^ -(x & 1));
}

bool lvn_thrift_next(struct lvn_thrift *t, int *id, int *type)
{
    const int b = byte(t), delta = b >> 4;
    *type = b & 15;
    if (t->bad || *type == 0) return false;
    const int64_t next = delta ? *id + delta : zigzag(t);
    if (next < 0 || next > INT16_MAX) t->bad = true;
    *id = (int)next;
    return !t->bad;
}

int64_t lvn_thrift_int(struct lvn_thrift *t, int type)
{
    if (type < LVN_THRIFT_BYTE || type > LVN_THRIFT_I64) t->bad = true;
    return type == LVN_THRIFT_BYTE ? (int8_t)byte(t) : zigzag(t);
}

bool lvn_thrift_bool(struct lvn_thrift *t, int type)
{
    if (type != LVN_THRIFT_TRUE && type != LVN_THRIFT_FALSE) t->bad = true;
    return type == LVN_THRIFT_TRUE;
}

const char *lvn_thrift_string(struct lvn_thrift *t, int type, int64_t *n)
{
    const uint64_t bytes = type == LVN_THRIFT_BINARY ? varint(t) : UINT64_MAX;
    *n = 0;
    if (t->bad || bytes > (uint64_t)(t->end - t->p)) t->bad = true;
    if (t->bad) return NULL;
    const char *text = (const char *)t->p;
    *n = (int64_t)bytes;
    t->p += bytes;
    return text;
}

int64_t lvn_thrift_list(struct lvn_thrift *t, int type, int *element)
{
    const int b = type == LVN_THRIFT_LIST || type == LVN_THRIFT_SET ? byte(t) : 0;
    if (type != LVN_THRIFT_LIST && type != LVN_THRIFT_SET) t->bad = true;
    const uint64_t n = b >> 4 == 15 ? varint(t) : (uint64_t)(b >> 4);
    *element = b & 15;
    if (n > (uint64_t)(t->end - t->p)) t->bad = true; /* every element has at least a byte */
    return t->bad ? 0 : (int64_t)n;
}

static void skip_bytes(struct lvn_thrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->p)) t->bad = true;
    if (!t->bad) t->p += n;
}

/* An element of a list or map: a boolean is a byte. */
static void skip_element(struct lvn_thrift *t, int type)
{
    if (type == LVN_THRIFT_TRUE || type == LVN_THRIFT_FALSE)
        skip_bytes(t, 1);
    else
        lvn_thrift_skip(t, type);
}

static void skip_map(struct lvn_thrift *t)
{
    const uint64_t n = varint(t);
    const int types = n ? byte(t) : 0;
    if (n > (uint64_t)(t->end - t->p)) t->bad = true;
    for (uint64_t i = 0; i < n && !t->bad; i++) {
        skip_element(t, types >> 4);
        skip_element(t, types & 15);
    }
}

void lvn_thrift_skip(struct lvn_thrift *t, int type)
{
    int id = 0, inner;
    if (++t->depth > DEPTH) t->bad = true;
    if (t->bad) return;
    switch (type) {
    case LVN_THRIFT_TRUE:
    case LVN_THRIFT_FALSE:
        break;
    case LVN_THRIFT_BYTE:
        skip_bytes(t, 1);
        break;
    case LVN_THRIFT_I16:
    case LVN_THRIFT_I32:
    case LVN_THRIFT_I64:
        varint(t);
        break;
    case LVN_THRIFT_DOUBLE:
        skip_bytes(t, 8);
        break;
    case LVN_THRIFT_BINARY:
        skip_bytes(t, varint(t));
        break;
    case LVN_THRIFT_LIST:
    case LVN_THRIFT_SET:
        for (int64_t n = lvn_thrift_list(t, type, &inner); n > 0 && !t->bad; n--) skip_element(t, inner);
        break;
    case LVN_THRIFT_MAP:
        skip_map(t);
        break;
    case LVN_THRIFT_STRUCT:
        while (lvn_thrift_next(t, &id, &inner)) lvn_thrift_skip(t, inner);
        break;
    default:
        t->bad = true;
    }
    t->depth--;
}
