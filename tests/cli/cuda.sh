# trainer.accelerator cuda, over test doubles of the driver, NVRTC and cuBLASLt: a tiny GPT-2 trains as on the CPU,
# stops, resumes and generates; all device memory is released; missing libraries and lost devices are reported.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
doubles=$(dirname "$LEVIN")/tests/double
double() { "$LEVIN_SOURCE/tests/run_double" "$doubles" "$@"; }
make_text
sizes=(--data.kind=chars --data.path=text.txt --model.kind=nanogpt --model.n_layer=2 --model.n_head=3 --model.n_embd=24
    --model.block_size=16 --model.dropout=0.1 --trainer.batch_size=6 --trainer.micro_batch_size=2
    --trainer.limit_val_batches=2 --checkpoint.every_n_steps=2 --checkpoint.top_k=9 --trainer.val_check_interval=2)
double_of_cuda
python3 - <<'P'
import json
d = json.load(open("doctor.json"))
one = next(x for x in d["devices"] if x["backend"] == "cuda")
assert one["name"] == "Double 0" and one["memory_bytes"] == 8 << 30 and "CUDA 13.2" in one["driver"], one
assert d["libraries"]["libcublasLt"]["version"] == "cuBLASLt 13.0.0", d["libraries"]
assert "double" in d["libraries"]["libcublasLt"]["file"], d["libraries"]
assert "13.0" in d["libraries"]["libnvrtc"]["version"] and "double" in d["libraries"]["libcuda"]["file"], d["libraries"]
P

# If a library is too new for the driver, another version that is not is used.
mkdir -p toolkit/lib64
cp "$doubles/libnvrtc.so.13" toolkit/lib64/libnvrtc.so.12
CUDA_HOME=$PWD/toolkit LEVIN_DOUBLE_DRIVER=12080 double "$LEVIN" doctor --json >out 2>/dev/null
says libnvrtc.so.12 out
CUDA_HOME=$PWD/toolkit double "$LEVIN" doctor --json >out 2>/dev/null
says libnvrtc.so.13 out
# The same if it is too new for the device, as version 13 is for a V100.
export LEVIN_DOUBLE_CAPABILITY=70
code 1 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=1 --run_dir=volta
says "the device's compute capability is 7.0, but NVRTC 13.0 compiles for 7.5 and later; install NVRTC 12" err
CUDA_HOME=$PWD/toolkit code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=1 --run_dir=volta
CUDA_HOME=$PWD/toolkit double "$LEVIN" doctor --json >out 2>/dev/null
says libnvrtc.so.12 out
unset LEVIN_DOUBLE_CAPABILITY
# An older device that is not used does not count: version 12 is not even opened.
LD_DEBUG=files LD_DEBUG_OUTPUT=$PWD/opened LEVIN_DOUBLE_DEVICES=2 LEVIN_DOUBLE_LAST=70 CUDA_HOME=$PWD/toolkit code 0 double \
    "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=1 --run_dir=newer
check grep -q libnvrtc.so.13 opened.*
check [ "$(cat opened.* | grep -c libnvrtc.so.12)" = 0 ]
rm opened.*
# A plan for a device counts the copies of parameters that a run there makes.
mixed=("${sizes[@]}" --trainer.precision=bf16-mixed --json)
code 0 "$LEVIN" plan "${mixed[@]}" --trainer.accelerator=trace --device=h100-80g
cp out planned
code 0 double "$LEVIN" plan "${mixed[@]}" --trainer.accelerator=cuda --program
python3 - <<'P'
import json, re
copies = [i for i in json.load(open("out"))["program"] if i["name"] == "rounded parameters"]
elements = sum(int(re.search(r"\d+", i["writes"])[0]) for i in copies)
assert copies and json.load(open("planned"))["device"]["rounded_bytes"] == 2 * elements, (copies, elements)
P
# A driver that does not start says why.
LEVIN_DOUBLE_FAIL=cuInit:1:802 double "$LEVIN" doctor >out 2>&1
check grep -q 'does not start: .*nvidia-fabricmanager' out

# auto chooses it; a driver without a device is reported, and the processor computes.
double "$LEVIN" train "${sizes[@]}" --trainer.max_steps=1 --run_dir=auto >out 2>err
says "Double 0: matrix multiplication by" err
LEVIN_DOUBLE_DEVICES=0 double "$LEVIN" train "${sizes[@]}" --trainer.max_steps=1 --run_dir=none >out 2>err
says "computing on the CPU, because cuda has no GPU: " err

