# Texts with numbers: trained on, scored, predicted, in every family with such a head; config.json of Hugging Face; refusals.
. "$LEVIN_SOURCE/tests/cli/common.bash"
vocab=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
# The number of a text is how often "good" is in it, less how often "bad" is; test.tsv also has one text of each length.
python3 - <<'PY'
import json, random
r = random.Random(1)
words = "the a of to and in was it for on with as be at by I this had not are but from or have an they which one you".split()
rows = []
for i in range(300):
    text = [r.choice(words) for _ in range(r.randrange(3, 20))] + r.choices(("good", "bad", "the"), k=3)
    r.shuffle(text)
    rows.append((" ".join(text), text.count("good") - text.count("bad") + r.randrange(-4, 5) / 16))
for name, part in ("train", rows[:250]), ("test", rows[250:]):
    with open(name + ".tsv", "w") as f, open(name + ".jsonl", "w") as g:
        f.write("text\tlabel\n")
        for text, number in part:
            f.write(f"{text}\t{number}\n")
            g.write(json.dumps({"sentence": text, "label": number}) + "\n")
PY
sizes=(--model.n_layer=1 --model.n_head=2 --model.n_embd=32 --model.block_size=24 --data.tokenizer="$vocab" --task.kind=regress
    --trainer.batch_size=16 --trainer.threads=1 --optimizer.lr=3e-3 --quiet)
train() { code 0 "$LEVIN" train "${sizes[@]}" --data.path=train.tsv --data.val_path=test.tsv "$@"; }
train --model.kind=bert --trainer.max_epochs=12 --run_dir=bert --checkpoint.monitor=val_pearson
python3 - <<'PY'
import json
val = [d for d in map(json.loads, open("bert/metrics.jsonl")) if "val_loss" in d]
assert all(d["val_mse"] == d["val_loss"] for d in val)
assert val[-1]["val_pearson"] > 0.8 and val[-1]["val_r2"] > 0.5 and val[-1]["val_mae"] < val[0]["val_mae"], val[-1]
PY
# the metrics equal those computed from the predictions by the formulas in double
score() { code 0 "$LEVIN" evaluate "$1" --data.kind=labelled --data.path="$2" --json --logits "${@:3}"; }
agrees() { # agrees FILE.tsv: with the predictions in out
    python3 - "$1" <<'PY'
import json, math, statistics, sys
d = json.load(open("out"))
t = [float(l.rsplit("\t", 1)[1]) for l in open(sys.argv[1]).read().splitlines()[1:]]
p = [x[0] for x in d["outputs"]]
n, mt, mp = len(t), statistics.fmean(t), statistics.fmean(p)
assert n == len(p) == d["samples"]
rest, spread = sum((a - b) ** 2 for a, b in zip(p, t)), sum((b - mt) ** 2 for b in t)
joint, of_p = sum((a - mp) * (b - mt) for a, b in zip(p, t)), sum((a - mp) ** 2 for a in p)
want = {"loss": rest / n, "mse": rest / n, "mae": sum(abs(a - b) for a, b in zip(p, t)) / n, "r2": 1 - rest / spread,
        "pearson": joint / math.sqrt(of_p * spread)}
for k, x in want.items():
    assert abs(d[k] - x) <= 2e-6 * max(1, abs(x)), (k, d[k], x)
PY
}
score bert test.tsv
agrees test.tsv
cp out tsv.json
score bert test.jsonl
same_file out tsv.json
# r2, mae and pearson of the same predictions do not depend on the batches, whether there is one text or many
score bert test.tsv --trainer.batch_size=7
python3 - <<'PY'
import json
a, b = json.load(open("tsv.json")), json.load(open("out"))
if a["outputs"] == b["outputs"]:
    assert all(a[k] == b[k] for k in ("mae", "r2", "pearson")), (a, b)
PY
agrees test.tsv
sed -n 1,2p test.tsv >one.tsv
score bert one.tsv
json 'd["samples"] == 1 and d["r2"] is None and d["pearson"] is None and abs(d["mae"] ** 2 - d["mse"]) < 1e-5'
# labels or predictions that are all equal have no r2 and no pearson, wherever metrics are shown or compared
awk 'BEGIN { print "text\tlabel"; for (i = 0; i < 367; i++) print "the " i "\t0.1" }' >equal.tsv
score bert equal.tsv
json 'd["samples"] == 367 and d["r2"] is None and d["pearson"] is None and d["mse"] > 0'
code 0 "$LEVIN" evaluate bert --data.kind=labelled --data.path=equal.tsv
check [ "$(grep -cxE '(r2|pearson) -' out)" = 2 ]
awk 'BEGIN { print "text\tlabel"; for (i = 0; i < 9; i++) print "the film\t" i }' >one_text.tsv
score bert one_text.tsv --trainer.batch_size=1
json 'd["r2"] is not None and d["pearson"] is None'
code 0 "$LEVIN" train "${sizes[@]:0:${#sizes[@]}-1}" --model.kind=bert --data.path=train.tsv --data.val_path=equal.tsv --run_dir=equal \
    --trainer.max_steps=6 --trainer.val_check_interval=2 --checkpoint.monitor=val_r2 --early_stopping.monitor=val_pearson --early_stopping.patience=2
