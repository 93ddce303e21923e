# optimizer.kind: muon. It updates the matrices of blocks, and adamw all other parameters; bits on threads,
# ranks and after resuming; moments in checkpoints; every precision; adapters; what is refused.
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
muon=(--optimizer.kind=muon --optimizer.lr=3e-3)

# after one step only the matrices of blocks differ from adamw
for kind in adamw muon; do code 0 train $kind --optimizer.kind=$kind --trainer.max_steps=1 --model.n_layer=2; done
python3 - >names <<'P'
import json, struct
def read(run):
    data = open(f"{run}/checkpoints/last/model.safetensors", "rb").read()
    n = 8 + struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:n])
    return {k: data[n + v["data_offsets"][0]:n + v["data_offsets"][1]] for k, v in head.items() if k != "__metadata__"}
a, b = read("adamw"), read("muon")
maps = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
assert sum(k.endswith(".weight") and "c_" in k for k in a) == 8
for k in a:
    assert (a[k] != b[k]) == (k.endswith(".weight") and any(m in k for m in maps)), k
P

matrices() { # RUN EXPRESSION: true of `first` and `second`, the moments of each matrix in its checkpoint; None: absent
    python3 - "$1/checkpoints/last/state/optimizer.safetensors" "$2" <<'P' || fail "the moments of matrices in $1"
import json, struct, sys
data = open(sys.argv[1], "rb").read()
head = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
names = {k[8:] for k in head if k.startswith("exp_avg.")}
maps = {k for k in names if "c_" in k and k.endswith(".weight")}
assert len(maps) == 4 and all("exp_avg_sq." + k in head for k in names - maps)
for k in maps:
    first, second = head["exp_avg." + k], head.get("exp_avg_sq." + k)
    assert eval(sys.argv[2]), (k, first, second)
P
}

# it learns, in every precision; each resumes with the bits of a run that was not stopped
for keys in --trainer.precision=32-true "--optimizer.variant=nanochat --optimizer.adjust_lr_fn=original --optimizer.weight_decay=1 --schedule.kind=wsd --schedule.decay_steps=40" \
    "--optimizer.variant=nanochat --trainer.precision=bf16-true --schedule.kind=wsd --schedule.decay_steps=40" "--trainer.precision=bf16-mixed --optimizer.state=bf16" --trainer.precision=bf16-true; do
    rm -rf one two
    # shellcheck disable=SC2086
    { code 0 train one "${muon[@]}" $keys --trainer.max_steps=40 --json
      json 'd["val_loss"] < 3.4'
      code 0 train two "${muon[@]}" $keys --trainer.max_steps=16 --trainer.threads=1
      code 0 train two "${muon[@]}" $keys --trainer.max_steps=40 --trainer.threads=2 --resume; }
    same_run one two
    # matrices have one moment in checkpoints; of nanochat's a second one of rows or columns
    case $keys in
    *nanochat*) matrices one 'second["shape"] == [max(first["shape"])] and second["dtype"] == "F32"' ;;
    *) matrices one 'second is None' ;;
    esac
done

# ranks have the bits of one
same=("${muon[@]}" --trainer.deterministic=true --trainer.micro_batch_size=1 --optimizer.adjust_lr_fn=original)
code 0 train alone "${same[@]}"
arguments ranks "${same[@]}"
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
same_weights alone ranks

# adapters are matrices of blocks
code 0 train adapters "${muon[@]}" --lora.rank=2 --model.init=alone
# a separate rate for parameters that are not matrices
code 0 train groups "${muon[@]}" --optimizer.groups="[{match: 'wte, wpe', lr: 1e-4}]"

# strategies with shards are candidates, too
code 0 "$LEVIN" plan --data.path=text.txt --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.threads=1 \
    --checkpoint.every_n_steps=0 "${muon[@]}" --fit --ranks=2
check grep -qE "^ +fsdp .* s a step" out

# refused
refuse() { # SENTENCE OPTION...
    code 2 train no "${@:2}"
    says "$1" err
    one_error
    check test ! -e no
}
refuse "no such matrix of this model is trainable; choose another optimizer.kind" "${muon[@]}" --model.freeze='h.*'
refuse "optimizer.momentum must be between 0 and 0.9999999, got 1" "${muon[@]}" --optimizer.momentum=1
refuse "optimizer.adjust_lr_fn must be match_rms_adamw or original, got 'spectral'" "${muon[@]}" --optimizer.adjust_lr_fn=spectral
refuse "optimizer.variant nanochat has kernels for CPUs only, and trainer.accelerator is opencl" "${muon[@]}" \
    --optimizer.variant=nanochat --trainer.accelerator=opencl
for steps in 0 8; do
    refuse "give trainer.max_steps without trainer.max_epochs, or schedule.decay_steps" "${muon[@]}" --optimizer.variant=nanochat \
        --trainer.max_epochs=1 --trainer.max_steps=$steps
done
refuse "optimizer.variant nanochat has at most 5 iterations" "${muon[@]}" --optimizer.variant=nanochat --optimizer.ns_steps=6
refuse "optimizer.variant (nanochat) is a key of optimizer.kind=muon, and optimizer.kind is adamw" --optimizer.variant=nanochat
refuse "optimizer.ns_steps (3) is a key of optimizer.kind=muon, and optimizer.kind is adamw" --optimizer.ns_steps=3
