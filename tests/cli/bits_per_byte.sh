# Bits per byte: the loss of a text in bits, divided by its bytes; special tokens count in neither. The same with any number of ranks, in
# validations and of levin evaluate. Not reported without a tokenizer, and for masked language modeling.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text

# characters of one byte: the loss in bits
code 0 train chars
python3 - <<'P'
import csv, math
rows = [r for r in csv.DictReader(open("chars/metrics.csv")) if r["val_loss"]]
assert rows and all(abs(float(r["val_bpb"]) - float(r["val_loss"]) / math.log(2)) < 1e-6 for r in rows), rows
P

# documents: each ends with a special token
python3 - <<'P'
import json
lines = open("text.txt").read().split("\n")
with open("documents.jsonl", "w") as f:
    for i in range(0, 3000, 6):
        f.write(json.dumps({"text": "\n".join(lines[i:i + 5]) + " naïve 東京 \U0001f600"}) + "\n")
P
code 0 "$LEVIN" tokenizer train --input=documents.jsonl --vocab-size=400 --out=bpe
code 0 "$LEVIN" prepare text --input=documents.jsonl --tokenizer=bpe --out=tokens
parts=(--data.path=tokens/train.bin --data.val_path=tokens/val.bin --trainer.micro_batch_size=1 --trainer.deterministic=true)
code 0 train one "${parts[@]}"
says "bpb" err
code 0 "$LEVIN" evaluate one --json --token-losses
mv out evaluated
code 0 "$LEVIN" evaluate one
says "bpb" out
python3 - <<'P'
import array, csv, json, math
vocabulary = json.load(open("bpe/tokenizer.json"))
special = {t["id"] for t in vocabulary["added_tokens"] if t["special"]}
size = {id: len(text) for text, id in vocabulary["model"]["vocab"].items()} # a character of the file is a byte of the text
d = json.load(open("evaluated"))
tokens = array.array("H", open("tokens/val.bin", "rb").read())
T = len(d["token_losses"][0])
loss = n = count = 0
for i, window in enumerate(d["token_losses"]):
    for x, label in zip(window, tokens[i * T + 1:]):
        count += 1
        if label in special: continue
        loss, n = loss + x, n + size[label]
assert count == d["tokens"] and special and len(special & set(tokens)) == 1
assert abs(d["bpb"] - loss / math.log(2) / n) < 1e-6, (d["bpb"], loss / math.log(2) / n)
assert abs(d["bpb"] * n * math.log(2) - d["loss"] * count) > 1 # the losses of special tokens
P

# three ranks
arguments three "${parts[@]}"
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
same_metrics one three
same_weights one three
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- evaluate one --json
python3 - <<'P'
import json
one, three = json.load(open("evaluated")), json.loads(open("out").read())
assert one["bpb"] == three["bpb"] and one["loss"] == three["loss"], (one["bpb"], three["bpb"])
P
code 0 train monitored "${parts[@]}" --checkpoint.monitor=val_bpb --early_stopping.monitor=val_bpb --early_stopping.patience=100
code 0 "$LEVIN" report one --out=page.html
check grep -q val_bpb page.html

# no tokenizer: not reported, and no monitor
mkdir ids
cp tokens/train.bin tokens/val.bin ids
code 0 train plain --data.path=ids/train.bin --data.val_path=ids/val.bin --model.vocab_size=400
silent_about bpb err
lacks bpb plain/metrics.csv
code 2 train refused --data.path=ids/train.bin --data.val_path=ids/val.bin --model.vocab_size=400 --checkpoint.monitor=val_bpb
says "checkpoint.monitor is val_bpb, which this run does not compute" err