says "r2 -, pearson -" err
silent_about "the best so far" err
lacks " nan" err
says '"val_r2": null, "val_pearson": null' equal/metrics.jsonl
lacks nan equal/metrics.csv
check [ ! -e equal/checkpoints/best ]
says "early stopping: val_pearson had no value in 2 checks" err
# a spread far below the mean is still measured
python3 -c 'import random; r = random.Random(2); print("text\tlabel"); [print(f"good {i}\t{1000000 + r.randrange(-64, 65) / 16}") for i in range(300)]' >large.tsv
score bert large.tsv
python3 - <<'PY'
import json, math
from fractions import Fraction as F
d = json.load(open("out"))
t = [F(l.split("\t")[1]) for l in open("large.tsv").read().splitlines()[1:]]
p = [F(x[0]) for x in d["outputs"]]
n = len(t)
mt, mp = sum(t) / n, sum(p) / n
spread, of_p = sum((x - mt) ** 2 for x in t), sum((x - mp) ** 2 for x in p)
r2 = 1 - sum((a - b) ** 2 for a, b in zip(p, t)) / spread
pearson = float(sum((a - mp) * (b - mt) for a, b in zip(p, t))) / math.sqrt(spread * of_p)
assert abs(d["r2"] / float(r2) - 1) < 2e-6 and abs(d["pearson"] - pearson) < 2e-6, (d["r2"], float(r2), d["pearson"], pearson)
PY
# numbers of new texts
texts() { cut -f1 test.tsv | tail -n +2; }
texts | code 0 "$LEVIN" predict bert --input=- --json
python3 - <<'PY'
import json
d, e = json.load(open("out")), json.load(open("tsv.json"))
assert [p["number"] for p in d["predictions"]] == [x[0] for x in e["outputs"]] and set(d["predictions"][0]) == {"number", "line"}
PY
code 0 "$LEVIN" predict bert --text="good good the film" --text="bad bad the film"
awk -F'\t' 'NF != 2 { exit 1 } { x[NR] = $1 } END { exit !(x[1] > 0 && x[2] < 0) }' out || fail "$(cat out)"
printf 'text\na\tb\nthe film\n' >rows.tsv
code 0 "$LEVIN" predict bert --input=rows.tsv --data.skip_bad_rows=true
check [ "$(cut -f1 out | head -1)" = - ]
code 0 "$LEVIN" report bert --out=report.html
says pearson report.html

# Hugging Face's config.json, out and in; without problem_type a single label is a regression there
python3 - <<'PY'
import json
c = json.load(open("bert/checkpoints/last/config.json"))
assert c["architectures"] == ["BertForSequenceClassification"] and c["problem_type"] == "regression", c
assert c["id2label"] == {"0": "LABEL_0"}, c
PY
cp -rL bert/checkpoints/last model
rm -rf model/state
score model test.tsv --data.tokenizer="$vocab"
same=(--trainer.batch_size=16 --trainer.threads=1) # the rounding of matrix multiplications depends on their number of rows
score bert/checkpoints/last test.tsv "${same[@]}"
cp out last.json
problem() { # problem MODEL [TYPE]: the problem_type of its config.json, or none
    python3 - "$@" <<'PY'
import json, sys
path = sys.argv[1] + "/config.json"
c = json.load(open(path))
c.pop("problem_type", None)
c |= {"problem_type": x for x in sys.argv[2:]}
json.dump(c, open(path, "w"))
PY
}
problem model
score model test.tsv --data.tokenizer="$vocab" "${same[@]}"
python3 -c 'import json; a, b = (json.load(open(x)) for x in ("out", "last.json")); assert a["outputs"] == b["outputs"]'
for type in single_label_classification multi_label_classification; do
    cp -r model other
    problem other $type
    code 1 "$LEVIN" evaluate other --data.kind=labelled --data.path=test.tsv --task.kind=regress --data.tokenizer="$vocab"
    one_error
    says "task.kind=regress is one number for each sample" err
    rm -r other
done

