# nanochat's own checkpoints, model_*.pt with meta_*.json: written, found in a folder, read, refused; its single setting (depth).
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
keys=(--model.kind=nanochat --model.n_layer=3 --model.n_head=2 --model.n_embd=32 --model.vocab_size=128 --model.block_size=32)
code 0 train run "${keys[@]}" --trainer.max_steps=4
code 0 "$LEVIN" evaluate run/checkpoints/last --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=4 --json
loss=$(value loss)
code 0 "$LEVIN" generate run --prompt=a --max-new-tokens=20 --temperature=0 # its caches have as many rows as a chunk of the prompt

# --- written ---
code 2 "$LEVIN" export run run.pt
says "'run.pt': checkpoints of nanochat must be named model_*.pt (* is the step number)" err
code 2 "$LEVIN" export run model_000004.pt --vocab-size=129
says "nanochat needs a vocabulary size that is a multiple of 64, and this one is 129; add --vocab-size=192" err
mkdir own
for step in 000002 000004; do code 0 "$LEVIN" export run own/model_$step.pt; done
says "nanochat reads it, and the JSON file next to it" out
tr -d '\n' <own/meta_000004.json >out && echo >>out
json 'd["step"] == 4 and d["model_config"] == {"n_layer": 3, "n_head": 2, "n_kv_head": 2, "n_embd": 32,
    "sequence_len": 32, "vocab_size": 128, "window_pattern": "SSSL"}'
code 2 "$LEVIN" export run own/model_000004.pt
says "exists already" err

# --- found and read: the last step that has its metadata ---
cp run/checkpoints/last/tokenizer*.json own
: >own/model_000009.pt
code 0 "$LEVIN" evaluate own --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=4 --json
check [ "$(value loss)" = "$loss" ]
code 0 "$LEVIN" evaluate own/model_000002.pt --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=4 --json
check [ "$(value loss)" = "$loss" ]
code 0 "$LEVIN" train --run_dir=tuned --model.init=own --data.path=text.txt --trainer.max_steps=2 --trainer.limit_val_batches=2 --quiet
# an older file has no windows
sed -i '/n_kv_head/d; s/"vocab_size": 128,/"vocab_size": 128/; /window_pattern/d' own/meta_000004.json
code 0 "$LEVIN" export own whole
check grep -q '"window_pattern": "L"' whole/config.json

# --- refused ---
sed -i 's/"n_layer": 3/"n_layer": 4/' own/meta_000004.json
code 1 "$LEVIN" export own never
one_error
says "does not match" err
sed -i 's/model_config/model/' own/meta_000004.json
code 1 "$LEVIN" export own never
says "own/meta_000004.json: there is no object 'model_config', which says how large the model is" err

# --- its single setting, model.depth ---
code 0 "$LEVIN" plan "${keys[@]:0:1}" --model.depth=12 --model.vocab_size=64 --trainer.batch_size=1 --json
json 'd["n_layer"] == 12 and d["n_embd"] == 768 and d["n_head"] == 6'
code 2 "$LEVIN" plan --model.kind=nanochat --model.depth=12 --model.n_layer=3 --model.vocab_size=64
says "which are two names of one setting: give one of them" err
# what follows from it, as scripts/base_train.py of nanochat computes it
dial() { # dial EXPRESSION KEYS...: of d, the values of all keys
    code 0 "$LEVIN" plan --model.kind=nanochat --show-settings --json "${@:2}"
    python3 - "$1" <<'P'
import json, math, sys
d = {key: at["value"] for key, at in json.load(open("out"))["settings"].items()}
def near(key, value): return math.isclose(float(d[key]), value, rel_tol=1e-7)
assert eval(sys.argv[1]), (sys.argv[1], {k: d[k] for k in d if k.split(".")[0] in ("optimizer", "schedule", "trainer")})
P
}
dial 'd["trainer.max_steps"] == 528 and d["trainer.batch_size"] * d["model.block_size"] == 262144 and near("optimizer.lr", 0.02 * 0.5**0.5) \
    and near("optimizer.weight_decay", 1.8899031293917847) and "lr: 0.36742346" in d["optimizer.groups"] and d["optimizer.kind"] == "muon" and d["optimizer.variant"] == "nanochat" \
    and d["schedule.warmup_steps"] == 39 and d["trainer.gradient_clip_val"] == 0' --model.depth=4 --model.vocab_size=32768
