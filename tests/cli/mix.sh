# data.mix: rows of several sources in exact proportions; the same bits on 1 and 3 ranks, resumed and killed; packed rows,
# texts, conversations, folders of shards; what is reported, and what is refused.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2
python3 - <<'P'
import os
text = open(os.environ["LEVIN_SOURCE"] + "/docs/data.md").read().encode("ascii", "ignore")
for k, first in (("a", 0), ("b", 9000)):
    os.mkdir("texts-" + k)
    for i in range(30):
        open(f"texts-{k}/{i}.txt", "wb").write(text[first + 100 * i:][:231 * (i + 1)])
P
code 0 "$LEVIN" prepare texts-a --tokenizer="$gpt2" --val-fraction=0.05 --out=a
code 0 "$LEVIN" prepare texts-b --tokenizer="$gpt2" --val-fraction=0.05 --out=b --shard-size=2000
says "b/train-00000.bin" out
short=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=32 --trainer.batch_size=6 --trainer.threads=1
    --trainer.max_steps=8 --trainer.val_check_interval=4 --checkpoint.every_n_steps=4 --trainer.deterministic=true
    --trainer.micro_batch_size=2)
mix="[{path: a, weight: 0.7}, {path: b, weight: 0.3}]"
run() { # run RUN [keys]
    local run=$1
    shift
    code 0 "$LEVIN" train --run_dir="$run" "${short[@]}" --data.mix="$mix" "$@"
}
run one
says "data.mix: 'a' 70 %, 'b' 30 %" err
says "data.mix supplied 'a' 34 rows (" err # 0.7 of 48 is 33.6
says "'b' 14 rows (" err
says "'data.mix' is read as data.kind=tokens" err
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=ranks "${short[@]}" --data.mix="$mix"
same_run one ranks
code 0 "$LEVIN" train --run_dir=parts "${short[@]/max_steps=8/max_steps=4}" --data.mix="$mix"
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=parts "${short[@]}" --data.mix="$mix" --resume
same_run one parts
endless=("${short[@]/every_n_steps=4/every_n_steps=1}")
killed_often 4 killed "$LEVIN" train --run_dir=killed "${endless[@]/max_steps=8/max_steps=1000000}" --data.mix="$mix" --resume
code 0 "$LEVIN" train --run_dir=killed "${endless[@]/max_steps=8/max_steps=$end}" --data.mix="$mix" --resume
code 0 "$LEVIN" train --run_dir=undisturbed "${short[@]/max_steps=8/max_steps=$end}" --data.mix="$mix"
same_weights undisturbed killed
# a mix of one source equals this source
mix="[{path: a, weight: 5}]" run alone --trainer.val_check_interval=0
code 0 "$LEVIN" train --run_dir=path "${short[@]/val_check_interval=4/val_check_interval=0}" --data.path=a
same_weights alone path
# the validation loss is the mean over the windows of both
code 0 "$LEVIN" evaluate one --json
mv out of_mix
for k in a b; do
    code 0 "$LEVIN" evaluate one --data.path=$k --data.split=val --json
    mv out of_$k
done
python3 -c 'import json
m, a, b = (json.load(open("of_" + n)) for n in ("mix", "a", "b"))
assert m["tokens"] == a["tokens"] + b["tokens"], (m, a, b)
assert abs(m["loss"] * m["tokens"] - a["loss"] * a["tokens"] - b["loss"] * b["tokens"]) < 1e-4 * m["tokens"], (m, a, b)'
# from a recipe, which a path on the command line replaces, and in Python lists of maps are the same
cat >recipe.yaml <<'P'
data:
  mix:
    - {path: a, weight: 0.7}
    - {path: b, weight: 0.3}
P
code 0 "$LEVIN" train recipe.yaml --run_dir=by-recipe "${short[@]}"
same_run one by-recipe
code 0 "$LEVIN" train recipe.yaml --run_dir=by-path "${short[@]/val_check_interval=4/val_check_interval=0}" --data.path=a
same_weights by-path path
# a run elsewhere finds its sources in data.folder
(mkdir elsewhere && cd elsewhere && code 0 "$LEVIN" train ../one --resume --trainer.max_steps=9)