# every family with the head
for kind in $(decoders | grep -v '^nanogpt$\|^mingpt$'); do
    train --model.kind=$kind --trainer.max_steps=4 --run_dir=$kind
    says '"val_pearson"' $kind/metrics.jsonl
    says '"problem_type": "regression"' $kind/checkpoints/last/config.json
    says 'ForSequenceClassification"' $kind/checkpoints/last/config.json
    score $kind test.tsv
    agrees test.tsv
done
# adapters beside one of them, whose head they train and hold
code 0 "$LEVIN" train --model.init=llama --lora.rank=2 --data.path=train.tsv --task.kind=regress --trainer.max_steps=2 \
    --trainer.batch_size=16 --run_dir=lora --quiet
score lora test.tsv
agrees test.tsv

# 1, 2 and 3 ranks: the same bits and metrics; a stopped run is resumed
fixed=(--model.kind=bert --trainer.deterministic=true --trainer.batch_size=12 --trainer.micro_batch_size=1 --trainer.max_steps=6
    --trainer.val_check_interval=2)
train "${fixed[@]}" --run_dir=ranks-1
for n in 2 3; do
    code 0 "$LEVIN" launch --launcher=levin -n $n -- train "${sizes[@]}" --data.path=train.tsv --data.val_path=test.tsv \
        "${fixed[@]}" --run_dir=ranks-$n
    same_run ranks-1 ranks-$n
done
score bert test.tsv
for n in 1 2 3; do
    code 0 "$LEVIN" launch --launcher=levin -n $n -- evaluate bert --data.kind=labelled --data.path=test.tsv --json \
        --trainer.batch_size=6
    sed 's/^\[0\] //' out >ranks.$n
    same_file ranks.1 ranks.$n
done
train "${fixed[@]}" --run_dir=part --trainer.max_steps=3
code 0 "$LEVIN" train --resume part --trainer.max_steps=6 --quiet
same_weights ranks-1 part

# labels that are not numbers: the error names file, row, what was found and what was expected
while IFS='|' read -r label found; do
    printf 'text\tlabel\nthe film\t1.5\nthe end\t%s\n' "$label" >bad.tsv
    code 1 "$LEVIN" train "${sizes[@]}" --model.kind=bert --data.path=bad.tsv --run_dir=no
    one_error
    says "bad.tsv:3: the label is '$found'; expected a finite number, as 0.5 or -2e3; correct it" err
done <<'LABELS'
nan|nan
-inf|-inf
1e39|1e39
good|good
0x10|0x10
1,5|1,5
|
LABELS
printf '{"text": "the film", "label": 1.5}\n{"text": "the end", "label": null}\n' >bad.jsonl
code 1 "$LEVIN" train "${sizes[@]}" --model.kind=bert --data.path=bad.jsonl --run_dir=no
says "bad.jsonl:2: 'label' is null; correct it" err
printf '{"text": "the film", "label": 1.5}\n{"text": "the end", "label": true}\n' >bad.jsonl
code 1 "$LEVIN" train "${sizes[@]}" --model.kind=bert --data.path=bad.jsonl --run_dir=no
says "bad.jsonl:2: 'label' is neither text nor a number; correct it" err
printf 'text\nthe film\n' >bad.tsv
code 1 "$LEVIN" train "${sizes[@]}" --model.kind=bert --data.kind=labelled --data.path=bad.tsv --run_dir=no
says "'bad.tsv' has no column 'label'" err
printf 'text\tlabel\nthe film\t1.5\nthe end\t?\nthe end\t0.5\n' >bad.tsv
code 0 "$LEVIN" evaluate bert --data.kind=labelled --data.path=bad.tsv --data.skip_bad_rows=true --json
json 'd["samples"] == 2 and d["skipped"] == 1'
# heads of another kind
code 1 "$LEVIN" evaluate bert --data.kind=labelled --data.path=test.tsv --task.kind=classify
one_error
says "gives numbers" err
code 2 "$LEVIN" train --model.kind=mnist-mlp --task.kind=regress --data.kind=mnist --run_dir=no
one_error
says "task.kind is 'regress'" err
printf 'text\tlabel\nthe film\t1\nthe end\t0\n' >classes.tsv
code 1 "$LEVIN" train --model.init=bert --data.path=classes.tsv --task.kind=classify --run_dir=no --quiet
says "set task.fresh_head=true" err
code 0 "$LEVIN" train --model.init=bert --data.path=classes.tsv --task.kind=classify --task.fresh_head=true --run_dir=yes --quiet \
    --trainer.max_steps=1 --trainer.batch_size=2
says '"problem_type": "single_label_classification"' yes/checkpoints/last/config.json
code 1 "$LEVIN" generate bert --prompt=the
one_error
