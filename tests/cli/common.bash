# common.bash - shared by the tests of whole runs: a tiny model on a generated text, and functions that check results.
export OMP_WAIT_POLICY=passive # threads of tiny models mostly wait: while they sleep, other processes can run

code() { # code EXPECTED COMMAND...: check the exit code; output in out and err
    local expected=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [ "$got" = "$expected" ] || { echo "$*: exit $got, expected $expected"; cat out err; exit 1; }
}
fail() { echo "$*"; exit 1; }
check() { "$@" || fail "check failed: $*"; }
says() { grep -qF -- "$1" "$2" || { echo "no '$1' in $2:"; cat "$2"; exit 1; }; }
silent_about() { # silent_about PHRASE FILE: the phrase is one of levin's messages, and not in the file
    grep -qaF -- "$1" "$LEVIN" || fail "levin has no message with '$1'; correct the phrase, or use lacks if it is not levin's"
    lacks "$1" "$2"
}
lacks() { # lacks TEXT FILE: of any text
    check [ -e "$2" ]
    if grep -qF -- "$1" "$2"; then echo "'$1' in $2:" && cat "$2" && exit 1; fi
}
soon() { # soon COMMAND...: it must succeed within minutes, because other processes may be slow
    for _ in $(seq 3000); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    fail "still failing after five minutes: $*"
}
timed() { # timed COMMAND...: it must succeed; $took is its time in microseconds
    local begin=${EPOCHREALTIME/[^0-9]/}
    code 0 "$@"
    took=$((${EPOCHREALTIME/[^0-9]/} - begin))
}
random_moment() { # set $moment to a number of seconds: 10 to 90 % of $took, on any machine
    moment=$(printf '%07d' $((took * (RANDOM % 81 + 10) / 100)))
    moment=${moment%??????}.${moment: -6}
}
killed_after() { # killed_after SECONDS COMMAND...: kill it; its exit code, or 137. The process and its locks are gone then
    local seconds=$1
    shift
    "$@" >/dev/null 2>&1 &
    sleep "$seconds"
    kill -KILL $! 2>/dev/null || true
    wait $!
}
killed_midway() { # killed_midway COMMAND...: kill it at a random moment of the time $took, and count $kills; if it was faster, $took is halved
    local got=0
    random_moment
    killed_after "$moment" "$@" || got=$?
    case $got in
    0) took=$((took / 2)) ;;
    137) kills=$((kills + 1)) ;;
    *) fail "$*: exit $got" ;;
    esac
}
decoders() { # the families that generate text, and that transformers has with a head for classes
    sed -n 's/^LVN_MODEL(\(.*\))$/\1/p' "$LEVIN_SOURCE/src/nets/models/models.def" | grep -v '^bert$\|roberta$\|^mnist_\|^nanochat'
}
double_of_cuda() { # doctor.json is that of levin over the doubles in $doubles; skips where run_double finds no runtime for them
    local got=0
    "$LEVIN_SOURCE/tests/run_double" "$doubles" "$LEVIN" doctor --json >doctor.json 2>doctor.err || got=$?
    [ $got = 0 ] || { cat doctor.json doctor.err; exit $got; }
    grep -q '"cuda"' doctor.json || fail "the double of CUDA has no device"
}
opencl_here() { # does a driver of OpenCL have a device, seen without levin?
    python3 - <<'PY'
import ctypes, sys
try:
    cl = ctypes.CDLL("libOpenCL.so.1")
except OSError:
    sys.exit(1)
platforms, n, devices = (ctypes.c_void_p * 16)(), ctypes.c_uint(), ctypes.c_uint()
cl.clGetPlatformIDs(16, platforms, ctypes.byref(n))
for p in platforms[:min(n.value, 16)]:
    if cl.clGetDeviceIDs(ctypes.c_void_p(p), ctypes.c_ulong(0xFFFFFFFF), 0, None, ctypes.byref(devices)) == 0 and devices.value:
        sys.exit(0)
sys.exit(1)
PY
}
has() { grep -qF -- "$1" "$2"; }
serve() { # serve FOLDER: serve its files at $url until the script ends; the process is $server, its log the file `server`
    python3 -u -m http.server --bind 127.0.0.1 --directory "$1" 0 >server 2>&1 &
    server=$!
    trap 'kill $server 2>/dev/null || true' EXIT
    soon has port server
    url=http://127.0.0.1:$(sed -n 's/.*port \([0-9]*\).*/\1/p' server)
}
serve_digits() { # serve_digits TRAIN TEST: serve that many drawn digits as the files of MNIST, from the folder www; their checksums are in $sums
    mkdir -p www
    python3 "$LEVIN_SOURCE/tests/cli/drawn_digits.py" www "$1" "$2"
    gzip -n www/*-ubyte
    sums=$(cd www && sha256sum {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz | cut -d' ' -f1 | paste -sd,)
    serve www
}
# Check that err has exactly one error message.
one_error() { [ "$(grep -c '^error: ' err)" = 1 ] || { echo "not one error:"; cat err; exit 1; }; }
json() { # json EXPRESSION: check that out is one JSON object on one line, for which EXPRESSION (of d) is true
    python3 -c 'import json,math,sys
t=open("out").read(); assert t.count("\n")==1, t
d=json.loads(t); assert eval(sys.argv[1]), (sys.argv[1], d)' "$1"
}
value() { python3 -c 'import json,sys; print(json.load(open("out"))[sys.argv[1]])' "$1"; } # value KEY: of out
same_file() { cmp "$1" "$2" || fail "$1 and $2 differ"; }
same_weights() { # same_weights RUN RUN [step-N]: check that model (or adapters) and optimizer have the same bits
    local at=${3:-last} file=model.safetensors
    [ -f "$1/checkpoints/$at/$file" ] || file=adapter/adapter_model.safetensors
    same_file "$1/checkpoints/$at/$file" "$2/checkpoints/$at/$file"
    same_file "$1/checkpoints/$at/state/optimizer.safetensors" "$2/checkpoints/$at/state/optimizer.safetensors"
}
metrics() { # metrics RUN: all rows of both files, without columns that depend on time and restarts
    local left_out="tokens_per_s|time|memory_bytes|goodput|restarts|restart_seconds"
    sed -E "s/, \"($left_out)\": [^,}]*//g" "$1/metrics.jsonl"
    awk -F, -v left_out="^($left_out)\$" 'NR == 1 { for (i = 1; i <= NF; i++) keep[i] = $i !~ left_out }
        { line = $1; for (i = 2; i in keep; i++) if (keep[i]) line = line "," $i; print line }' "$1/metrics.csv"
}
same_metrics() {
    metrics "$1" >metrics.one
    metrics "$2" >metrics.two
    diff metrics.one metrics.two || fail "the metrics of $1 and $2 differ"
}
same_run() {
    same_weights "$1" "$2"
    same_metrics "$1" "$2"
}
# List all visible properties of a folder, to check that nothing changed.
folder_listing() {
    (cd "$1" && find . -type d -printf '%p\n' -o -printf '%p %y %s %T@ %l\n' | sort && find . -type f -exec cksum {} + | sort)
}

