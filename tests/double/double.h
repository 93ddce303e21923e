/* double.h - shared by the doubles of libraries: counting calls, and failing one of them.
 *
 *   LEVIN_DOUBLE_FAIL=NAME:COUNT[:CODE]   the COUNT-th call of NAME returns CODE, once; NAME "kernel" is a kernel that
 *                                         fails while it runs, which the next call that waits returns
 *   LEVIN_DOUBLE_REPORT=FILE              at the end of the process: a line for each function that was called, with the
 *                                         number of calls, and what was not released */
#ifndef LVN_DOUBLE_H
#define LVN_DOUBLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counted {
    const char *name;
    long calls;
};
enum { MAX_NAMES = 80 };
static struct counted counted[MAX_NAMES];
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

/* Count a call; returns the code that it must return, 0: it may continue. */
static inline int double_call(const char *name, int code)
{
    const char *fail = getenv("LEVIN_DOUBLE_FAIL");
    int k = 0;
    pthread_mutex_lock(&counting);
    while (k < MAX_NAMES - 1 && counted[k].name && strcmp(counted[k].name, name)) k++;
    counted[k].name = name;
    const long calls = ++counted[k].calls;
    pthread_mutex_unlock(&counting);
    size_t n = strlen(name);
    if (!fail || strncmp(fail, name, n) || fail[n] != ':') return 0;
    char *rest;
    if (strtol(fail + n + 1, &rest, 10) != calls) return 0;
    return *rest == ':' ? atoi(rest + 1) : code;
}

static inline long double_number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

/* The number of calls so far. */
static inline long double_calls(const char *name)
{
    for (int k = 0; k < MAX_NAMES && counted[k].name; k++)
        if (!strcmp(counted[k].name, name)) return counted[k].calls;
    return 0;
}

/* Restart counting. */
static inline void double_begin(void)
{
    memset(counted, 0, sizeof counted);
}

/* Open the report for appending; NULL: none is wanted. The caller closes it. */
static inline FILE *double_report(void)
{
    const char *path = getenv("LEVIN_DOUBLE_REPORT");
    FILE *f = path && *path ? fopen(path, "ae") : NULL;
    for (int k = 0; f && k < MAX_NAMES && counted[k].name; k++)
        fprintf(f, "calls %s %ld\n", counted[k].name, counted[k].calls);
    return f;
}

#endif