# --- the same numbers, in both orders of the double, and with levin's own matrix multiplications ---
compare() { # compare RUN WITHIN [RUN]: losses and norms compared with those of another run, on the processor
    python3 - "$@" <<'P'
import json, sys
other = sys.argv[3] if len(sys.argv) > 3 else "cpu"
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in (other, sys.argv[1]))
assert len(a) == len(b)
worst = max(abs(x[k] - y[k]) / abs(x[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x)
print(sys.argv[1], "is", worst, "off")
assert worst < float(sys.argv[2]), worst
P
}
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cpu --trainer.max_steps=4 --run_dir=cpu
for order in late early; do
    LEVIN_DOUBLE_ORDER=$order LEVIN_DOUBLE_REPORT=$PWD/report code 0 double "$LEVIN" train "${sizes[@]}" \
        --trainer.accelerator=gpu --trainer.max_steps=4 --run_dir=$order
    says "Double 0: matrix multiplication by cuBLASLt 13.0.0" err
    compare $order 1e-5
done
check grep -q '^calls cublasLtMatmul ' report
LEVIN_CUBLASLT=off code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=4 --run_dir=own
says "matrix multiplication by levin's kernels; LEVIN_CUBLASLT is off" err
compare own 1e-5
code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=4 --run_dir=high \
    --trainer.float32_matmul_precision=high
says ", fp32 in TF32" err
compare high 1e-3
check [ "$(metrics high)" != "$(metrics late)" ]
code 0 "$LEVIN" train "${sizes[@]}" --trainer.max_steps=4 --run_dir=cpu-high --trainer.float32_matmul_precision=high
says "trainer.float32_matmul_precision high has no effect here, because cpu does not support TF32" err
same_weights cpu cpu-high
same_weights late early
check [ "$(grep -c '^left .* 0$' report)" = "$(grep -c '^left' report)" ]
says "broken 0" report
# captured in four parts for training (three micro-batches, the update) and once for validation, and replayed
check [ "$(sed -n 's/^calls cuStreamBeginCapture_v2 //p' report | head -1)" = 5 ]
check [ "$(sed -n 's/^calls cuGraphLaunch //p' report | head -1)" -ge 12 ]

# deterministic: what is captured grows with the number of gradient buffers (log2), not with that of the micro-batches
for n in 8 32; do
    rm -f report
    LEVIN_DOUBLE_REPORT=$PWD/report code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=2 \
        --run_dir=tree-$n --trainer.deterministic=true --trainer.batch_size=$n --trainer.micro_batch_size=1
    sed -n 's/^calls cuLaunchKernel //p' report | head -1 >launches.$n
done
check [ "$(cat launches.32)" -lt $(($(cat launches.8) * 2)) ]
LEVIN_CUDA_GRAPHS=off code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=2 \
    --run_dir=tree-launched --trainer.deterministic=true --trainer.batch_size=32 --trainer.micro_batch_size=1
same_weights tree-32 tree-launched

# --- stop, resume, generate; from a run on the processor and back ---
code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=2 --run_dir=parts
for f in model state/optimizer; do # saved during the next step, and while no step runs
    for order in late early; do same_file $order/checkpoints/step-2/$f.safetensors parts/checkpoints/step-2/$f.safetensors; done
done
code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=4 --run_dir=parts --resume
same_weights late parts
silent_about "its bits are not those" err
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cpu --trainer.max_steps=6 --run_dir=parts --resume
says "until step 4 this run computed with 'Double 0: matrix multiplication by cuBLASLt 13.0.0', and it continues with 'cpu': its bits are not those" err
code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=8 --run_dir=parts --resume
code 0 double "$LEVIN" generate late --trainer.accelerator=cuda --prompt="the" --max-new-tokens=12 --temperature=0
cp out cuda.text
code 0 "$LEVIN" generate late --trainer.accelerator=cpu --prompt="the" --max-new-tokens=12 --temperature=0
check cmp out cuda.text
# cuBLASLt computes all matrix multiplications of decoding, also those of bf16 weights and fp32 activations.
for precision in 32-true bf16-true; do
    found=$(double bash -c '"$LEVIN" generate late --trainer.accelerator=cuda --prompt=the --max-new-tokens=3 "$@" >&2 &&
        cat "$LEVIN_CACHE"/kernels/* | grep -ac "^#define PRODUCT"' x --trainer.precision=$precision 2>err) || true
    check [ "$found" = 0 ]
done
for precision in bf16-mixed bf16-true; do
    code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.precision=$precision --trainer.max_steps=2 \
        --run_dir=$precision
    code 0 "$LEVIN" train "${sizes[@]}" --trainer.precision=$precision --trainer.max_steps=2 --run_dir=cpu-$precision
    compare $precision 1e-2 cpu-$precision
done
code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.precision=16-mixed --trainer.max_steps=4 \
    --run_dir=half
compare half 1e-2

# --- algorithms of matrix multiplications: the fastest is chosen once; a run keeps its choice ---
mixed=("${sizes[@]}" --trainer.accelerator=cuda --trainer.precision=bf16-mixed)
measured="matrix multiplications were chosen by measuring; later runs on this machine use the same"
LEVIN_DOUBLE_TIMES=3,1 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=4 --run_dir=tuned
says "$measured" err
LEVIN_DOUBLE_TIMES=1,3 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=4 --run_dir=untuned
says "$measured" err
check [ "$(metrics tuned)" != "$(metrics untuned)" ]
compare tuned 1e-2 untuned
LEVIN_DOUBLE_TIMES=3,1 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=2 --run_dir=kept
LEVIN_DOUBLE_TIMES=1,3 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=4 --run_dir=kept --resume
silent_about "$measured" err
silent_about "its bits are not those" err
same_weights tuned kept
LEVIN_DOUBLE_TIMES=1 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=6 --run_dir=kept --resume
says "until step 4 this run used algorithms for " err
says " matrix multiplications that 'Double 0: matrix multiplication by cuBLASLt 13.0.0' does not accept now: its bits are not those of a run that was never stopped" err
# With one cache a second run has the bits of the first.
# shellcheck disable=SC2016
LEVIN_DOUBLE_TIMES=3,1 code 0 double bash -c '"$LEVIN" train "$@" --run_dir=cached1 2>/dev/null &&
    LEVIN_DOUBLE_TIMES=1,3 "$LEVIN" train "$@" --run_dir=cached2' x "${mixed[@]}" --trainer.max_steps=4
silent_about "$measured" err
same_weights tuned cached1
same_weights tuned cached2
# A choice that the next run would not find is not used.
# shellcheck disable=SC2016
LEVIN_DOUBLE_TIMES=3,1 code 0 double bash -c 'LEVIN_CACHE=/dev/null/no "$LEVIN" train "$@"' x "${mixed[@]}" --trainer.max_steps=4 \
    --run_dir=unwritable
says "no algorithms of matrix multiplications are chosen by measuring, because a choice could not be stored for later runs (" err
silent_about "$measured" err
same_weights untuned unwritable
# Not measured: a run that has begun without measuring, as earlier versions did; a deterministic run; fp32.
LEVIN_CUBLASLT=first LEVIN_DOUBLE_TIMES=3,1 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=2 --run_dir=begun
silent_about "$measured" err
LEVIN_DOUBLE_TIMES=3,1 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=4 --run_dir=begun --resume
silent_about "$measured" err
same_weights untuned begun
LEVIN_DOUBLE_TIMES=3,1 code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=1 --run_dir=fixed --trainer.deterministic=true
silent_about "$measured" err
LEVIN_DOUBLE_TIMES=3,1 code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=1 --run_dir=full
silent_about "$measured" err
LEVIN_DOUBLE_TIMES=3,1 code 0 double "$LEVIN" bench "${mixed[@]}" --steps=1
says "$measured" err

# --- parameters are rounded once per step, or, if memory is short, in each multiplication: the same bits ---
kernels() { # kernels RUN OPTIONS: how many a run of four steps of three micro-batches has
    rm -f report
    LEVIN_DOUBLE_REPORT=$PWD/report code 0 double "$LEVIN" train "${mixed[@]}" --trainer.max_steps=4 --run_dir="$1" "${@:2}"
    sed -n 's/^kernels //p' report
}
# model (gpt2 has biases), mode, memory without the copies, launches more in a step
for way in "nanogpt auto 440000 50" "nanogpt none 440000 50" "nanogpt blocks 415000 59" "gpt2 auto 450000 74"; do
    read -r model mode memory more <<<"$way"
    options=(--model.kind="$model" --trainer.recompute="$mode")
    once=$(kernels "once-$model-$mode" "${options[@]}")
    check [ $((once + 4 * more)) = "$(LEVIN_DOUBLE_MEMORY=$memory kernels "each-$model-$mode" "${options[@]}")" ]
    same_weights "once-$model-$mode" "each-$model-$mode"
    same_metrics "once-$model-$mode" "each-$model-$mode"
done

# --- one micro-batch of sixteen has an infinite loss: one error message, and the checkpoint of the previous step remains ---
{ printf 'text\tlabel\n'; for i in $(seq 64); do printf 'a good text\t%s\n' "$([ "$i" = 40 ] && echo 1e30 || echo 1)"; done; } >wild.tsv
code 1 double "$LEVIN" train --data.path=wild.tsv --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" \
    --task.kind=regress --model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=8 \
    --trainer.batch_size=16 --trainer.micro_batch_size=1 --trainer.max_steps=4 --checkpoint.every_n_steps=1 \
    --trainer.accelerator=cuda --run_dir=wild
one_error
at=$(sed -n 's/^error: step \([0-9]*\): the loss is inf.*/\1/p' err)
check [ "$at" -ge 2 ]
says "the first value that is not finite is in '" err
check [ "$(readlink wild/checkpoints/last)" = "step-$((at - 1))" ]
check [ -e wild/checkpoints/last/state/manifest.json ]

# --- lost devices, missing libraries ---
LEVIN_DOUBLE_FAIL=kernel:300 code 76 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=4 \
    --run_dir=lost
says "the device was lost" err
LEVIN_DOUBLE_FAIL=cublasLtMatmul:7 code 76 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --run_dir=lost-product
says "the device was lost: cuBLASLt 13.0.0 returned execution failed (13)" err
LEVIN_DOUBLE_FAIL=nvrtcCompileProgram:4 code 1 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --run_dir=no
one_error
says "the kernel does not compile for sm_90a" err
LEVIN_DOUBLE_DRIVER=12040 code 1 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --run_dir=no
one_error
says "supports CUDA 12.4 and cannot load kernels of NVRTC 13.0" err
LEVIN_DOUBLE_MEMORY=100000 code 1 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --run_dir=no
one_error
says "are free on the device; " err
says "trainer.precision=bf16-true needs" err


# --- a step that cannot be captured is launched kernel by kernel; memory that another process took: one sentence ---
LEVIN_DOUBLE_FAIL=cuStreamEndCapture:1:901 code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=4 \
    --run_dir=uncaptured
says "warning: a step cannot be captured as a graph (capturing a step on device 0: the CUDA driver returned " err
says "); its kernels are launched one by one, which gives the same bits and is slower" err
check [ "$(grep -c 'cannot be captured' err)" = 1 ]
same_weights late uncaptured
LEVIN_DOUBLE_TAKEN=8589800000 code 1 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=6 \
    --run_dir=uncaptured --resume
one_error
says "device 0 (Double 0) has " err
says " KiB of 8.0 GiB free, but " err
says " is needed; choose a smaller trainer.micro_batch_size, model.block_size or model, or end other programs on it (nvidia-smi)" err
LEVIN_DOUBLE_FAIL=cuGraphLaunch:3:2 code 1 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.max_steps=6 \
    --run_dir=uncaptured --resume
one_error
says "launching a step on device 0: the device is out of memory (CUDA_ERROR_OUT_OF_MEMORY, " err
says " of 8.0 GiB are free); choose a smaller trainer.micro_batch_size" err
same_weights late uncaptured

# --- the plan uses the memory of the device, not of the machine: a batch that does not fit is cut, and learns the same ---
whole=("${sizes[@]}" --trainer.micro_batch_size=0 --trainer.batch_size=64 --trainer.accelerator=cuda --trainer.max_steps=2)
code 0 double "$LEVIN" train "${whole[@]}" --run_dir=roomy
LEVIN_DOUBLE_MEMORY=1200000 code 0 double "$LEVIN" train "${whole[@]}" --run_dir=cut
says "micro-batch" err
compare cut 1e-5 roomy
# Activations are recomputed only if they do not fit.
planned() { # MEMORY RECOMPUTE MICRO_BATCH_SIZE
    LEVIN_DOUBLE_MEMORY=$1 code 0 double "$LEVIN" plan "${whole[@]}" --json
    check python3 -c 'import json, sys; d = json.load(open("out")); assert [d["recompute"], str(d["micro_batch_size"])] == sys.argv[1:], d' "$2" "$3"
}
planned 8000000 none 64
planned 4000000 cheap 64
planned 3000000 cheap 32

# --- without matrix units (compute capability below 8.0) attention is compiled for plain cores ---
for capability in 90 75; do
    found=$(LEVIN_DOUBLE_CAPABILITY=$capability double bash -c '"$LEVIN" train "$@" >&2 && cat "$LEVIN_CACHE"/kernels/* |
        grep -ac "^#define ROWS"' x "${sizes[@]}" --trainer.accelerator=cuda --trainer.precision=16-mixed \
        --trainer.max_steps=2 --run_dir=half-$capability 2>err) || true
    if [ $capability = 90 ]; then check [ "$found" -gt 0 ]; else check [ "$found" = 0 ]; fi
done
compare half-75 1e-2 half-90
# cuBLASLt does not multiply bf16 matrices there
LEVIN_DOUBLE_CAPABILITY=75 code 0 double "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda --trainer.precision=bf16-mixed \
    --trainer.max_steps=2 --run_dir=old
says "from compute capability 8.0 on, and this device has 7.5; levin's slow kernels do: trainer.precision 16-mixed" err
compare old 1e-2 cpu-bf16-mixed

# --- on a device no utilization is shown, because its peak rate is not measured ---
code 0 double "$LEVIN" bench "${sizes[@]}" --trainer.accelerator=cuda --steps=1
says "tokens/s (best)" out
lacks inf out
code 0 double "$LEVIN" bench "${sizes[@]}" --trainer.accelerator=cuda --steps=1 --json
json 'd["utilization"] is None and d["matmul_gflops"] is None'
# The time of a step is the sum of its operations'.
for device in cpu cuda; do
    code 0 double "$LEVIN" bench "${sizes[@]}" --trainer.accelerator=$device --steps=2 --parts --json --limits=2e12,1e12
    json 'all(abs(o["limit_s"] / max(o["flops"] / 2e12, o["bytes"] / 1e12) - 1) < 1e-6 for o in d["operations"])'
    json 'all(o["calls"] > 0 and o["seconds"] > 0 and o["bytes"] > 0 for o in d["operations"])'
    json '{("attention", "forward"), ("attention", "backward"), ("adamw", "forward")} <= {(o["operation"], o["phase"]) for o in d["operations"]}'
    # its FLOPs and bytes are those of the plan
    cp out measured
    code 0 double "$LEVIN" plan "${sizes[@]}" --trainer.accelerator=$device --limits=1e12,1e12 --json
    python3 - measured out <<'P'
import json, sys
measured, planned = ({(o["operation"], o["phase"]): [o[k] for k in ("calls", "flops", "bytes")] for o in json.load(open(name))["operations"]}
                     for name in sys.argv[1:])
assert measured == planned, (measured, planned)
P
    cp measured out
    # the best time of each operation; so they are at most the best times of the parts
    json '0 < sum(o["seconds"] for o in d["operations"]) <= 1.000001 * (d["forward_s"] + d["backward_s"] + d["update_s"])'
done

# --- ranks: each on its own device, or on one with trainer.share_devices ---
code 2 double "$LEVIN" launch -n 2 -- train "${sizes[@]}" --trainer.accelerator=cuda --run_dir=no --trainer.threads=1
says "ranks 0 and 1 run on " err
says "trainer.share_devices" err
ranks=("${sizes[@]}" --trainer.deterministic=true --trainer.accelerator=cuda --trainer.max_steps=4 --trainer.threads=1)
code 0 double "$LEVIN" train "${ranks[@]}" --run_dir=one
code 0 double "$LEVIN" launch -n 2 -- train "${ranks[@]}" --run_dir=shared --trainer.share_devices=true
same_weights one shared
LEVIN_DOUBLE_DEVICES=2 code 0 double "$LEVIN" launch -n 2 -- train "${ranks[@]}" --run_dir=two
same_weights one two
