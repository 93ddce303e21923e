# Recomputing activations changes memory and no bit: whole runs with dropout, frozen parts, adapters, bf16; what the plan reports;
# and auto, which chooses blocks if a step fits into memory only with them.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
sizes=(--model.n_layer=4 --model.n_head=2 --model.n_embd=24 --model.block_size=24 --model.dropout=0.1 --data.path=text.txt
    --trainer.batch_size=6 --trainer.micro_batch_size=3 --trainer.max_steps=4 --trainer.val_check_interval=4
    --trainer.limit_val_batches=2 --optimizer.lr=1e-2)
compare() { # compare NAME [keys]: none against blocks
    local name=$1 how
    shift
    for how in none blocks; do code 0 train $name-$how "${sizes[@]}" "$@" --trainer.recompute=$how; done
    same_run $name-none $name-blocks
}
compare plain --model.kind=mingpt
compare half --trainer.precision=bf16-mixed --optimizer.state=bf16
compare true --trainer.precision=bf16-true
compare order --trainer.deterministic=true
compare frozen --model.freeze='[wte, wpe, h.0, h.2]'
compare lora --model.init=plain-none --lora.rank=4 --lora.targets='[c_attn, mlp.c_fc]'
# a run may resume with another setting
code 0 train plain-way --model.kind=mingpt "${sizes[@]/max_steps=4/max_steps=2}" --trainer.recompute=none
code 0 train plain-way --model.kind=mingpt "${sizes[@]}" --trainer.recompute=blocks --resume
same_weights plain-none plain-way
code 2 "$LEVIN" train --run_dir=wrong "${sizes[@]}" --trainer.recompute=block
one_error
says "trainer.recompute" err
says "blocks" err

# --- the plan ---
plan() { code 0 "$LEVIN" plan --program --json --model.n_layer=24 --model.n_head=2 --model.n_embd=64 --model.block_size=64 "$@"; }
plan --trainer.micro_batch_size=8 --trainer.batch_size=8 --trainer.recompute=none
none=$(python3 -c 'import json; m = json.load(open("out"))["memory"]; print(m["activations"], m["arena"])')
plan --trainer.micro_batch_size=8 --trainer.batch_size=8 --trainer.recompute=blocks
python3 - $none <<'P'
import json, sys
d = json.load(open("out")); m = d["memory"]; kept, arena = map(int, sys.argv[1:])
row = 8 * 64 * 4 # bytes of one number a token
inputs = 23 * row * (64 + 2) # of blocks 1 to 23, with mean and factor of their layer norms
last = kept // 24
assert d["recompute"] == "blocks" and {"forward", "again", "restore", "backward"} <= {i["phase"] for i in d["program"]}
assert inputs < m["activations"] < inputs + 1.5 * last, (m, inputs, last)
assert m["arena"] < arena / 3, (m, arena)
P
# auto: a batch that fits into the memory only with blocks, as the only allowed micro-batch
plan --memory=4e9 --trainer.micro_batch_size=64 --trainer.batch_size=64 --trainer.recompute=cheap
batch=$(python3 -c 'import json; m = json.load(open("out"))["memory"]; print(int(2.0 * m["available"] / m["arena"] * 64))')
plan --memory=4e9 --trainer.micro_batch_size=$batch --trainer.batch_size=$batch --trainer.recompute=auto
json 'd["recompute"] == "blocks" and d["memory"]["total"] < d["memory"]["available"]'
plan --trainer.micro_batch_size=8 --trainer.batch_size=8 --trainer.recompute=auto
json 'd["recompute"] == "none"'
# a frozen model has no backward pass in its blocks: planning ends, and no advice recomputes them
code 0 "$LEVIN" plan --json --data.kind=tokens --data.path=none --model.kind=llama --model.n_layer=4 --model.n_head=4 --model.n_embd=256 \
    --model.block_size=4096 --model.vocab_size=65 --trainer.batch_size=4 --model.freeze=model --memory=30e6
json 'not d["fits"] and d["recompute"] == "none" and not any("recompute" in a["settings"] for a in d["advice"])'
code 0 train head --model.kind=llama "${sizes[@]/*dropout*/--trainer.seed=1}" --model.freeze=model --trainer.recompute=blocks
says "has no blocks to recompute, so trainer.recompute=blocks has no effect" err
