/* fuzz_hosts.c - hosts files of levin launch, and those of batch systems. No name is resolved: every host exists and is
 * another machine. */
#include <netdb.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int no_lookup(const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **found)
{
    static struct addrinfo nobody;
    static struct sockaddr somewhere;
    (void)name, (void)port, (void)hints;
    nobody = (struct addrinfo){.ai_addr = &somewhere, .ai_addrlen = sizeof somewhere};
    *found = &nobody;
    return 0;
}
#define getaddrinfo no_lookup
#define freeaddrinfo(found) (void)(found)
#include "cli/process.c"
#include "launch/launch_hosts.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    static const struct lvn_batch_system queue = {.title = "lines"}, counting = {.title = "counts", .has_slots = true};
    static const struct lvn_batch_system *const systems[] = {NULL, &queue, &counting};
    int fd = memfd_create("hosts", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int k = 0; k < 3; k++) {
        struct lvn_arena arena;
        struct lvn_launch l = {.arena = &arena, .resources.batch_system = systems[k]};
        lvn_arena_init(&arena);
        if (lvn_launch_hosts(&l, path) != LVN_OK) {
            if (!*levin_error_text()) abort();
        } else {
            for (int i = 0; i < l.resources.n_hosts; i++) /* these become words of a command line */
                if (l.resources.hosts[i].slots < (k > 0) || !*l.resources.hosts[i].name ||
                    *l.resources.hosts[i].name == '-')
                    abort();
        }
        lvn_arena_release(&arena);
    }
    close(fd);
    return 0;
}
