# levin plan --fit finds the fastest of the settings with which a rank fits its memory, compared with plans of all settings; keys that
# are given are kept; if nothing fits, the error says what would.
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"
export LEVIN_CACHE=$PWD/cache
# too large to be run by a plan, so that all times are by the rates
keys=(--model.n_layer=12 --model.n_head=8 --model.n_embd=512 --model.block_size=256 --model.vocab_size=65 --trainer.threads=1
    --checkpoint.every_n_steps=0) # and no disk is measured
fit() { # fit CODE ARGUMENTS
    code "$1" "$LEVIN" plan "${keys[@]}" --fit --json "${@:2}"
}

near=2 # MiB between two plans of the same; a sanitizer's allocator needs more
! grep -q __asan_init "$LEVIN" || near=16

# every combination is planned by itself
code 0 "$LEVIN" plan "${keys[@]}" --trainer.batch_size=16 --ranks=4
idle_rates
python3 - "$LEVIN" "${keys[@]}" >all <<'P' # a line of each: its keys, bytes, seconds
import itertools, json, subprocess, sys
divided = ("ddp", "0"), ("zero1", "0"), ("zero2", "0"), ("fsdp", "0"), ("fsdp", "2") # and trainer.fsdp_size
for (strategy, group), recompute, micro in itertools.product(divided, ("none", "cheap", "blocks"), "124"):
    d = json.loads(subprocess.check_output([sys.argv[1], "plan", *sys.argv[2:], "--trainer.batch_size=16", "--ranks=4", "--json",
        "--trainer.strategy=" + strategy, "--trainer.fsdp_size=" + group, "--trainer.recompute=" + recompute,
        "--trainer.micro_batch_size=" + micro]))
    print(strategy, group, recompute, micro, d["memory"]["process"], d["predicted"]["step_s"])
