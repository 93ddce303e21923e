# Training that starts from trained weights: validation before the first step, whose loss is reported with the best one,
# and weights are kept when numbers are no longer finite.
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
code 0 train base --trainer.max_steps=120 --optimizer.lr=1e-2 --trainer.val_check_interval=40 --trainer.limit_val_batches=20
line() { head -n 1 out >line; } # the summary at the end of the run

# --- before the first step ---
scratch=("${tiny[@]}")
tiny=(--model.init=base --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=20 --trainer.val_check_interval=4
    --checkpoint.every_n_steps=4)
tune() { code 0 train "$@"; } # tune RUN [keys]
tune good --optimizer.lr=1e-4 --trainer.max_steps=8 --json
json 'd["start_val_loss"] is not None and d["best_val_loss"] < d["start_val_loss"]'
start=$(value start_val_loss)
says "before the first step: validation loss" err
python3 - "$start" <<'P'
import json, sys
rows = [json.loads(line) for line in open("good/metrics.jsonl")]
assert set(rows[0]) == {"step", "val_loss", "val_perplexity", "val_bpb"} and rows[0]["step"] == 0 and abs(rows[0]["val_loss"] - float(sys.argv[1])) < 1e-6, rows[0]
assert [r["step"] for r in rows if "val_loss" in r] == [0, 4, 8]
assert open("good/metrics.csv").read().split("\n")[1].startswith("0,,,,,")
P
# it equals the result of evaluate on the model
code 0 "$LEVIN" evaluate base --data.path=text.txt --trainer.batch_size=4 --json
near() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 0.3, (a, b)' "$@"; } # on 20 batches of all
near "$start" "$(value loss)"
# a resumed run does not repeat it, and still reports it
tune good --optimizer.lr=1e-4 --trainer.max_steps=12 --resume --json
python3 -c 'import json; d = json.load(open("out")); assert abs(d["start_val_loss"] - '"$start"') < 1e-9, d'
check [ "$(grep -c '"step": 0' good/metrics.jsonl)" = 1 ]
silent_about "before the first step:" err

# --- a training that makes the model worse ---
tune harmed --optimizer.lr=0.3 --trainer.max_steps=12
says ", worse than " err
line
says " before the first step)" line
tune harmed --optimizer.lr=0.3 --trainer.max_steps=16 --resume # it is still reported after resuming
line
says " before the first step)" line
# it continues with the model of its checkpoint, not with another one that has the same name now
code 0 "$LEVIN" export base changed
tune other --optimizer.lr=1e-4 --trainer.max_steps=4 --model.init=changed
sed -i 's/"num_attention_heads": 2/"num_attention_heads": 4/; s/"n_head": 2/"n_head": 4/' changed/config.json
code 2 train other --optimizer.lr=1e-4 --trainer.max_steps=8 --model.init=changed --resume
says "has n_head 4 now, and the run's checkpoint has 2; restore the original model" err
rm -r changed
code 2 "$LEVIN" train other --resume --trainer.max_steps=8
says "or name the run itself, whose checkpoints have all weights" err
code 0 "$LEVIN" train other --resume --trainer.max_steps=8 --model.init=other
# a new model has no such validation
tiny=("${scratch[@]}")
tune scratch --trainer.max_steps=40 --optimizer.lr=1e-2 --json
json 'd["start_val_loss"] is None'

# --- numbers that are no longer finite: the last good step is saved ---
tiny=(--model.init=base --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=20 --trainer.val_check_interval=4
    --checkpoint.every_n_steps=4)
code 1 train wild --optimizer.kind=sgd --optimizer.lr=1e5 --trainer.gradient_clip_val=0 --checkpoint.every_n_steps=0 \
    --trainer.limit_val_batches=0 --trainer.max_steps=500
one_error
says "the first value that is not finite is in '" err
at=$(readlink wild/checkpoints/last)
says "the weights of step ${at#step-} are saved" err
check [ "$(grep -c '"loss"' wild/metrics.jsonl)" = "${at#step-}" ]
code 0 "$LEVIN" export wild whole # every number of it is finite

# --- samples of repeated steps are written again ---
sampled=(--sample.every_n_steps=2 --sample.max_new_tokens=10)
tune twice "${sampled[@]}" --trainer.max_steps=8
tune once "${sampled[@]}" --trainer.max_steps=12
rm -r twice/checkpoints/step-8
tune twice "${sampled[@]}" --trainer.max_steps=12 --resume
same_file once/samples.txt twice/samples.txt
check [ "$(grep -c '^--- step ' once/samples.txt)" = 6 ]

