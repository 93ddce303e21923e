# levin launch --max-restarts, and a rank that is stopped before it has joined the others: before its first message, or between
# that and the next ones. It is detected as fast as a rank that stops later, and named.
. "$LEVIN_SOURCE/tests/cli/common.bash"
command -v cc >/dev/null || { echo "skipped: no compiler here" && exit 77; }
! grep -q __asan_init "$LEVIN" || { echo "skipped: a sanitizer wants to be the first library" && exit 77; }
cat >stop.c <<'END'
/* Rank 1 stops once (it makes the file `stopped`): when it is loaded, or, with STOP_BEHIND_HELLO, behind its hello. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void stop_once(void)
{
    const char *rank = getenv("LEVIN_RANK");
    if (rank && !strcmp(rank, "1") && open("stopped", O_CREAT | O_EXCL | O_WRONLY, 0666) >= 0) raise(SIGSTOP);
}
__attribute__((constructor)) static void begin(void)
{
    if (!getenv("STOP_BEHIND_HELLO")) stop_once();
}
ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    ssize_t sent = syscall(SYS_sendto, fd, bytes, n, flags, NULL, 0);
    if (sent > 6 && !memcmp(bytes, "HELLO ", 6)) stop_once();
    return sent;
}
END
cc -shared -fPIC -O1 -o stop.so stop.c || { echo "skipped: the compiler makes no library" && exit 77; }
make_text
arguments alone --trainer.max_steps=8 --trainer.threads=1 --trainer.deterministic=true --trainer.micro_batch_size=1
code 0 "$LEVIN" "${all[@]}"
launch() { # launch RUN: out, err
    rm -f stopped
    arguments "$1" --trainer.max_steps=8 --trainer.threads=1 --trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.rank_timeout=2
    code 0 env LD_PRELOAD="$PWD/stop.so" timeout -k 3 600 "$LEVIN" launch --launcher=levin --max-restarts=1 -n 2 -- "${all[@]}"
    same_weights alone "$1"
    [ "$(grep -c '^error: ' err)" = 1 ] || { cat err && fail "not one sentence"; }
    says "restart 1 of 1: from the beginning, because nothing is saved yet, with 2 ranks" err
}
launch first
grep -qE "^error: rank 1 on .* \(pid [0-9]+\) is stopped, and the other ranks wait for it to join$" err || { cat err && fail "not named"; }
export STOP_BEHIND_HELLO=1
launch hello
grep -qE "^error: rank 1 on .* has sent no heartbeat since the start \(its process does not respond\)" err || { cat err && fail "not named"; }
