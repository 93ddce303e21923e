# bench/gpu --first, over test doubles: checks follow each other whatever their results, each within its time limit, and
# a table lists the results; a packed copy runs in an empty environment.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ "$LEVIN_SOURCE/build/levin" -ef "$LEVIN" ] || { echo "skipped: bench/gpu takes build/levin"; exit 77; }
doubles=$(dirname "$LEVIN")/tests/double
first() { "$LEVIN_SOURCE/tests/run_double" "$doubles" "$LEVIN_SOURCE/bench/gpu" --first "$@"; }
"$LEVIN_SOURCE/tests/run_double" "$doubles" "$LEVIN" doctor --json >doctor.json 2>/dev/null || true
if ! grep -q '"cuda"' doctor.json; then
    echo "skipped: the double of CUDA has nothing to compute with (tools/setup.sh --dev installs it)"
    exit 77
fi
code 0 first --only doctor,train-32 --out good --scale 10
says "pass  doctor: Double 0, CUDA 13.2" out
says "pass  train-32: losses within" out
says "2 passed, 0 failed, 0 skipped" out
check [ -s good/01-doctor.log ]

# the first fails, the second does not end in time, the third still runs
LEVIN_DOUBLE_FAIL=nvrtcCompileProgram:1 code 1 first --only train-32,doctor --out bad --scale 10
says "pass  doctor" out
says "FAIL  train-32: status 1: error: " out
says "1 passed, 1 failed, 0 skipped" out
code 1 first --only twice,doctor --out late --scale 0.001
says "FAIL  twice: did not end within its limit" out
says "0 passed, 2 failed, 0 skipped" out
code 1 first --only everything
says "is no check; they are: smi doctor" out

# everything in one command: a step that fails does not end it, and a table comes last; variants still apply
LEVIN_ONCE_SMALL=1 code 0 "$LEVIN_SOURCE/tests/run_double" "$doubles" "$LEVIN_SOURCE/bench/gpu_once" once
check grep -Eq "^smi +status 127" out
for step in doctor first gpt2 gpt2-parts nanogpt llama-parts large gpt2-wgmma gpt2-dropout; do check grep -Eq "^$step +done" out; done
check grep -Eq "^gpt2-drift .* tokens/s" out
LEVIN_ONCE_SMALL=1 code 0 "$LEVIN_SOURCE/bench/gpu_once" --variants variants
says "groups1: src/core/ops/attention_tiles_gpu.h" out

# without a driver, a network, or a variable
code 0 "$LEVIN_SOURCE/bench/gpu" --pack packed
says "there: bench/gpu --first" out
code 1 env -i PATH="$PATH" HOME="$PWD" packed/bench/gpu --first --only doctor --out bare
says "FAIL  doctor: levin sees no device of CUDA" out
