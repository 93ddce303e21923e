# optimizer.groups: learning rates and weight decays by name; invalid groups are refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
small=(train text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.max_steps=20
    --trainer.batch_size=8 --optimizer.lr=1e-3 --trainer.deterministic=true --trainer.micro_batch_size=2)

groups="[{match: h.0, lr: 0}, {match: 'wpe, ln_f', lr: 1e-2, weight_decay: 0}]"
same() { same_file "$1/checkpoints/last/model.safetensors" "$2/checkpoints/last/model.safetensors"; }

# A rate of 0 leaves a block unchanged; other groups have their own rates.
code 0 "$LEVIN" "${small[@]}" --run_dir=first --trainer.max_steps=10 --optimizer.groups="$groups"
code 0 "$LEVIN" "${small[@]}" --run_dir=still --optimizer.groups="$groups"
python3 - first still >names <<'P'
import json, struct, sys
def read(run):
    data = open(f"{run}/checkpoints/last/model.safetensors", "rb").read()
    n = 8 + struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:n])
    return {k: data[n + v["data_offsets"][0]:n + v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}
a, b = map(read, sys.argv[1:])
print("\n".join(k for k in a if a[k] != b[k]))
P
says h.1.attn names
says wpe names
lacks h.0. names

# the same groups from a recipe are the same text in settings.yaml, and the same weights
cat >groups.yaml <<'EOF'
optimizer:
  groups:
    - match: h.0
      lr: 0
    - {match: [wpe, ln_f], lr: 1e-2, weight_decay: 0}
EOF
code 0 "$LEVIN" train groups.yaml "${small[@]:2}" --data.path=text.txt --run_dir=again
for run in still again; do
    says 'groups: [{match: h.0, lr: 0}, {match: "wpe, ln_f", lr: 1e-2, weight_decay: 0}]' $run/settings.yaml
done
same still again

# groups with the optimizer's own values change no bit
code 0 "$LEVIN" "${small[@]}" --run_dir=plain
code 0 "$LEVIN" "${small[@]}" --run_dir=equal --optimizer.groups="[{match: 'h.*', lr: 1e-3}]"
same plain equal

# betas equal to the optimizer's change nothing; other betas change only the matching parameters; kind: adamw excludes matrices
# from Muon
code 0 "$LEVIN" "${small[@]}" --run_dir=same --optimizer.groups="[{match: 'h.0', betas: [0.9, 0.95]}]"
same plain same
for run in "betas [{match: h.0, betas: [0.5, 0.6]}]" "none []"; do
    code 0 "$LEVIN" "${small[@]}" --run_dir=${run%% *} --trainer.max_steps=1 --optimizer.groups="${run#* }"
done
code 0 "$LEVIN" "${small[@]}" --run_dir=all --trainer.max_steps=1 --optimizer.betas=0.5,0.6
for run in "mixed [{match: h.0.attn, kind: adamw, betas: [0.5, 0.6]}, {match: 'h.1.*.c_*.weight', kind: muon}]" "muon []"; do
    code 0 "$LEVIN" "${small[@]}" --run_dir=${run%% *} --trainer.max_steps=1 --optimizer.kind=muon --optimizer.groups="${run#* }"
done
python3 - <<'P'
import json, struct
def moments(run):
    data = open(f"{run}/checkpoints/last/state/optimizer.safetensors", "rb").read()
    n = 8 + struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:n])
    return {k: data[n + v["data_offsets"][0]:n + v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}
betas, everywhere, none, mixed, muon = map(moments, ("betas", "all", "none", "mixed", "muon"))
for name in none:
    assert betas[name] == (everywhere if ".h.0." in name else none)[name], name
    assert everywhere[name] != none[name], name
used = lambda found: {k for k, v in found.items() if any(v)}
more = used(mixed) - used(muon)
assert used(muon) <= used(mixed) and len(more) == 2 and all("h.0.attn.c_" in k for k in more), more
P

# ranks and shards have the bits of one rank; a resumed run has those of one that was not stopped
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${small[@]}" --run_dir=ranks --trainer.strategy=zero1 \
    --optimizer.groups="$groups"
same still ranks
code 0 "$LEVIN" train groups.yaml "${small[@]:2}" --data.path=text.txt --run_dir=stopped --trainer.max_steps=9
code 0 "$LEVIN" "${small[@]}" --run_dir=stopped --resume --optimizer.groups="$groups"
same still stopped

# another kind of a parameter has other moments
for way in "mixed []" "muon [{match: h.0.attn, kind: adamw}]"; do
    code 1 "$LEVIN" train "${way%% *}" --resume --trainer.max_steps=20 --optimizer.groups="${way#* }"
    says "it belongs to another optimizer or model; restore optimizer.groups (whose groups may have another kind) and model.init" err
done

# refused
refuse() { # SENTENCE GROUPS [OPTION...]
    code 2 "$LEVIN" "${small[@]}" --run_dir=no --optimizer.groups="$2" "${@:3}"
    says "$1" err
    check test ! -e no
}
refuse "'h.7' matches no parameter" "[{match: h.7, lr: 0}]"
refuse "did you mean 'wte'" "[{match: wtf, lr: 0}]"
refuse "entries 1 and 2 both match" "[{match: h.0, lr: 0}, {match: 'h.*.mlp', lr: 1}]"
refuse "matches only parameters that are not trained" "[{match: h.0, lr: 1}]" --model.freeze=h.0
refuse "betas must be two numbers from 0 to below 1, as [0.8, 0.95], got '0.8'" "[{match: h.0, betas: 0.8}]"
refuse "betas must be two numbers from 0 to below 1, as [0.8, 0.95], got '0.8, 1'" "[{match: h.0, betas: [0.8, 1]}]"
refuse "kind is 'sgd', and with optimizer.kind adamw it may be adamw alone" "[{match: h.0, kind: sgd}]"
refuse "kind is 'lion', and with optimizer.kind muon it may be muon or adamw" "[{match: h.0, kind: lion}]" --optimizer.kind=muon
refuse "and 'transformer.wte.weight' is none: leave it out" "[{match: wte, kind: muon}]" --optimizer.kind=muon
refuse "whose decay rate is optimizer.momentum: leave betas out, or give kind" "[{match: h.0, betas: [0.8, 0.9]}]" --optimizer.kind=muon
refuse "which follows the schedule in proportion to optimizer.lr, but optimizer.lr is 0" "[{match: h.0, lr: 1}]" --optimizer.lr=0
