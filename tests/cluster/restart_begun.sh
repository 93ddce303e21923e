# levin launch --max-restarts does not know that the run has begun: rank 0 is killed or stopped between writing settings.yaml and
# reporting it, or levin launch is stopped at that moment. The run resumes, is not mistaken for the run of another launch, and --overwrite does
# not delete it.
. "$LEVIN_SOURCE/tests/cli/common.bash"
command -v cc >/dev/null || { echo "skipped: no compiler here" && exit 77; }
! grep -q __asan_init "$LEVIN" || { echo "skipped: a sanitizer wants to be the first library" && exit 77; }
cat >pause.c <<'END'
/* The first process that renames a file to settings.yaml of a run waits there: its number is in the file `there`, and it
 * continues when there is a file `go`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int rename(const char *from, const char *to)
{
    const char *name = strrchr(to, '/');
    int mine = name && !strcmp(name, "/settings.yaml") && !strstr(to, "checkpoints");
    int there = mine ? open("there", O_CREAT | O_EXCL | O_WRONLY, 0666) : -1;
    int before = there >= 0 && !access("before", F_OK);
    int bad = before ? 0 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (there < 0) return bad;
    dprintf(there, "%d\n", (int)getpid());
    for (int i = 0; i < 3000 && access("go", F_OK); i++) usleep(20000);
    return before ? (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) : bad;
}
END
cc -shared -fPIC -O1 -o pause.so pause.c || { echo "skipped: the compiler makes no library" && exit 77; }
make_text
keys=(--trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1 --trainer.val_check_interval=0
    --trainer.max_steps=200 --checkpoint.every_n_steps=50 --trainer.rank_timeout=2)
arguments alone "${keys[@]}"
code 0 "$LEVIN" "${all[@]}"
cp -r alone former # a former run in the same folder; --overwrite removes it

begin() { # RUN FORMER MORE...: as $pid, until rank 0 exists; its pid is $rank
    local run=$1 former=$2
    shift 2
    rm -f there go
    [ "$former" = none ] || cp -r "$former" "$run"
    arguments "$run" "${keys[@]}" "$@"
    LD_PRELOAD=$PWD/pause.so timeout -k 3 600 "$LEVIN" launch --launcher=levin --max-restarts=1 -n 2 -- "${all[@]}" >out 2>err &
    pid=$!
    soon test -s there
    read -r rank <there
}
ends_well() { # RUN
    got=0
    wait $pid || got=$?
    [ $got = 0 ] || { cat err && fail "$1: exit $got"; }
    [ "$(grep -c '^restart ' err)" = 1 ] || { cat err && fail "$1: not one restart"; }
    same_run alone "$1"
}

# killed when settings.yaml appears, and immediately before
begin killed none
kill -KILL "$rank"
ends_well killed
says "restart 1 of 1: from the beginning, because nothing is saved yet, with 2 ranks" err
begin replaced former --overwrite
kill -KILL "$rank"
ends_well replaced
touch before
begin unwritten former --overwrite
kill -KILL "$rank"
ends_well unwritten
rm before

# stopped there
begin stopped none
kill -STOP "$rank"
ends_well stopped

# levin launch is stopped (SIGSTOP) while ranks continue, save, and end because its heartbeat is missing: the checkpoint is used
begin unheard former --overwrite
launch=$(pgrep -P $pid -x levin)
kill -STOP "$launch"
touch go
soon test -e unheard/checkpoints/last
while kill -0 "$rank" 2>/dev/null && [ "$(ps -o stat= -p "$rank")" != Z ]; do sleep 0.05; done
kill -CONT "$launch"
ends_well unheard
grep -qE "^restart 1 of 1: continuing from step [1-9][0-9]* with 2 ranks$" err || { cat err && fail "not from what was saved"; }
