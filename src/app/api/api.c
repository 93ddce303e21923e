/* api.c - version, meaning of a status, locale, texts and handles of the public functions: see api.h and
 * include/levin.h. */
#include "api/api.h"

#include <unistd.h>

#include "base/work.h"

locale_t lvn_api_begin(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); /* "C" always exists and allocates no memory */
}

int lvn_api_return(locale_t before, enum lvn_status status)
{
    uselocale(before);
    return (int)status;
}

int levin_abi_version(void)
{
    return LEVIN_ABI_VERSION;
}

const char *levin_version(void)
{
    return LVN_VERSION;
}

enum levin_outcome levin_outcome(int status)
{
    switch (status) {
    case LVN_OK:
        return LEVIN_OUTCOME_DONE;
    case LVN_ARG:
        return LEVIN_OUTCOME_INPUT;
    case LVN_STOPPED:
        return LEVIN_OUTCOME_STOPPED;
    case LVN_COMM:
        return LEVIN_OUTCOME_LOST;
    default:
        return LEVIN_OUTCOME_FAULT;
    }
}

void levin_free(void *p)
{
    free(p);
}

void levin_on_interrupt(int (*on_interrupt)(void *context), void *context)
{
    lvn_interrupt_set(on_interrupt, context);
}

enum lvn_status lvn_api_ranks(struct lvn_ranks **ranks, struct levin_settings *s, unsigned parts)
{
    struct lvn_identity identity;
    if (lvn_identity_find(&identity) == LVN_OK) s->values.ranks = identity.size;
    return lvn_ranks_open(ranks, &s->values, NULL, lvn_settings_finish(s, parts));
}

/* --- structs, which begin with their size --- */

static enum lvn_status check_size(int64_t size, size_t least, size_t known, const char *name)
{
    LVN_CHECK(size >= (int64_t)least && size <= (int64_t)known, ARG,
              "%s.size is %lld, and this library (ABI %d) expects %lld: set it to the struct's size", name,
              (long long)size, LEVIN_ABI_VERSION, (long long)known);
    return LVN_OK;
}

enum lvn_status lvn_api_read(void *out, size_t known, const void *given, size_t least, const char *name)
{
    int64_t size = 0;
    memset(out, 0, known);
    LVN_CHECK(given, ARG, "%s is NULL: give its address", name);
    memcpy(&size, given, sizeof size);
    LVN_TRY(check_size(size, least, known, name));
    memcpy(out, given, (size_t)size);
    return LVN_OK;
}

enum lvn_status lvn_api_write(void *out, const void *filled, size_t known, size_t least, const char *name)
{
    int64_t size = 0;
    LVN_CHECK(out, ARG, "%s is NULL: give the address of one", name);
    memcpy(&size, out, sizeof size);
    LVN_TRY(check_size(size, least, known, name));
    memcpy((char *)out + sizeof size, (const char *)filled + sizeof size, (size_t)size - sizeof size);
    return LVN_OK;
}

/* --- handles: one call at a time --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held for a moment, never during a call */
static struct lvn_api_handle *handles;                   /* all that are open */
static _Thread_local const char *calling_back;           /* the program's function that this thread is in; NULL: none */

static void acquire(void)
{
    pthread_mutex_lock(&lock);
}

static void release(void)
{
    pthread_mutex_unlock(&lock);
}

static bool is_open(const struct lvn_api_handle *h)
{
    const struct lvn_api_handle *other = handles;
    while (other && other != h) other = other->next;
    return other != NULL;
}

/* Give a child process a lock that no thread holds. */
static void make_forkable(void)
{
    pthread_atfork(acquire, release, release);
}

enum lvn_status lvn_api_add(struct lvn_api_handle *h, const char *kind, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct lvn_api_handle *other = NULL;
    enum lvn_status status = LVN_OK;
    pthread_once(&once, make_forkable);
    acquire();
    for (const struct lvn_api_handle *i = !strcmp(kind, "run") ? handles : NULL; i; i = i->next)
        if (!strcmp(i->kind, kind)) other = i;
    *h = (struct lvn_api_handle){
        .next = handles, .kind = kind, .call = "open", .thread = pthread_self(), .process = getpid()};
    snprintf(h->name, sizeof h->name, "%s", name);
    if (other)
        status = lvn_fail(LVN_ARG, "the run '%s' is open in this process, which has one run at a time: close it first",
                          other->name);
    else
        handles = h;
    release();
    return status;
}

void lvn_api_remove(struct lvn_api_handle *h)
{
    acquire();
    struct lvn_api_handle **at = &handles;
    while (*at && *at != h) at = &(*at)->next;
    if (*at) *at = h->next;
    release();
}

/* Called with the lock: fail with ARG unless the handle is open in this process. */
static enum lvn_status check_open(const struct lvn_api_handle *h, const char *kind)
{
    LVN_CHECK(is_open(h), ARG, "the %s is closed, or was never opened: open it again", kind);
    LVN_CHECK(h->process == getpid(), ARG,
              "process %ld was forked from process %ld after a %s was opened there, and its threads do not survive a "
              "fork: start a new process instead (Python: multiprocessing with \"spawn\")",
              (long)getpid(), (long)h->process, kind);
    return LVN_OK;
}

static enum lvn_status check_free(const struct lvn_api_handle *h, const char *kind, const char *call)
{
    LVN_TRY(check_open(h, kind));
    const bool is_run = !strcmp(kind, "run"), reading = is_run && calling_back && !strcmp(calling_back, "sample");
    const bool own = h->call && pthread_equal(h->thread, pthread_self());
    LVN_CHECK(!own && !reading, ARG, "the %s cannot %s within the program's function %s(): return from it first%s",
              kind, call, calling_back ? calling_back : h->call,
              is_run ? "; on_event() can stop the run, log scalars, and return requests to save and to validate" : "");
    LVN_CHECK(!h->call, ARG,
              "the %s cannot %s: another thread is in its call to %s, and a %s accepts one call at a time%s", kind,
              call, h->call, kind, is_run ? "; it can be stopped from any thread" : "");
    return LVN_OK;
}

enum lvn_status lvn_api_enter(struct lvn_api_handle *h, const char *kind, const char *call)
{
    acquire();
    enum lvn_status status = check_free(h, kind, call);
    if (status == LVN_OK && !strcmp(call, "close") && h->readers)
        status = lvn_fail(LVN_ARG, "the %s cannot close: another thread reads from it", kind);
    if (status == LVN_OK) {
        h->call = call;
        h->thread = pthread_self();
    }
    release();
    return status;
}

void lvn_api_leave(struct lvn_api_handle *h)
{
    acquire();
    h->call = NULL;
    release();
}

enum lvn_status lvn_api_enter_reader(struct lvn_api_handle *h, const char *kind)
{
    acquire();
    enum lvn_status status = check_open(h, kind);
    if (status == LVN_OK && h->call && !strcmp(h->call, "close"))
        status = lvn_fail(LVN_ARG, "the %s is being closed by another thread", kind);
    if (status == LVN_OK) h->readers++;
    release();
    return status;
}

void lvn_api_leave_reader(struct lvn_api_handle *h)
{
    acquire();
    h->readers--;
    release();
}

const char *lvn_api_call_back(const char *name)
{
    const char *before = calling_back;
    calling_back = name;
    return before;
}

bool lvn_api_in_event(const struct lvn_api_handle *h)
{
    acquire();
    bool in = is_open(h) && h->call && pthread_equal(h->thread, pthread_self()) && calling_back &&
              !strcmp(calling_back, "on_event");
    release();
    return in;
}
