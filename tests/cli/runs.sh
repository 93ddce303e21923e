# levin runs: the runs of a folder, their order, and folders that contain none.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
code 0 "$LEVIN" runs # the folder `runs` does not exist: no runs
check [ ! -s out ]
says "there are no runs in 'runs', nor in the current folder" err
code 0 "$LEVIN" runs --json
json 'd == {"runs": []}'
code 2 "$LEVIN" runs nowhere
says "there is no run 'nowhere', nor 'runs/nowhere'" err
code 2 "$LEVIN" runs --sort=colour
says "--sort is 'colour'; it is age, name, state, step, loss, val_loss or size" err
mkdir -p runs/a runs/b runs/c runs/.hidden runs/other
run() { # run NAME STATE AGE VAL_LOSS...: each val_loss at the next step
    local name=$1 state=$2 age=$3 step=0
    shift 3
    for loss; do
        step=$((step + 1))
        printf '{"step": %d, "loss": %s}\n{"step": %d, "val_loss": %s}\n' $step "$loss" $step "$loss"
    done >runs/$name/metrics.jsonl
    printf '{"step": %d, "state": "%s", "time": %d, "ranks": []}' $step "$state" $(($(date +%s) - age)) >runs/$name/status.json
}
run a "done" 500 3 1 2
run b stopped 50 2.5
run c running 5000 4 3 2.5 1.5
cp runs/a/metrics.jsonl runs/.hidden
code 0 "$LEVIN" runs
says "b     stopped     1  2.5000    2.5000  2.5000" out
check [ "$(wc -L <out)" -lt 80 ]
check [ "$(cut -c1 out | tr -d '\n')" = nbac ]
code 0 "$LEVIN" runs runs/ --sort val_loss --json
json '[r["name"] for r in d["runs"]] == ["a", "c", "b"] and [r["best_val_loss"] for r in d["runs"]] == [1, 1.5, 2.5]'
json '[r["state"] for r in d["runs"]] == ["done", "stale", "stopped"] and [r["step"] for r in d["runs"]] == [3, 4, 1]'
json 'd["runs"][0]["val_loss"] == 2 and d["runs"][0]["path"] == "runs/a" and d["runs"][0]["bytes"] > 100 and d["runs"][0]["age_s"] >= 499'
order() { # order KEY NAMES
    code 0 "$LEVIN" runs --sort="$1" --json
    json '"".join(r["name"] for r in d["runs"]) == "'"$2"'"'
}
order name abc
order state acb
order step cab
order loss acb
order size cab
rm runs/b/metrics.jsonl # runs without values are last, with a dash
order val_loss acb
code 0 "$LEVIN" runs
says "  -         -       -  " out
printf '{"step": 1, "event": "start", "time": 5, "name": "x"}\n' >runs/b/events.jsonl
code 0 "$LEVIN" runs
printf 'nonsense' >runs/a/status.json
code 0 "$LEVIN" runs --json
json '[r["state"] for r in d["runs"] if r["name"] == "a"] == ["unknown"]'
# the size counts each file once: links to checkpoints add nothing, and a link to a run has the size of the run
mkdir -p runs/b/checkpoints/step-1
head -c 100000 /dev/zero >runs/b/checkpoints/step-1/model.safetensors
ln -s step-1 runs/b/checkpoints/best
ln -s step-1 runs/b/checkpoints/last
code 0 "$LEVIN" runs --json
json '[100000 < r["bytes"] < 101000 for r in d["runs"] if r["name"] == "b"] == [True]'
mkdir links
ln -s ../runs/b links/b
code 0 "$LEVIN" runs links --json
json '[(r["name"], 100000 < r["bytes"] < 101000) for r in d["runs"]] == [("b", True)]'
# one run, by its path or its name below runs/; without DIR the current folder if it has no folder runs
for one in runs/b runs/b/ b; do
    code 0 "$LEVIN" runs $one --json
    json '[(r["name"], r["path"]) for r in d["runs"]] == [("b", "runs/b")]'
done
code 0 bash -c 'cd runs && exec "$@"' x "$LEVIN" runs --json
json '{"a", "b", "c"} <= {r["name"] for r in d["runs"]} and d["runs"][0]["bytes"] > 0'
code 0 bash -c 'cd runs/b && exec "$@"' x "$LEVIN" runs --json
json '[(r["name"], r["path"]) for r in d["runs"]] == [("b", ".")]'
# escape sequences in names are escaped
mkdir "runs/$(printf 'x\033[31m')"
cp runs/a/metrics.jsonl "runs/$(printf 'x\033[31m')"
code 0 "$LEVIN" runs
lacks "$(printf '\033')" out
says 'x\x1b[31m' out
# a newline in a name does not start a row, and U+202E does not reverse one: here, in ls and in watch
forged=$'runs/y\nb    done   99    0.0001'
mkdir "$forged" "runs/$(printf 'z\u202egnp')"
cp runs/a/metrics.jsonl "$forged"
cp runs/a/metrics.jsonl "runs/$(printf 'z\u202egnp')"
printf '{"step": 3, "state": "done\\nforged", "time": 5, "ranks": [{"rank": 0, "host": "h\\nforged\\u202e"}]}' >"$forged/status.json"
code 0 "$LEVIN" runs
check [ "$(grep -c '^b ' out)" = 1 ]
says 'z\u202egnp' out
code 0 "$LEVIN" ls runs
check [ "$(grep -c '^b ' out)" = 0 ]
says 'z\u202egnp/' out
says 'y b    done' out
code 0 "$LEVIN" watch "$forged" --once
check [ "$(grep -cE '^(b|forged)' out)" = 0 ]
lacks "$(printf '\u202e')" out
# settings of two starts are compared in linear time: seconds of CPU time; comparing all pairs would need an hour
python3 -c 'import json
for origin in "first", "second":
    print(json.dumps({"step": 0, "event": "start", "settings": [["k%d" % i, str(i), "", origin] for i in range(200000)]}))' >runs/b/events.jsonl
code 0 bash -c 'ulimit -t 300; exec "$@"' x "$LEVIN" runs --json
