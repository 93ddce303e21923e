# nanochat's own checkpoints, model_*.pt with meta_*.json: written, found in a folder, read, refused; its one dial.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
keys=(--model.kind=nanochat --model.n_layer=3 --model.n_head=2 --model.n_embd=32 --model.vocab_size=128 --model.block_size=32)
code 0 train run "${keys[@]}" --trainer.max_steps=4
code 0 "$LEVIN" evaluate run/checkpoints/last --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=4 --json
loss=$(value loss)

# --- written ---
code 2 "$LEVIN" export run run.pt
says "'run.pt': checkpoints of nanochat have the name model_*.pt, where * is the number of the step; take one" err
code 2 "$LEVIN" export run model_000004.pt --vocab-size=129
says "tables of nanochat have a multiple of 64 rows, and the vocabulary has 129; write a larger one with --vocab-size=192" err
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

# --- one dial ---
code 0 "$LEVIN" plan "${keys[@]:0:1}" --model.depth=12 --model.vocab_size=64 --trainer.batch_size=1 --json
json 'd["n_layer"] == 12 and d["n_embd"] == 768 and d["n_head"] == 6'
code 2 "$LEVIN" plan --model.kind=nanochat --model.depth=12 --model.n_layer=3 --model.vocab_size=64
says "which are two names of one setting: give one of them" err
