# The machine's clock is set while ranks join and train: no rank is declared lost, waits end neither early nor never, and the
# result has the same bits as without.
. "$LEVIN_SOURCE/tests/cli/common.bash"
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
command -v cc >/dev/null || { echo "skipped: no compiler here" && exit 77; }
mpis_here
cat >jumps.c <<'END'
/* The clock of the day jumps: by an hour, a day back, a year, each for a fifth of a second; the steady one does not. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t)
{
    static const long jump[] = {0, 3600, -86400, 31536000, -3600};
    struct timespec now;
    int bad = (int)syscall(SYS_clock_gettime, id, t);
    if (bad || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return bad;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    t->tv_sec += jump[(now.tv_sec * 5 + now.tv_nsec / 200000000) % 5];
    return 0;
}
time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return out ? *out = t.tv_sec : t.tv_sec;
}
int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *out = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}
END
cc -shared -fPIC -O1 -o jumps.so jumps.c || { echo "skipped: the compiler makes no library" && exit 77; }
[ "$(LD_PRELOAD=$PWD/jumps.so python3 -c 'import time
print(len({time.time() // 100 for _ in (time.sleep(0.02) for _ in range(100))}) > 3)')" = True ] || fail "the clock stands still"
make_text
export OMP_NUM_THREADS=1
launch() { timeout -k 3 600 "$LEVIN" launch -n 2 --launcher="${mpis[0]}" -- "${all[@]}" >out 2>err; }
arguments quiet --trainer.rank_timeout=10
launch || fail "without jumps: $(cat err)"
export LD_PRELOAD=$PWD/jumps.so
arguments jumping --trainer.rank_timeout=10
launch || fail "with jumps: $(cat err)"
cp err jumping.err
arguments alone
code 0 timeout 600 "$LEVIN" "${all[@]}"
code 0 timeout 600 "$LEVIN" watch jumping --once
unset LD_PRELOAD
silent_about "sent no heartbeat" jumping.err
same_weights quiet jumping
# the run is longer than all jumps of the clock, and all ranks send heartbeats
endless=(--trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0)
arguments long --trainer.rank_timeout=3 "${endless[@]}"
LD_PRELOAD=$PWD/jumps.so timeout -k 3 600 "$LEVIN" launch -n 2 --launcher="${mpis[0]}" -- "${all[@]}" >out 2>err &
pid=$!
wait_rows long 1
sleep 8 # longer than the detection of a lost rank, and than all jumps
kill -0 $pid || fail "it has ended: $(cat err)"
pkill -TERM -P $pid -x levin
ended
check [ $got = 75 ]
silent_about "sent no heartbeat" err
