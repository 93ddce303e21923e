# levin plan --ranks: the time of a step on many ranks follows from measurements and from the given latency and
# bandwidth of the network.
# label: slow
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"
export LEVIN_CACHE=$PWD/cache
keys=(--model.n_layer=3 --model.n_head=2 --model.n_embd=32 --model.block_size=32 --model.vocab_size=65 --trainer.batch_size=24
    --trainer.threads=1)
predict() { code 0 "$LEVIN" plan "${keys[@]}" --json "$@"; }
predict --ranks=8
json 'd["predicted"]["ranks"] == 8 and d["predicted"]["nproc_per_node"] == 1 and d["predicted"]["overlapped"] and d["micro_batch_size"] == 3'
json '0 < d["predicted"]["efficiency"] <= 1.5 and d["predicted"]["step_s"] > 0'
flops=$(python3 -c 'import json; d = json.load(open("out")); print(d["flops_per_step"], d["flops_per_token"])')
code 0 "$LEVIN" plan "${keys[@]}" --json # the FLOPs of a step are those of all ranks
python3 - $flops <<'P' || fail "FLOPs of eight ranks: $flops"
import json, sys
d = json.load(open("out"))
assert all(abs(float(have) / d[key] - 1) < 1e-9 for have, key in zip(sys.argv[1:], ("flops_per_step", "flops_per_token")))
P
# a network so slow that it dominates: one byte a second in each direction
predict --ranks=2 --bandwidth=1
json 'd["predicted"]["reduce_s"] >= 4 * d["parameters"] and d["predicted"]["efficiency"] < 0.01'
json 'abs(d["predicted"]["reduce_s"] / d["memory"]["gradients"] - 1) < 0.01' # blocks of so small a model have gaps between them
predict --ranks=2 --bandwidth=1 --trainer.strategy=zero1
json 'abs(d["predicted"]["reduce_s"] / (2 * d["parameters"]) - 1) < 0.01'
json 'abs(d["predicted"]["share_s"] / (2 * d["parameters"]) - 1) < 0.01'
# groups of more ranks than run here
predict --ranks=8 --nproc-per-node=2 --trainer.strategy=fsdp --trainer.fsdp_size=4 --trainer.batch_size=16
json 'd["strategy"] == "fsdp" and d["predicted"]["messages_between"] > 0'
predict --ranks=2 --latency=10
json 'd["predicted"]["step_s"] > 10'
# more ranks on one host than it has cores
keys[5]=--trainer.batch_size=600
predict --ranks=600 --nproc-per-node=600
keys[5]=--trainer.batch_size=24
json 'd["predicted"]["efficiency"] < 0.9 and not d["predicted"]["overlapped"]'
predict --ranks=3 --trainer.deterministic=true
json 'not d["predicted"]["overlapped"]'
code 2 "$LEVIN" plan "${keys[@]}" --ranks=25
one_error
says "25 ranks cannot share the 24 sequences of a step" err
# the parts add up to the step; hosts of different sizes; messages
predict --ranks=4 --nproc-per-node=2 --cores=2 --bandwidth=1e6
json 'abs(sum(d["predicted"][k] for k in ("compute_s", "exposed_s", "saving_s")) / d["predicted"]["step_s"] - 1) < 1e-6'
json 'd["predicted"]["cores"] == 2 and d["predicted"]["messages_between"] > 0 and d["predicted"]["messages_within"] > 0'
json 'd["predicted"]["bytes_between"] < 4.1 * d["parameters"] and d["predicted"]["exposed_s"] > 0.5 * d["predicted"]["reduce_s"]'
# if no core is free, sending slows computing, for each rank of a host, however fast the network is
for each in 1 4; do
    predict --ranks=8 --nproc-per-node=$each --cores=1 --bandwidth=1e15 --latency=0
    json "d['predicted']['overlapped'] and d['predicted']['exposed_s'] > $each * d['predicted']['bytes_between'] / 0.6e9"
