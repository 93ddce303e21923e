# levin as process 1 of a process namespace, as in a container: signals from inside, from outside and from a terminal, orphans,
# exit codes.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
skip() { echo "skipped: $*"; exit 77; }
user=()
[ "$(id -u)" = 0 ] || user=(-U --map-current-user --keep-caps)
command -v unshare >/dev/null && command -v nsenter >/dev/null || skip "no unshare (apt install util-linux)"
contained=(unshare ${user[@]+"${user[@]}"} -m -p -f --kill-child --mount-proc)
"${contained[@]}" true 2>/dev/null || skip "process namespaces are not allowed here"
make_text
endless=(--trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0)
stopped_well() { # RUN
    ended
    [ "$got" = 75 ] || { cat out err && fail "exit $got"; }
    says "stopped on request after step" err
    check [ -s "$1/checkpoints/last/model.safetensors" ]
}
first() { pgrep -P $pid -x levin; } # the process id of process 1 outside of its namespace
begin() { # RUN WORD...: $pid is unshare; returns when process 1 has a child that trains
    local run=$1
    shift
    arguments "$run" "${endless[@]}"
    "${contained[@]}" "$LEVIN" "$@" "${all[@]}" >out 2>err &
    pid=$!
    wait_rows "$run" 3
    inside=(nsenter -t "$(first)" -m -p ${user[@]+-U --preserve-credentials})
}
zombies() { ps -o stat= --ppid "$(first)" | grep -q Z; }

# --- exit codes ---
code 0 "${contained[@]}" "$LEVIN" --version
says "levin " out
code 2 "${contained[@]}" "$LEVIN" train --trainer.no_such_key=1
one_error
code 0 "${contained[@]}" env --ignore-signal=CHLD "$LEVIN" --version

# --- a signal from a process of the container, which the kernel would drop without a handler; a command that catches none ---
begin inside
"${inside[@]}" sh -c 'kill -TERM 1'
stopped_well inside
mkfifo never
exec 3<>never
"${contained[@]}" "$LEVIN" tokenize --tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2" <never >out 2>err &
pid=$!
command_runs() { pgrep -P "$(first)" -x levin; }
soon command_runs
kill -TERM "$(first)"
ended
exec 3>&-
[ "$got" = 143 ] || fail "exit $got"
says "error: levin was killed by signal 15 (Terminated)" err

# --- from outside, as a kubelet sends it; under levin launch too; no orphan remains a zombie ---
begin outside
for _ in 1 2 3; do "${inside[@]}" sh -c 'sleep infinity &'; done
[ "$(pgrep -c -P "$(first)")" = 4 ] || fail "orphans are not children of process 1"
gone() { # repeated: the last one may still be an sh
    pkill -P "$(first)" -x sleep || true
    [ "$(pgrep -c -P "$(first)")" = 1 ]
}
soon gone
if zombies; then fail "a zombie remains"; fi
kill -INT "$(first)"
stopped_well outside
begin launched launch -n 1 --
kill -TERM "$(first)"
stopped_well launched

# --- the command is killed: process 1 reports it ---
begin killed
kill -KILL "$(command_runs)"
ended
[ "$got" = 137 ] || fail "exit $got"
says "error: levin was killed by signal 9 (Killed), as it is when the memory of a container runs out" err

# --- ^C at a terminal arrives once: a second SIGINT would kill ---
command -v python3 >/dev/null || skip "the rest, at a terminal, needs python3"
cat >terminal.py <<'PY'
"""terminal.py WANTED PRESSES ROWS COMMAND... - run COMMAND at a terminal, press ^C when the file ROWS has grown; exit code WANTED."""
import os, pty, sys, time
wanted, presses, rows, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
os.set_blocking(terminal, False)
output, end = b"", time.time() + 600
def read():
    global output
    try:
        output += os.read(terminal, 65536)
    except BlockingIOError:
        pass
    except OSError:  # the last process has closed it
        return False
    return time.time() < end
while read() and not (os.path.exists(rows) and os.path.getsize(rows)):
    time.sleep(0.01)
for _ in range(presses):
    os.write(terminal, b"\x03")
while read():
    time.sleep(0.01)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(output.decode(errors="replace"))
sys.exit(f"exit {status}, wanted {wanted}" if status != wanted else 0)
PY
arguments typed "${endless[@]}"
code 0 python3 terminal.py 75 1 typed/metrics.jsonl "${contained[@]}" "$LEVIN" "${all[@]}"
says "stopped on request after step" out
check [ -s typed/checkpoints/last/model.safetensors ]
