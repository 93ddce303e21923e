# The split that levin evaluate scores: all of a file that is named on the command line, else the validation split, and
# never the training file unasked; data.split chooses; every answer names the split.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
# A training and a validation part of whole windows and one token more, so that parts and files give the same windows.
head -c 30082 text.txt >trained.txt # 27073 and 3009
head -c 2000 text.txt | tail -c 1003 >other.txt
code 0 train run --data.path=trained.txt --trainer.limit_val_batches=1.0
evaluate() { code 0 "$LEVIN" evaluate "$@" --json; }
scored() { # scored SPLIT TOKENS: of a text without windows that are left out
    json "d['split'] == '$1' and d['tokens'] == $2"
}
# loss KEY: of out, into a variable of that name
keep() { printf -v "$1" %s "$(value loss)"; }
near() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 1e-5 * abs(b), (a, b)' "$1" "$2"; }

# --- a text ---
evaluate run # the run's own text: its validation part
scored val 3008
keep val
near "$val" "$(python3 -c 'import json
print([r["val_loss"] for r in map(json.loads, open("run/metrics.jsonl")) if "val_loss" in r][-1])')"
evaluate run --data.path=trained.txt # named: all of it, also a last window that is not full
scored all 30081
keep all
evaluate run --data.path=trained.txt --data.split=all
near "$(value loss)" "$all"
evaluate run --data.path=trained.txt --data.split=val
scored val 3008
near "$(value loss)" "$val"
evaluate run --data.split=train
scored train 27072
# a split of a text has the loss of that part in a separate file
head -c 27073 trained.txt >first.txt
keep train
evaluate run --data.path=first.txt
near "$(value loss)" "$train"
tail -c 3009 trained.txt >last.txt
evaluate run --data.path=last.txt
scored all 3008
near "$(value loss)" "$val"
evaluate run --data.val_path=other.txt
scored val 992
evaluate run --data.path=other.txt
scored all 1002
keep other
evaluate run --data.path=trained.txt --data.val_path=other.txt
scored val 992
evaluate run --data.path=trained.txt --data.val_path=other.txt --data.split=all # both files, one after the other
scored all $((30081 + 1002))
python3 -c 'import json, sys
all, other = map(float, sys.argv[1:]); a, b = 30081, 1002; d = json.load(open("out"))
assert abs(d["loss"] - (a * all + b * other) / (a + b)) < 1e-5, d' "$all" "$other"
# the validation text of a run is not scored if another file is named
code 0 train two --data.path=trained.txt --data.val_path=other.txt
evaluate two
scored val 992
evaluate two --data.path=last.txt
scored all 3008
# a text shorter than a window is scored too
printf 'the rank' >short.txt
evaluate run --data.path=short.txt
scored all 7
# the same as text output
code 0 "$LEVIN" evaluate run --data.path=last.txt
says "all of 'last.txt'" out
code 0 "$LEVIN" evaluate run
says "val of 'trained.txt'" out
# logits, token losses and gradients are of the same windows
evaluate run --data.path=other.txt --token-losses --gradients=grads.safetensors --trainer.batch_size=5
json 'abs(sum(map(sum, d["token_losses"])) / d["tokens"] - d["loss"]) < 1e-5 and d["split"] == "all"'
evaluate run --data.path=trained.txt --data.val_path=other.txt --data.split=all --token-losses --trainer.batch_size=7
json 'len(d["token_losses"]) == 1881 + 63 and abs(sum(map(sum, d["token_losses"])) / d["tokens"] - d["loss"]) < 1e-5'

# --- token files ---
code 0 "$LEVIN" prepare trained.txt --out=tokens
tokens=(--data.kind=tokens --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.max_steps=4)
code 0 "$LEVIN" train --run_dir=ids --data.path=tokens "${tokens[@]}"
evaluate ids
scored val 3008
evaluate ids --data.path=tokens # a folder is no file
scored val 3008
evaluate ids --data.path=tokens/train.bin
scored all 27072
evaluate ids --data.split=train
scored train 27072
evaluate ids --data.split=all
scored all $((27072 + 3008))
code 2 "$LEVIN" evaluate ids --data.split=test
one_error
says "'tokens' has no test part" err
says "train, val" err
cp tokens/val.bin tokens/test.bin
cp tokens/val.bin.json tokens/test.bin.json
evaluate ids --data.split=test
scored test 3008
code 0 "$LEVIN" train --run_dir=ids --data.path=tokens "${tokens[@]}" --resume # training does not open it
printf '\1\0' >single.bin
code 1 "$LEVIN" evaluate ids --data.path=single.bin
says "a single token" err
# without val.bin nothing is scored in its place
mkdir alone && cp tokens/train.bin tokens/train.bin.json alone
code 0 "$LEVIN" train --run_dir=novalid --data.path=alone "${tokens[@]}"
code 2 "$LEVIN" evaluate novalid
one_error
says "'alone' has no validation part" err
says "--data.split=train" err
code 2 "$LEVIN" evaluate ids --data.path=alone
says "no validation part" err
evaluate novalid --data.split=train
scored train 27072
code 0 "$LEVIN" train --run_dir=onefile --data.path=alone/train.bin "${tokens[@]}"
code 2 "$LEVIN" evaluate onefile
says "'alone/train.bin' has no validation part" err

# --- separate samples ---
python3 - <<'PY'
with open("rows.tsv", "w") as f:
    print("text", "label", sep="\t", file=f)
    for i in range(200): print(f"row {i}", i % 2, sep="\t", file=f)
PY
code 0 "$LEVIN" train --run_dir=rows --model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 \
    --data.path=rows.tsv --data.val_fraction=0.2 --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" --trainer.max_steps=2
evaluate rows
json 'd["split"] == "val" and d["samples"] == 40'
evaluate rows --data.split=train
json 'd["split"] == "train" and d["samples"] == 160'
evaluate rows --data.split=all
json 'd["split"] == "all" and d["samples"] == 200'
code 2 "$LEVIN" evaluate rows --data.split=test
says "no test part" err

# --- other commands refuse data.split ---
code 2 "$LEVIN" generate run --data.split=train
says "--data.split has no effect on \`levin generate\`" err
for command in "train" "plan" "bench" "prepare trained.txt --out=none"; do
    code 2 "$LEVIN" $command --data.split=train
    one_error
    says "data.split" err
    says "levin evaluate" err
done
code 2 "$LEVIN" evaluate run --data.split=validation
says "auto, train, val, test" err

# --- validation on the training data is reported, whatever the name of the file ---
make_text
ln -sf text.txt again.txt
for val in text.txt ./text.txt again.txt; do
    code 0 "$LEVIN" train --data.path=text.txt --data.val_path=$val --model.n_layer=1 --model.n_head=2 --model.n_embd=16 \
        --model.block_size=16 --trainer.batch_size=4 --trainer.max_steps=1 --run_dir=both --overwrite
    says "data.val_path is the file of data.path ('text.txt'): the validation loss is one of data that are trained on" err
done