# --- packed rows ---
run packed --data.pack=true
says "data.mix supplied 'a' 34 rows (" err
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=packed-3 "${short[@]}" --data.mix="$mix" --data.pack=true
same_run packed packed-3

# --- texts and conversations ---
mix="[{path: texts-a, weight: 2}, {path: texts-b, weight: 1}]"
run texts --data.tokenizer="$gpt2"
says "'data.mix' is read as data.kind=documents" err
says "data.mix supplied 'texts-a' 32 rows (" err
python3 - <<'P'
import json
for name, n, word in (("x", 40, "red"), ("y", 30, "blue")):
    with open(name + ".jsonl", "w") as f:
        for i in range(n):
            f.write(json.dumps({"messages": [{"role": "user", "content": "say " + "a " * (i % 7)}, {"role": "assistant", "content": word * (1 + i % 5)}]}) + "\n")
P
mix="[{path: x.jsonl, weight: 1}, {path: y.jsonl, weight: 1}]"
for pack in false true; do
    run chat-$pack --data.kind=chat --data.template=chatml --data.tokenizer="$gpt2" --data.pack=$pack --model.block_size=64
    code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=chat-$pack-3 "${short[@]/block_size=32/block_size=64}" \
        --data.mix="$mix" --data.kind=chat --data.template=chatml --data.tokenizer="$gpt2" --data.pack=$pack
    same_run chat-$pack chat-$pack-3
done

# --- refused ---
refuses() { # refuses CODE SENTENCE MIX [keys]
    local wanted=$1 sentence=$2 mix=$3
    shift 3
    code "$wanted" "$LEVIN" train --run_dir=none "${short[@]}" --data.mix="$mix" "$@"
    says "$sentence" err
    one_error
    [ ! -e none ] || fail "a run folder was left"
}
refuses 2 "entry 2: weight must be a positive number" "[{path: a, weight: 1}, {path: b, weight: 0}]"
refuses 2 "got '-2'" "[{path: a, weight: -2}]"
refuses 2 "got '.nan'" "[{path: a, weight: .nan}]"
refuses 1 "'nowhere'" "[{path: a, weight: 1}, {path: nowhere, weight: 1}]"
refuses 2 "'a' is read as data.kind=tokens, and 'texts-a' as documents" "[{path: a, weight: 1}, {path: texts-a, weight: 1}]"
refuses 2 "data.mix names the sources, and data.path is 'a'" "[{path: a, weight: 1}]" --data.path=a
refuses 2 "data.stream" "[{path: a, weight: 1}]" --data.stream=true
refuses 2 "needs one tokenizer for all sources" "[{path: texts-a, weight: 1}, {path: texts-b, weight: 1}]"
# a file is a text of documents, beside a folder of texts
cat texts-a/* >a.txt
refuses 2 "needs one tokenizer for all sources" "[{path: a.txt, weight: 1}, {path: texts-b, weight: 1}]"
refuses 2 "needs one tokenizer for all sources" "[{path: texts-b, weight: 1}, {path: a.txt, weight: 1}]"
cp -r a other
sed -i 's/"xxh64": *"[0-9a-f]*"/"xxh64": "0123456789abcdef"/' other/train.bin.json other/val.bin.json
sed -i 's/"vocab_size": *[0-9]*/"vocab_size": 999/' other/train.bin.json other/val.bin.json
rm -f other/tokenizer* other/vocab* other/merges*
refuses 2 "different vocabularies" "[{path: a, weight: 1}, {path: other, weight: 1}]"
code 2 "$LEVIN" train one --resume --trainer.max_steps=12 --data.mix="[{path: a, weight: 0.6}, {path: b, weight: 0.4}]"
one_error
says "data.mix" err
code 2 "$LEVIN" prepare recipe.yaml --out=p
one_error