dial 'd["trainer.max_steps"] == 4980 and d["trainer.batch_size"] == 512 and near("optimizer.weight_decay", 0.1001877764255601) \
    and "lr: 0.0087635609" in d["optimizer.groups"]' --model.depth=20 # without data: nanochat's vocabulary
dial 'd["trainer.max_steps"] == 33408 and near("optimizer.lr", 0.001767766952966369) and near("optimizer.weight_decay", 0.18774820132164527)' \
    --model.depth=6 --model.vocab_size=2048 --trainer.batch_size=2
dial 'd["optimizer.kind"] == "muon" and d["optimizer.variant"] == "torch"' --model.depth=4 --trainer.accelerator=opencl
# a given key replaces only itself; another optimizer has none of these keys, another schedule none of those of wsd
dial 'd["optimizer.kind"] == "muon" and d["trainer.max_steps"] == 7 and d["schedule.kind"] == "wsd" and d["trainer.batch_size"] == 128 \
    and near("optimizer.lr", 1e-3) and near("schedule.min_lr", 5e-5) and "wte" in d["optimizer.groups"] and near("optimizer.momentum", 0.97)' \
    --model.depth=4 --optimizer.lr=1e-3 --trainer.max_steps=7
dial 'near("optimizer.momentum", 0.9) and not d["optimizer.groups"] and near("optimizer.lr", 0.02 * 0.5**0.5)' \
    --model.depth=4 --model.vocab_size=32768 --optimizer.momentum=0.9 --optimizer.groups='[]'
dial 'd["optimizer.kind"] == "muon" and d["schedule.kind"] == "cosine" and near("schedule.min_lr", 5e-5) and d["schedule.warmup_steps"] == 3' \
    --model.depth=4 --schedule.kind=cosine --optimizer.lr=1e-3 --schedule.warmup_steps=3
dial 'd["schedule.kind"] == "constant" and float(d["schedule.min_lr"]) == 0' --model.depth=4 --schedule.kind=constant
dial 'd["optimizer.kind"] == "adamw" and near("optimizer.lr", 3e-4) and near("schedule.min_lr", 1.5e-5) and not d["optimizer.groups"] and d["schedule.kind"] == "wsd"' \
    --model.depth=4 --optimizer.kind=adamw
dial 'd["optimizer.kind"] == "adamw" and d["trainer.batch_size"] == 12 and d["model.block_size"] == 128' --model.n_layer=4
code 0 "$LEVIN" train text.txt --model.kind=nanochat --model.depth=2 --show-settings # and no choice for the size of the text
silent_about "from the size of the text" out
code 0 train dialed --model.kind=nanochat --model.depth=1 --model.n_head=2 --model.n_embd=32 --model.vocab_size=128 --model.block_size=32 --trainer.max_steps=4
says "from model.depth: optimizer.kind=muon, optimizer.lr=" err
check grep -q 'warmup_steps: 1$' dialed/settings.yaml
code 0 "$LEVIN" train dialed --resume --trainer.max_steps=5
silent_about "from model.depth" err

# the update's arithmetic counts once in a step, however many micro-batches there are
for micro in 1 4; do
    code 0 "$LEVIN" plan --model.kind=nanochat --model.depth=2 --model.vocab_size=64 --model.block_size=32 --trainer.batch_size=4 \
        --trainer.micro_batch_size=$micro --trainer.recompute=none --json
    value flops_per_step >flops-$micro
done
same_file flops-1 flops-4