done
predict --ranks=8 --cores=64 --bandwidth=1e15 --latency=0
json 'd["predicted"]["exposed_s"] < d["predicted"]["bytes_between"] / 0.6e9'
predict --ranks=2 --nproc-per-node=2
json 'd["predicted"]["messages_between"] == 0 and d["predicted"]["reduce_s"] > 0'
# why the computing time there differs from that here
code 0 "$LEVIN" plan "${keys[@]}" --ranks=4 --nproc-per-node=4 --cores=2
says "computing takes 2 times as long there, because threads share cores" out
silent_about "as long there as here" out
code 0 "$LEVIN" plan "${keys[@]:0:6}" --ranks=8 --cores=1000
says "as long there as here, because a rank has 1000 threads there, and" out
silent_about "share cores" out
# a step waits for what is left of writing a checkpoint; if no core is free, its thread is one of those that compute
saving=(--ranks=8 --checkpoint.every_n_steps=1 --trainer.threads=8 --model.n_layer=1 --model.n_embd=512 --trainer.batch_size=8)
code 0 "$LEVIN" plan "${keys[@]:0:6}" "${saving[@]}" --json --cores=64
json 'abs(d["predicted"]["saving_s"] - max(0, d["predicted"]["save_s"] - d["predicted"]["compute_s"])) < 1e-9 and d["predicted"]["save_s"] > 0'
code 0 "$LEVIN" plan "${keys[@]:0:6}" "${saving[@]}" --json --cores=8
json 'abs(d["predicted"]["saving_s"] - max(d["predicted"]["save_s"] / 8, d["predicted"]["save_s"] - d["predicted"]["compute_s"])) < 1e-9'
# quick micro-batches are run; a large model is estimated from rates, in little memory, after the exact figures
predict --ranks=2 --trainer.batch_size=2
json 'd["predicted"]["computed"] == "whole"'
large() { # large MOST-MiB ARGUMENTS: levin plan with at most that much memory
    python3 -c 'import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < int(sys.argv[1]) << 10
sys.exit(code)' "$1" "$LEVIN" "${@:2}"
}
most=500
! grep -q __asan_init "$LEVIN" || most=4000
code 0 large $most plan "${keys[@]:0:6}" # measures the rates of the threads that a run here has
idle_rates
code 0 large $most plan "$LEVIN_SOURCE/recipes/pythia-12b.yaml" --ranks=64 --json
json 'd["predicted"]["computed"] == "rates" and d["predicted"]["forward_s"] > 1 and d["memory"]["total"] > 100e9'
for shape in "80 8192 64 32" "96 12288 96 1024"; do # 64 and 175 billion parameters
    read -r layers width heads ranks <<<"$shape"
    code 0 large $most plan "$LEVIN_SOURCE/recipes/pythia-12b.yaml" --model.n_layer=$layers --model.n_embd=$width --model.n_head=$heads \
        --ranks=$ranks --nproc-per-node=8
    check [ "$(grep -n "memory in bytes" out | cut -d: -f1)" -lt "$(grep -n "$ranks ranks, 8 on each host" out | cut -d: -f1)" ]
    says "nothing of the model ran" out
done
# auto shards as much as the memory requires: of 16 bytes a parameter ddp needs all, zero1 on 8 ranks 9, zero2 5.5,
# fsdp 2
fitting() { # fitting BYTES STRATEGY [keys]: with so many bytes a parameter the model takes all of the memory
    local layers
    layers=$(python3 -c "import json; print(max(1, json.load(open('out'))['memory']['available'] // $1 // (12 * 1024**2)))")
    predict --ranks=8 --memory=24e9 --model.n_head=16 --model.n_embd=1024 --model.n_layer="$layers" --trainer.batch_size=8 "${@:3}"
    json 'd["strategy"] == "'"$2"'" and d["fits"]'
}
predict --ranks=8 --memory=24e9
fitting 30 ddp
fitting 12 zero1
fitting 7 zero2
fitting 4 fsdp
fitting 12 zero1 --trainer.deterministic=true --trainer.micro_batch_size=1
# with --measure, single layers run if the whole takes too long; sanitizers are too slow even for those
predict --ranks=2 --measure --model.n_layer=200 --model.n_embd=256 --model.block_size=256
json '(d["predicted"]["computed"] in ("whole", "layers") or '$most' > 500) and d["predicted"]["backward_s"] > 0'
