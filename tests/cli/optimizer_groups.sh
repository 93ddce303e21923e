# optimizer.groups: rates and decays of their own, by name; what cannot be meant is refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
small=(train text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.max_steps=20
    --trainer.batch_size=8 --optimizer.lr=1e-3 --trainer.deterministic=true --trainer.micro_batch_size=2)

groups="[{match: h.0, lr: 0}, {match: 'wpe, ln_f', lr: 1e-2, weight_decay: 0}]"
same() { same_file "$1/checkpoints/last/model.safetensors" "$2/checkpoints/last/model.safetensors"; }

# A rate of 0 leaves a block as it was; others have rates of their own.
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
silent_about h.0. names

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

# groups that say what the optimizer says change no bit
code 0 "$LEVIN" "${small[@]}" --run_dir=plain
code 0 "$LEVIN" "${small[@]}" --run_dir=equal --optimizer.groups="[{match: 'h.*', lr: 1e-3}]"
same plain equal

# ranks and shards have the bits of one rank; a run that goes on has those of one that was not stopped
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${small[@]}" --run_dir=ranks --trainer.strategy=zero1 \
    --optimizer.groups="$groups"
same still ranks
code 0 "$LEVIN" train groups.yaml "${small[@]:2}" --data.path=text.txt --run_dir=stopped --trainer.max_steps=9
code 0 "$LEVIN" "${small[@]}" --run_dir=stopped --resume --optimizer.groups="$groups"
same still stopped

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
refuse "which follows the schedule in proportion to optimizer.lr, but optimizer.lr is 0" "[{match: h.0, lr: 1}]" --optimizer.lr=0
