# levin train --show-batch: the rows that the first step trains on, with the tokens that have labels, for every kind of data;
# nothing is trained or written.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
small=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=24 --trainer.batch_size=3)
shows() { # shows [keys]: levin train --show-batch in out, its JSON in rows; no run
    code 0 "$LEVIN" train --show-batch "$@" --json
    mv out rows
    code 0 "$LEVIN" train --show-batch "$@"
    check [ ! -e runs ]
}
rows() { # rows EXPRESSION: holds for the list d
    python3 -c 'import json,sys
d=json.load(open("rows"))["rows"]; assert eval(sys.argv[1]), (sys.argv[1], d)' "$1"
}

shows text.txt "${small[@]}"
says "the first 3 of 3 rows of the first batch" out
rows 'len(d) == 3 and all(r["labels"][:-1] == r["ids"][1:] for r in d)'

# conversations: tokens without a label are marked; control characters are escaped
printf '{"messages": [{"role": "user", "content": "a\\u001b[31m"}, {"role": "assistant", "content": "yes"}]}\n' >chat.jsonl
cat chat.jsonl chat.jsonl >chats.jsonl
chat=(chats.jsonl --data.template=llama3 --data.tokenizer=t --data.val_fraction=0 "${small[@]}")
shows "${chat[@]/--model.block_size=24/--model.block_size=96}"
says '\x1b[31m' out
grep -q -- '-]yes' out || fail "the answer is not shown as learned"
rows 'all(sum(l >= 0 for l in r["labels"]) > 1 and -1 in r["labels"] for r in d)'
shows "${chat[@]/--model.block_size=24/--model.block_size=200}" --data.pack
says "documents begin at 0, " out

# texts with labels, masked language modeling, images
{ printf 'text\tlabel\n'; for i in $(seq 9); do printf 'good %d\tyes\nbad %d\tno\n' $i $i; done; } >rows.tsv
shows rows.tsv --data.tokenizer=t "${small[@]}"
says "label: " out
says " (yes)" out
python3 - <<'P'
import json
t = json.load(open("t/tokenizer.json"))
n = max(max(t["model"]["vocab"].values()), max(a["id"] for a in t["added_tokens"])) + 1
t["added_tokens"] += [dict(t["added_tokens"][0], id=n + i, content=c) for i, c in enumerate(["[MASK]", "[PAD]", "[CLS]", "[SEP]"])]
json.dump(t, open("t/tokenizer.json", "w"))
P
"$LEVIN" train --show-batch --data.path=text.txt --data.kind=documents --data.tokenizer=t --model.kind=bert --task.kind=mlm \
    "${small[@]}" >out 2>err || fail "$(cat err)"
says "[MASK]" out
serve_digits 60 20
shows --data.kind=mnist --data.path=digits --data.url=$url --data.sha256=$sums --trainer.batch_size=2
says "pixels: " out
check python3 - <<'P'
import gzip, json
images = gzip.open("www/train-images-idx3-ubyte.gz").read()
rows = [r["pixels"] for r in json.load(open("rows"))["rows"]]
assert len(rows) == 2 and all(bytes(r) in images for r in rows), rows
shown = [line.split()[1:9] for line in open("out") if "pixels:" in line]
assert shown == [[str(x) for x in r[:8]] for r in rows], shown
P

code 2 "$LEVIN" train text.txt --show-batch --overwrite
says "so --overwrite has no effect" err
code 2 "$LEVIN" train no-such-file.txt --show-batch
one_error
