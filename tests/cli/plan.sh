# levin plan: the summary first, the program on request, and rates that are measured once.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
export LEVIN_CACHE=$PWD/cache
small=(--data.path=text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.max_steps=100)
code 0 "$LEVIN" plan "${small[@]}"
says "parameters" out
says "batch of 12 sequences of 16 tokens" out
says " s a step at best, " out
case $(python3 -c 'import glob,json; print(json.load(open(glob.glob("cache/rates/*")[0]))["others"] > 0.1)') in # are other programs running?
False) says "measured now and saved" out ;;
True) says "measured now, and again in ten minutes: other programs are running" out ;;
esac
says "whole process, about" out
silent_about "program of one micro-batch" out
check [ "$(wc -l <out)" -lt 30 ]
check [ "$(ls cache/rates | wc -l)" = 1 ]
kept=$(ls cache/rates/*)
edit() { python3 -c 'import json,sys; p,e=sys.argv[1:]; d=json.load(open(p)); exec(e); json.dump(d, open(p,"w"))' "$kept" "$1"; }
idle_rates
code 0 "$LEVIN" plan "${small[@]}" --program
says "program of one micro-batch" out
says "linear_cross_entropy" out
says "measured before (--measure measures them again)" out

# cached: the rates in the file are used, only on the machine that they were measured on
edit 'd.update(flops_per_s=1e9, bytes_per_s=1e30, others=0)'
code 0 "$LEVIN" plan "${small[@]}" --json
json 'd["time"]["kept"] and d["time"]["flops_per_s"] == 1e9 and abs(d["time"]["step_s"] * 1e9 / d["flops_per_step"] - 1) < 1e-6'
json '"program" not in d and abs(d["time"]["tokens_per_s"] * d["time"]["step_s"] - 192) < 1e-6'
code 0 "$LEVIN" plan "${small[@]}" --json --program
json 'len(d["program"]) > 10'
code 0 "$LEVIN" plan "${small[@]}" --json --trainer.threads=1 # other threads, other rates
json 'd["time"]["flops_per_s"] != 1e9' 2>/dev/null || check [ "$("$LEVIN" doctor --json --measure=false | python3 -c 'import json,sys; print(json.load(sys.stdin)["threads"])')" = 1 ]
code 0 "$LEVIN" plan "${small[@]}" --json --measure
json 'not d["time"]["kept"] and d["time"]["flops_per_s"] != 1e9'
# measured while other programs ran: ten minutes later they are measured again, and the higher rates are kept
edit 'd.update(flops_per_s=1e9, bytes_per_s=1e30, others=0.5)'
code 0 "$LEVIN" plan "${small[@]}" --json
json 'd["time"]["kept"]'
edit 'd.update(at=d["at"] - 700)'
code 0 "$LEVIN" plan "${small[@]}" --json
json 'not d["time"]["kept"] and d["time"]["flops_per_s"] > 1e9 and d["time"]["bytes_per_s"] == 1e30'
edit 'd.update(machine="another", flops_per_s=1e9)'
code 0 "$LEVIN" plan "${small[@]}" --json
json 'not d["time"]["kept"] and d["time"]["flops_per_s"] != 1e9'
echo "{" >"$kept"
code 0 "$LEVIN" plan "${small[@]}" --json
json 'not d["time"]["kept"]'
: >file
LEVIN_CACHE=$PWD/file code 0 "$LEVIN" plan "${small[@]}" --json # no cache: measured each time
json 'not d["time"]["kept"] and d["time"]["step_s"] > 0'

# samples are images, not tokens
code 0 "$LEVIN" plan --data.kind=mnist --trainer.batch_size=8
says "batch of 8 samples" out
says " samples/s" out
silent_about "token" out
# ten classes, no blocks, and convolutions in fp32
edit 'd.update(flops_per_s=1e9, bf16_flops_per_s=1e30, bytes_per_s=1e30, others=0)'
cnn=(--data.kind=mnist --model.kind=mnist-cnn --trainer.batch_size=1 --trainer.precision=bf16-mixed --trainer.recompute=blocks)
code 0 "$LEVIN" plan "${cnn[@]}"
says "10 classes" out
says "batch of 1 sample, as 1 micro-batch of 1" out
says "All activations are kept for the backward pass" out
code 0 "$LEVIN" plan "${cnn[@]}" --json
json 'd["time"]["kept"] and len(d["classes"]) == 10 and d["recompute"] == "none"'
json '0.5 * d["flops_per_step"] < d["time"]["step_s"] * 1e9 < d["flops_per_step"]'

# the memory of a device that this machine lacks
code 0 "$LEVIN" plan "${small[@]}" --device=h100-80g
says "are used: it fits." out
says "a step of a rank takes at least " out
says "limit: the larger of FLOPs at 67 TFLOP/s and bytes at 3350 GB/s (NVIDIA H100, 80 GB)" out
# the operations of a step, by their declarations, at the limits of the device
code 0 "$LEVIN" plan "${small[@]}" --device=h100-80g --json --trainer.micro_batch_size=4
json 'abs(sum(o["flops"] for o in d["operations"]) / d["flops_per_step"] - 1) < 1e-9'
json 'all(abs(o["limit_s"] / max(o["flops"] / 67e12, o["bytes"] / 3.35e12) - 1) < 1e-6 for o in d["operations"])'
json '[o["calls"] for o in d["operations"] if o["operation"] == "attention" and o["phase"] == "forward"] == [2 * 3]'
code 0 "$LEVIN" plan "${small[@]}" --device=h100-80g --json --trainer.precision=bf16-mixed
json 'd["limits"]["flops_per_s"] == 989e12'
json '2 * 2 * 12 * 16 ** 2 < d["device"]["rounded_bytes"] < d["memory"]["parameters"] / 2 + 1' # in bf16, which a GPU keeps beside those in fp32
code 0 "$LEVIN" plan "${small[@]}" --device=h100-80g --json --trainer.precision=bf16-true
json 'd["device"]["rounded_bytes"] == 0'
code 0 "$LEVIN" plan "${small[@]}" --limits=775e12,4.3e12 --json
json 'd["limits"]["flops_per_s"] == 775e12 and d["limits"]["bytes_per_s"] == 4.3e12 and d["limits"]["step_s"] > 0'
code 2 "$LEVIN" plan "${small[@]}" --limits=775e12
one_error
says "(--limits=775e12,4.3e12)" err
check [ ! -s out ]
code 0 "$LEVIN" plan "${small[@]}" --device=arc770 --json --model.n_layer=60 --model.n_head=32 --model.n_embd=4096 --trainer.accelerator=trace
json 'd["device"]["name"] == "arc770" and not d["device"]["fits"] and d["device"]["needed_bytes"] > 4 * 4 * 60 * 12 * 4096 ** 2'
# on that device a run keeps activations that a plan for this machine recomputes
many=(--model.n_layer=12 --model.n_head=12 --model.n_embd=768 --model.block_size=256 --trainer.micro_batch_size=16 --trainer.batch_size=16)
code 0 "$LEVIN" plan "${small[@]}" "${many[@]}" --json --trainer.accelerator=trace
json 'd["recompute"] == "cheap"'
code 0 "$LEVIN" plan "${small[@]}" "${many[@]}" --json --trainer.accelerator=trace --device=h200
json 'd["recompute"] == "none"'
code 0 "$LEVIN" plan "${small[@]}" "${many[@]}" --json --trainer.accelerator=trace --device=h200 --model.block_size=2048 --trainer.micro_batch_size=256 --trainer.batch_size=256
json 'd["recompute"] == "cheap"'
for device in max1100 h200; do
    code 0 "$LEVIN" plan "${small[@]}" --device=$device --json
    json 'd["device"]["has_kernels"]'
    if [ $device = h200 ]; then # cuBLASLt's is counted
        json 'd["device"]["needed_bytes"] > d["device"]["reserved_bytes"] + d["device"]["scratch_bytes"] > (1 << 30) + (32 << 20)'
    else
        json 'd["device"]["scratch_bytes"] < 1 << 20'
    fi
    code 0 "$LEVIN" plan "${small[@]}" --device=$device --model.n_head=1 --model.n_embd=264
    says "It cannot run there: attention has heads of 264 channels" out
done
for gpu in --trainer.accelerator=cuda --trainer.accelerator=xpu --trainer.precision=16-mixed; do # a GPU is named, and this machine has none
    code 0 "$LEVIN" plan "${small[@]}" --device=h100-80g $gpu
    says "are used: it fits." out
done
# advice if it does not fit: each figure is that of a plan with this setting
large=("${small[@]}" --device=arc770 --json --model.n_layer=24 --model.n_head=16 --model.n_embd=1024 --trainer.accelerator=trace
    --model.block_size=1024 --trainer.recompute=none)
code 0 "$LEVIN" plan "${large[@]}"
json '{"trainer.recompute=blocks", "trainer.micro_batch_size=1"} <= {a["settings"] for a in d["device"]["advice"]}'
json 'all(a["fits"] == (a["bytes"] <= 0.97 * d["device"]["memory_bytes"]) and a["bytes"] < d["device"]["needed_bytes"] for a in d["device"]["advice"])'
large+=(--model.n_layer=48 --model.n_embd=2048 --trainer.batch_size=4 --trainer.recompute=blocks --trainer.micro_batch_size=1)
code 0 "$LEVIN" plan "${large[@]}"
cp out advised
json 'not d["device"]["fits"] and not any("recompute" in a["settings"] or "micro_batch" in a["settings"] for a in d["device"]["advice"])'
check_advice() { # check_advice SETTING [ARGUMENTS]: its advice about the setting
    code 0 "$LEVIN" plan "${large[@]}" "${@:2}"
    python3 - "$1" <<'P'
import json, sys
told = [a["bytes"] for a in json.load(open("advised"))["device"]["advice"] if a["settings"].startswith(sys.argv[1])]
takes = json.load(open("out"))["device"]["needed_bytes"]
assert told and abs(told[0] / takes - 1) < 0.02, (sys.argv[1], told, takes)
P
}
check_advice optimizer.state=bf16 --optimizer.state=bf16
check_advice trainer.precision=bf16-true --trainer.precision=bf16-true
check_advice model.freeze=h --model.freeze=h
check_advice "trainer.strategy=fsdp on 4 ranks" --trainer.strategy=fsdp --trainer.accelerator=cpu --ranks=4
code 2 "$LEVIN" plan "${small[@]}" --trainer.precision=16-mixed
says "trainer.precision 16-mixed requires a GPU" err
code 2 "$LEVIN" plan "${small[@]}" --device=abacus
one_error
says "levin help plan" err
check [ ! -s out ]
for flag in --nproc-per-node=2 --cores=2 --latency=1 --bandwidth=5; do
    code 2 "$LEVIN" plan "${small[@]}" $flag
    says "error: ${flag%=*} has no effect without --ranks: add --ranks, or leave it out" err
done
for flag in --program --measure --device=arc770 --limits=1e12,1e12 --memory=1e9; do
    code 2 "$LEVIN" plan "${small[@]}" --schedule $flag
    says "error: ${flag%=*} has no effect with --schedule" err
done
# the address space that ulimit -v leaves counts as free memory (sanitizers reserve more)
if [ -z "${LVN_SANITIZE:-}" ]; then
    (ulimit -v 1500000 && code 0 "$LEVIN" plan "${small[@]}" --json)
    json '0 < d["memory"]["available"] < 1500000 * 1024'
fi