# Write text.txt: 250 KB, always the same, because the effect of rounding depends on the text. Its lines have words, numbers and
# signs, of which a few are frequent. The random numbers are those of Park and Miller, which are exact in any awk.
make_text() {
    awk 'function chance(n) { x = x * 16807 % 2147483647; return int(x / 2147483647 * n) + 1 }
        BEGIN {
            n = split("the of a rank step loss and to is in it model that was trained with each token reads its own row then " \
                "next value When From Some Every No Yes Query key zero one two half of them all together until done; if (x > 0) " \
                "return -1; for (i = 0; i < n; i++) { } y[j] += w * z; \"%s: %d\\n\", /* why? */ #define MOST 4096 0x7f &p->q " \
                "!ok ~mask | ^bit @home $HOME 3.14 1e-5 50 % a_name_of_old UPPER JACK vexing Zebra Box `tick`", word, " ")
            for (x = 7; bytes < 250000; bytes += length(line) + 1) {
                line = substr("            ", 1, 4 * (chance(4) - 1))
                for (k = chance(12); k >= 0; k--) { c = chance(n); d = chance(n); line = line word[c < d ? c : d] (k ? " " : chance(3) == 1 ? "." : "") }
                print line
            }
        }' >text.txt
}
# Keys of a short run.
tiny=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --data.path=text.txt
    --trainer.batch_size=4 --trainer.limit_val_batches=4 --trainer.val_check_interval=4 --trainer.max_steps=8
    --checkpoint.every_n_steps=4)
# arguments RUN [keys]: set the array `all` to the arguments of a tiny run; `keys` replace those of `tiny`, because no key may be
# given twice.
arguments() {
    local run=$1 key other
    shift
    all=(train --run_dir="$run" "$@")
    for key in "${tiny[@]}"; do
        for other in "$@"; do [ "${other%%=*}" != "${key%%=*}" ] || continue 2; done
        all+=("$key")
    done
}
train() { # train RUN [keys]
    arguments "$@"
    "$LEVIN" "${all[@]}"
}
newest() { ls "$1/checkpoints" | sed -n 's/^step-//p' | sort -n | tail -1; } # newest RUN: the step from which it resumes; after a kill, `last` may be the checkpoint before
rows() { if [ -e "$1/metrics.jsonl" ]; then wc -l <"$1/metrics.jsonl"; else echo 0; fi; } # rows RUN
start() { # start RUN [keys]: start it in the background, as $pid; returns after its first step
    arguments "$@"
    "$LEVIN" "${all[@]}" >out 2>err &
    pid=$!
    wait_rows "$1" 1
}
wait_rows() { # wait_rows RUN N: wait until metrics.jsonl has N rows, or $pid has ended
    while kill -0 $pid 2>/dev/null && [ "$(rows "$1")" -lt "$2" ]; do sleep 0.005; done
}
ended() { # wait for $pid; its exit code is in $got
    got=0
    { wait $pid || got=$?; } 2>/dev/null
}
# killed_often N RUN COMMAND...: COMMAND, which trains RUN without an end, N times; each is killed at a random moment after its
# first checkpoint. $end is then four steps after the newest checkpoint.
killed_often() {
    local n=$1 run=$2 before
    shift 2
    for _ in $(seq "$n"); do
        before=$(newest "$run" 2>/dev/null || true)
        "$@" >out 2>err &
        pid=$!
        while kill -0 $pid 2>/dev/null && [ "$(newest "$run" 2>/dev/null || true)" = "$before" ]; do sleep 0.005; done
        sleep "0.0$((RANDOM % 40 + 10))"
        kill -KILL $pid || fail "the run ended before it was killed: $(cat out err)"
        ended
    done
    end=$(($(newest "$run") + 4))
}
# Mark the rates in the cache of this test, LEVIN_CACHE, as measured on an idle machine, so that plans do not measure again.
idle_rates() {
    python3 -c 'import glob, json, os
found = glob.glob(os.environ["LEVIN_CACHE"] + "/rates/*")
assert found
for path in found:
    d = json.load(open(path))
    json.dump(d | {"others": 0}, open(path, "w"))'
}