# --- frozen parameters keep their bits ---
same_parts() { # same_parts CHECKPOINT CHECKPOINT PATTERN: of the tensors, exactly those whose name fits are equal
    python3 - "$@" <<'P' || fail "$1 and $2: other tensors than $3 are equal"
import json, re, struct, sys
def tensors(path):
    with open(path + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {k: data[slice(*v["data_offsets"])] for k, v in header.items() if k != "__metadata__"}
a, b = map(tensors, sys.argv[1:3])
bad = [k for k in a if (a[k] == b[k]) != bool(re.search(sys.argv[3], k))]
assert a.keys() == b.keys() and not bad, bad
P
}
tensors_of() { # tensors_of FILE: their names
    python3 -c 'import json,struct,sys
f = open(sys.argv[1], "rb"); print(*sorted(json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))), sep="\n")' "$1"
}
cat >frozen.yaml <<'Y'
model: {init: base, freeze: [wte, "h.*.mlp"]}
Y
arguments frozen --optimizer.lr=1e-2 --trainer.max_steps=8
for i in "${!all[@]}"; do [ "${all[i]}" != --model.init=base ] || unset "all[i]"; done
code 0 "$LEVIN" train frozen.yaml "${all[@]:1}"
says " of them trained)" err
same_parts base/checkpoints/best frozen/checkpoints/last 'wte|mlp|[.]bias' # biases are zeros that this model lacks
tensors_of frozen/checkpoints/last/state/optimizer.safetensors >names
lacks mlp names
lacks wte names
says exp_avg_sq.transformer.wpe.weight names
# a resumed run needs the same ones, and has the same bits
code 0 train again --optimizer.lr=1e-2 --model.freeze="wte,h.*.mlp" --trainer.max_steps=4
code 2 train again --optimizer.lr=1e-2 --model.freeze=wte --trainer.max_steps=8 --resume
one_error
says "model.freeze is wte here but was wte, h.*.mlp in the run" err
code 0 train again --optimizer.lr=1e-2 --model.freeze="wte,h.*.mlp" --trainer.max_steps=8 --resume
same_weights frozen again
code 2 train nothing --model.freeze=wte,c_atn --trainer.max_steps=1
one_error
says "model.freeze: 'c_atn' matches no parameter; parameters have names such as transformer.wte.weight; did you mean 'c_attn'?" err
code 2 train nothing --model.freeze="*" --trainer.max_steps=1
says "so none is left to train" err

# --- adapters ---
lora=(--lora.rank=4 --lora.targets=c_attn,c_fc --optimizer.lr=1e-2)
code 0 train adapted "${lora[@]}" --trainer.max_steps=8 --trainer.limit_val_batches=1.0 --json
json 'd["val_loss"] < d["start_val_loss"]'
cp out result
code 0 "$LEVIN" export adapted merged
same_parts base/checkpoints/best merged '^(?!.*(c_attn|c_fc).weight)'
tensors_of adapted/checkpoints/last/state/optimizer.safetensors >names
check [ "$(grep -c exp_avg.transformer names)" = 4 ] # A and B of two maps
says exp_avg.transformer.h.0.mlp.c_fc.lora_A.weight names
# a checkpoint is a model like any other: evaluate, export and generate need no option for adapters
code 0 "$LEVIN" evaluate adapted/checkpoints/last --json
python3 -c 'import json; a, b = json.load(open("result"))["val_loss"], json.load(open("out"))["loss"]; assert abs(a - b) < 2e-5, (a, b)'
tensors_of merged/model.safetensors >names
lacks lora names
code 0 "$LEVIN" generate adapted --prompt "int " --max-new-tokens 5
# resuming is exact, too
code 0 train parts "${lora[@]}" --trainer.max_steps=4 --trainer.limit_val_batches=1.0
code 0 train parts "${lora[@]}" --trainer.max_steps=8 --trainer.limit_val_batches=1.0 --resume
same_weights adapted parts
code 2 train parts "${lora[@]/rank=4/rank=2}" --trainer.max_steps=9 --resume
says "lora.rank is 2 here but was 4" err
# and the result can be tuned further
code 0 train further --model.init=adapted --trainer.max_steps=2
# a list as in the documentation: each name counts, and must name something
code 0 train listed --lora.rank=2 --lora.targets="[attn.c_attn, attn.c_proj, 'mlp.c_fc', mlp.c_proj]" --trainer.max_steps=1
for map in attn.c_attn attn.c_proj mlp.c_fc mlp.c_proj; do
    check grep -qa "h.0.$map.lora_A" listed/checkpoints/last/adapter/adapter_model.safetensors
done
code 2 train wrong --lora.rank=4 --lora.targets="[c_attn, c_atn]" --trainer.max_steps=2
says "lora.targets: 'c_atn' names no linear layer" err
code 2 train wrong --lora.rank=4 --lora.targets=wte --trainer.max_steps=2
says "lora.targets: 'wte' names no linear layer" err
code 2 "$LEVIN" train --run_dir=wrong --lora.rank=4 --data.path=text.txt
one_error
says "lora.rank 4 adapts a model that is trained already: say which, with model.init" err
check [ ! -e wrong ]
