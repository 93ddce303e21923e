# levin watch: shows a run from its files alone, once, in a pipe and on a terminal.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"

status() { # status STATE STEP [AGE]: as a run of three ranks on two hosts writes it
    python3 - "$1" "$2" "${3:-0}" <<'END'
import json, os, sys, time
state, step, age = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
now = time.time() - age
ranks = [{"rank": i, "host": ["node1", "node1", "node2"][i], "pid": 100 + i, "step": step, "tokens_per_s": 1000.0 + i,
          "last_seen": now - i / 10, "compute_s": [1, 1, 1.5][i], "memory_bytes": 1 << 30, "state": "running",
          "slow": i == 2, "place": "forward"} for i in range(3)]
if state == "fault":
    ranks[1].update(state="lost")
fault = "rank 1 on node1 has sent no heartbeat since step 412" if state == "fault" else None
text = json.dumps({"step": step, "state": state, "time": now, "fault": fault, "ranks": ranks})
open("runs/x/status.new", "w").write(text)
os.rename("runs/x/status.new", "runs/x/status.json")
END
}

code 2 "$LEVIN" watch
code 2 "$LEVIN" watch runs/none
says "there is no run 'runs/none'" err

# during a validation: its batches, in the status and in the line of the rank
mkdir -p runs/validates
cat >runs/validates/status.json <<END
{"step": 3, "state": "running", "time": $(date +%s), "fault": null, "ranks": [{"rank": 0, "host": "here", "pid": $$, "step": 3,
 "tokens_per_s": 5, "last_seen": $(date +%s), "compute_s": 0.1, "memory_bytes": 1000, "state": "running", "slow": false,
 "place": "", "activity": "a validation, 40/145"}]}
END
code 0 "$LEVIN" watch runs/validates --once
says "in a validation, 40/145" out
rm -r runs/validates
mkdir -p runs/x
code 1 "$LEVIN" watch runs/x --once
says "status.json does not exist: the run has not begun" err
one_error
code 1 "$LEVIN" watch x --json
json '"does not exist" in d["error"]'
printf 'trainer:\n  max_steps: 1000\n' >runs/x/settings.yaml
printf '{"step": 411, "loss": 2.5, "lr": 0.001, "tokens_per_s": 2990}\n{"step": 411, "val_loss": 2.25}\n{"step": 412, "loss": 2.4, "lr": 0.001, "tokens_per_s": 3000}\n{"step": 413, "lo' >runs/x/metrics.jsonl
status running 412
code 0 "$LEVIN" watch runs/x --once
says "runs/x: running, step 412 of 1,000 (41.2 %)" out
says "losses 2.5000 2.4000, validation 2.2500 (best 2.2500)" out
says "3,000 tokens/s, lr 0.001" out
check [ "$(wc -L <out)" -lt 80 ]
says "node2" out
check [ "$(grep -c slow out)" = 1 ]
check [ "$(wc -l <out)" = 7 ]
code 0 "$LEVIN" watch x --json # also by its name without a folder
json 'd["state"] == "running" and d["step"] == 412 and not d["stale"] and d["max_steps"] == 1000 and d["loss"] == 2.4'
json '[r["rank"] for r in d["ranks"]] == [0, 1, 2] and d["ranks"][2]["slow"] and d["val_loss"] == 2.25'

printf 'trainer:\n  max_epochs: 2\n' >runs/x/settings.yaml
printf '{"step": 312, "loss": 3, "epoch": 1.5, "time": 5000}\n{"step": 362, "val_loss": 2.25}\n{"step": 412, "loss": 2, "epoch": 1.98, "time": 5200}\n' >runs/y
cat runs/y >runs/x/metrics.jsonl
code 0 "$LEVIN" watch x --once
says "8.3 s left" out
printf 'trainer:\n  max_steps: 1000\n' >runs/x/settings.yaml
code 0 "$LEVIN" watch x --once
says "19 min 36 s left" out # 100 steps in 200 s, and 588 are left
code 0 "$LEVIN" watch x --json
json 'd["eta_s"] == 1176'
status running 412 100
code 0 "$LEVIN" watch x --once
says "runs/x: stale, step 412" out
says "no news for 10" out
code 0 "$LEVIN" watch x --json
json 'd["stale"]'
status fault 412
code 0 "$LEVIN" watch x # it ends when the run has ended
says "runs/x: fault, step 412" out
says "! rank 1 on node1 has sent no heartbeat since step 412" out
says "  lost" out
status "done" 1000
code 0 "$LEVIN" watch x
says "runs/x: done, step 1,000 of 1,000 (100.0 %)" out

