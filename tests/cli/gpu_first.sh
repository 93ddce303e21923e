# bench/gpu --first, over test doubles: checks follow each other whatever their results, each within its time limit, and
# a table lists the results; a packed copy runs in an empty environment.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ "$LEVIN_SOURCE/build/levin" -ef "$LEVIN" ] || { echo "skipped: bench/gpu takes build/levin"; exit 77; }
doubles=$(dirname "$LEVIN")/tests/double
first() { "$LEVIN_SOURCE/tests/run_double" "$doubles" "$LEVIN_SOURCE/bench/gpu" --first "$@"; }
double_of_cuda
code 0 first --only doctor,train-32,kernels-bf16-once --out good --scale 100
says "pass  doctor: Double 0, CUDA 13.2" out
says "pass  train-32: losses within" out
says "pass  kernels-bf16-once" out
says "3 passed, 0 failed, 0 skipped" out
check [ -s good/01-doctor.log ]

# the first check fails, the second exceeds its time limit, the third still runs
LEVIN_DOUBLE_FAIL=nvrtcCompileProgram:1 code 1 first --only train-32,doctor --out bad --scale 100
says "pass  doctor" out
says "FAIL  train-32: status 1: error: " out
says "1 passed, 1 failed, 0 skipped" out
code 1 first --only twice,doctor --out late --scale 0.001
says "FAIL  twice: did not end within its limit" out
says "0 passed, 2 failed, 0 skipped" out
code 1 first --only everything
says "names no check; the checks are: smi doctor" out

# all steps in one command: a failed step does not end it, a table is printed at the end, and variants apply
mkdir bin # a sanitizer that finds an error in one of the tools
printf '#!/bin/sh\nshift 4\n"$@"\n[ "$LEVIN_WGMMA" = on ]\n' >bin/compute-sanitizer
chmod +x bin/compute-sanitizer
once() { LEVIN_ONCE_SMALL=1 code 0 "$LEVIN_SOURCE/tests/run_double" "$doubles" "$LEVIN_SOURCE/bench/gpu_once" "$@"; }
PATH=$PWD/bin:$PATH once once
check grep -Eq "^smi +status 127" out
check grep -Eq "^racecheck +status 1 " out
for step in doctor first wgmma-kernels memcheck-wgmma gpt2 gpt2-parts nanogpt llama-parts large gpt2-wgmma gpt2-dropout; do
    check grep -Eq "^$step +done" out
done
check grep -q "once/first.log" <(tar -tzf once.tar.gz)
# steps without time are left out; kernels that compute without wgmma are no evidence for it
LEVIN_ONCE_SECONDS=0 once none
check grep -Eq "^gpt2-dropout +left out" out
LEVIN_DOUBLE_CAPABILITY=80 once older
check grep -Eq "^wgmma-kernels +no attention by wgmma" out
LEVIN_ONCE_SMALL=1 code 0 "$LEVIN_SOURCE/bench/gpu_once" --variants variants
says "groups1: src/core/ops/attention_tiles_gpu.h" out

# without a driver, a network, or a variable
code 0 "$LEVIN_SOURCE/bench/gpu" --pack packed
says "there: bench/gpu --first" out
code 1 env -i PATH="$PATH" HOME="$PWD" packed/bench/gpu --first --only doctor --out bare
says "FAIL  doctor: CUDA has no GPU here" out