P
memories=$(python3 -c 'import sys
n = sorted(int(l.split()[4]) for l in open("all"))
print(n[0] + (int(sys.argv[1]) << 21), n[10] + 4000000, n[-1] + 100000000)' "$near")
for bytes in $memories; do
    fit 0 --trainer.batch_size=16 --ranks=4 --memory="$bytes"
    json 'd["fits"] and d["fit"]["available_bytes"] == d["memory"]["available"]'
    python3 - "$bytes" "$near" <<'P'
import json, sys
most, d = int(sys.argv[1]), json.load(open("out"))
fit, chosen, near = d["fit"], d["fit"]["chosen"], int(sys.argv[2]) << 20
keys = lambda k: (k["trainer.strategy"], k["trainer.fsdp_size"], k["trainer.recompute"], k["trainer.micro_batch_size"])
plans = {}
for line in open("all"):
    strategy, group, recompute, micro, needed, step = line.split()
    plans[strategy, int(group), recompute, int(micro)] = int(needed), float(step)
for k in fit["candidates"]:
    needed, step = plans[keys(k)]
    assert abs(k["needed_bytes"] - needed) < near and k["fits"] == (k["needed_bytes"] <= most), k
    assert not k["fits"] or abs(k["step_s"] / step - 1) < 1e-3, (k, step)
seconds = plans[keys(chosen)][1]
assert plans[keys(chosen)][0] < most + near and chosen["fits"]
assert all(seconds < 1.0101 * step for needed, step in plans.values() if needed < most - near), (chosen, plans)
assert (d["strategy"], chosen["trainer.fsdp_size"], d["recompute"], d["micro_batch_size"]) == keys(chosen)
group = "--trainer.fsdp_size=%d " % chosen["trainer.fsdp_size"] if chosen["trainer.fsdp_size"] else ""
assert fit["keys"] == "--trainer.strategy=%s %s--trainer.micro_batch_size=%d --trainer.recompute=%s" % (
    chosen["trainer.strategy"], group, chosen["trainer.micro_batch_size"], chosen["trainer.recompute"])
P
done

# the printed keys give the same plan
code 0 "$LEVIN" plan "${keys[@]}" --trainer.batch_size=32 --ranks=4 --fit --memory=500e6
says "chosen" out
says "memory of a rank (--memory)" out
line=$(grep '^--trainer.strategy=' out)
predicted=$(grep "all of these, exact" out) # the whole process has the program itself too, which is measured
# shellcheck disable=SC2086
code 0 "$LEVIN" plan "${keys[@]}" --trainer.batch_size=32 --ranks=4 --memory=500e6 $line
says "It fits." out
says "$predicted" out

# given keys are kept; one rank has no strategy; ranks of a host share its memory
fit 0 --trainer.batch_size=32 --ranks=4 --trainer.strategy=zero1 --trainer.micro_batch_size=2
json '{k["trainer.strategy"] for k in d["fit"]["candidates"]} == {"zero1"} and d["micro_batch_size"] == 2'
json '"trainer.strategy=zero1 (command line)" in d["fit"]["kept"] and "trainer.micro_batch_size=2" in d["fit"]["kept"]'
printf 'trainer: {recompute: blocks, accumulate_grad_batches: 4}\n' >some.yaml
fit 0 some.yaml --trainer.batch_size=32
json 'd["fit"]["keys"] == "--trainer.micro_batch_size=8 --trainer.recompute=blocks" and d["fit"]["chosen"]["trainer.strategy"] is None'
json '"some.yaml:1" in d["fit"]["kept"] and len(d["fit"]["candidates"]) == 1'
fit 0 --trainer.batch_size=32 --ranks=4 --nproc-per-node=2 --memory=4e9
json 'd["fit"]["available_bytes"] == 2000000000'
fit 0 --trainer.batch_size=32 --ranks=4 --trainer.deterministic=true
json 'd["fit"]["kept"] is None and d["micro_batch_size"] == 8'
# not with every number of ranks
fit 0 --trainer.batch_size=12 --ranks=5
json '[k["refused"][:23] for k in d["fit"]["candidates"] if "refused" in k] == ["trainer.strategy zero2 ", "trainer.strategy fsdp e"]'
fit 0 --trainer.batch_size=4 --device=h100-80g
json 'd["device"]["fits"] and 70e9 < d["fit"]["available_bytes"] < 80e9 and d["micro_batch_size"] == 4'

# over a network that is slow beside any computing the model is divided within the hosts, or within as few as fit
hosts=(--trainer.batch_size=32 --ranks=8 --nproc-per-node=2 --bandwidth=1e6 --trainer.strategy=fsdp --trainer.recompute=none)
fit 0 "${hosts[@]}" --memory=8e9
json 'd["fit"]["keys"] == "--trainer.strategy=fsdp --trainer.fsdp_size=2 --trainer.micro_batch_size=4 --trainer.recompute=none"'
json '[k["trainer.fsdp_size"] for k in d["fit"]["candidates"]] == [0, 2]' # 4 ranks send more
# shellcheck disable=SC2046
code 0 "$LEVIN" plan "${keys[@]}" "${hosts[@]}" --json $(python3 -c 'import json; print(json.load(open("out"))["fit"]["keys"])')
json 'abs(d["predicted"]["bytes_between"] / (2 * 3 / 4 * 4 * d["parameters"] / 2) - 1) < 0.01' # the sum of a shard over 4 groups
grouped=$(python3 -c 'import json; print(json.load(open("out"))["memory"]["process"])')
fit 0 "${hosts[@]}" --memory=$((2 * (grouped - (8 << 20)))) --trainer.micro_batch_size=4
json '[k["trainer.fsdp_size"] for k in d["fit"]["candidates"] if k["fits"]] == [0, 4] and "fsdp_size=4 " in d["fit"]["keys"]'
least=$(python3 -c 'import json; print(json.load(open("out"))["fit"]["candidates"][0]["needed_bytes"])')
fit 0 "${hosts[@]}" --memory=$((2 * (least + (near << 20)))) --trainer.micro_batch_size=4
json 'len(d["fit"]["candidates"]) == 1 and d["fit"]["chosen"]["trainer.fsdp_size"] == 0 and "fsdp_size" not in d["fit"]["keys"]'

# what a strategy contradicts is refused, and not in the line that is pasted
fit 0 --trainer.batch_size=32 --ranks=4 --trainer.fsdp_size=2
json '[k["trainer.strategy"] for k in d["fit"]["candidates"] if "refused" not in k][0] == "fsdp" == d["strategy"]'
json 'd["fit"]["kept"] == "trainer.fsdp_size=2 (command line)" and "--trainer.fsdp_size=2 " in d["fit"]["keys"]'

# nothing fits: the error says what would
code 1 "$LEVIN" plan "${keys[@]}" --trainer.batch_size=32 --ranks=2 --fit --memory=250e6
one_error
says "a rank may use 238 MiB of memory, and no settings fit; --trainer.strategy=fsdp --trainer.micro_batch_size=1" err
says "does not fit" out
ranks=$(sed -n 's/.*: start \([0-9]*\) ranks, each of which needs.*/\1/p' err)
code 0 "$LEVIN" plan "${keys[@]}" --trainer.batch_size=32 --ranks="$ranks" --fit --memory=250e6
fit 1 --trainer.batch_size=32 --ranks=2 --memory=1e6 --trainer.strategy=ddp
json '"more ranks alone do not help" in d["error"] and "kept as given: trainer.strategy=ddp (command line)" in d["error"]'
json 'd["fit"]["chosen"] is None and all(k["needed_bytes"] > 1e6 for k in d["fit"]["candidates"])'
if [ $near = 2 ]; then # twice the ranks need 20 MB less, 1.6 %, and that is enough
    shards=(--model.n_embd=1024 --trainer.batch_size=64 --trainer.strategy=zero1 --trainer.micro_batch_size=1 --trainer.recompute=blocks)
    fit 0 "${shards[@]}" --ranks=64 --memory=8e9
    least=$(python3 -c 'import json; print(json.load(open("out"))["fit"]["chosen"]["needed_bytes"])')
    fit 1 "${shards[@]}" --ranks=32 --memory=$((least + (10 << 20)))
    json '": start 64 ranks, each of which needs" in d["error"]'
fi
fit 1 --memory=1e6
json '"plan several ranks (--ranks)" in d["error"]'

# what contradicts it
refused() { # refused SENTENCE ARGUMENTS
    code 2 "$LEVIN" plan "${keys[@]}" --fit "${@:2}"
    one_error
    says "$1" err
}
refused "--schedule prints learning rates and plans no memory" --schedule --trainer.max_steps=2
refused "--measure runs one of them" --measure
refused "--device and --memory both set the memory" --device=h200 --memory=1e9
refused "trainer.accelerator trace has none" --trainer.accelerator=trace
refused "--device 'nothing' is not in the table" --device=nothing
refused "25 ranks cannot share the 24" --ranks=25 --trainer.batch_size=24

# large ones, searched in seconds and little memory
most=500
[ "$near" = 2 ] || most=4000
for size in 100b 175b; do
    code 0 python3 -c 'import resource, subprocess, sys
code = subprocess.run(sys.argv[2:], timeout=60).returncode
assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < int(sys.argv[1]) << 10
sys.exit(code)' $most "$LEVIN" plan "$LEVIN_SOURCE/recipes/transformer-$size.yaml" --ranks=1024 --fit --memory=1e12 --json \
        --trainer.micro_batch_size=0
    json 'd["fit"]["chosen"]["step_s"] <= 1.01 * min(k["step_s"] for k in d["fit"]["candidates"] if k["fits"])'
    json 'd["strategy"] != "ddp" and d["recompute"] == "blocks" and d["fits"] and d["memory"]["process"] > 4e11'
done