# the process of rank 0 is gone, on this host
sleep 0 & gone=$!
wait $gone
status running 5
sed -i "s/\"node1\", \"pid\": 100,/\"$(hostname)\", \"pid\": $gone,/" runs/x/status.json
code 0 "$LEVIN" watch x
says "the process of rank 0 is gone" out

# in a pipe: a block for a new step, and an end
status running 6
timeout 600 "$LEVIN" watch x --every 0.1 >out &
reader=$!
soon has "step 6 " out
status running 7
soon has "step 7 " out
status "done" 8
wait $reader
says "running, step 6 " out
says "running, step 7 " out
says "done, step 8 " out
check [ "$(grep -c "^runs/x" out)" = 3 ]

# on a terminal it is redrawn in place
status running 9
python3 - "$LEVIN" <<'END'
import fcntl, os, pty, struct, subprocess, sys, termios, time
here, there = pty.openpty()
p = subprocess.Popen([sys.argv[1], "watch", "x", "--every", "0.1"], stdout=there, stderr=there)
os.close(there)
seen = b""
end = time.time() + 600
def until(text):
    global seen
    while text not in seen and time.time() < end:
        seen += os.read(here, 4096)
    assert text in seen, seen
until(b"step 9 ")
until(b"\x1b[7A") # the table fits into 80 columns, and takes two rows for each line at 40
fcntl.ioctl(here, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
until(b"\x1b[12A")
t = open("runs/x/status.json").read()
open("runs/x/status.json.new", "w").write(t.replace('"running", "time"', '"stopped", "time"'))
os.rename("runs/x/status.json.new", "runs/x/status.json")
until(b"stopped")
assert p.wait(60) == 0
# q ends it and restores the terminal
os.rename("runs/x/status.json", "runs/x/stopped.json")
open("runs/x/status.json", "w").write(t)
here, there = pty.openpty()
before = termios.tcgetattr(there)
p = subprocess.Popen([sys.argv[1], "watch", "x", "--every", "600"], stdin=there, stdout=there, stderr=there,
                     preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
seen = b""
until(b"step 9 ")
os.write(here, b"xq")
assert p.wait(60) == 0
assert termios.tcgetattr(there) == before
END

for bad in '[]' '{}' '{"state": 1}' '{"state": "running", "ranks": 5}' '{' ''; do
    printf %s "$bad" >runs/x/status.json
    code 1 "$LEVIN" watch x --once
    one_error
    says "status.json" err
done
printf '{"state": "running", "ranks": [1, {"rank": "x", "host": 5}, null]}' >runs/x/status.json # invalid members do not crash it
code 0 "$LEVIN" watch x --once
rm runs/x/status.json
mkdir runs/empty
"$LEVIN" watch empty >out 2>err & # without timeout: if that is killed at once, its child may survive
reader=$!
soon has "waiting for the run to begin" out
kill $reader
wait $reader || true
# control characters in the name of a host, a family or a key are never sent to the terminal
status running 413
python3 - <<'END'
text = open("runs/x/status.json").read().replace("node1", "no\\u001b[31mde")
open("runs/x/status.json", "w").write(text)
END
code 0 "$LEVIN" watch runs/x --once
says 'no\x1b[31mde' out
escape=$(printf '\033')
lacks "$escape" out
mkdir -p rude
printf '{"model_type": "gpt2\\u001b[31m"}' >rude/config.json
code 1 "$LEVIN" plan --model.init=rude
says 'gpt2\x1b[31m' err
lacks "$escape" err
printf 'model:\n  "n\\e[31m": 1\n' >rude.yaml
code 2 "$LEVIN" plan rude.yaml
says 'n\x1b[31m' err
lacks "$escape" err
