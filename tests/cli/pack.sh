# data.pack: documents of token files in rows, what is reported of them, what a resumed run may change, and what is refused.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
# Documents of 2 to 60 tokens, and every 40th of 100; 255 ends each. FILE LAST: the id after the last document too, or not.
documents() {
    python3 - "$1" "$2" <<'P'
import array, sys
ids, x = array.array("H"), 7
for i in range(500):
    x = x * 16807 % 2147483647
    n = 100 if i % 40 == 0 else 2 + x % 59
    for k in range(n - 1):
        x = x * 16807 % 2147483647
        ids.append(x % 17 + (3 * (ids[-1] % 20) if k else 40))
    ids.append(255)
if sys.argv[2] == "without":
    ids.pop()
ids.tofile(open(sys.argv[1], "wb"))
P
}
documents train.bin with
echo '{"dtype": "uint16", "vocab_size": 256, "end_token": 255}' >train.bin.json
documents val.bin without
cp train.bin.json val.bin.json
tokens=(--data.path=train.bin --data.val_path=val.bin --data.pack --model.block_size=64)

# --- reported: rows, padding, what was cut; rates count tokens without padding ---
code 0 train one "${tokens[@]}"
says "data.pack: 500 documents of 'train.bin' in " err
says "13 documents longer than a row are split into parts (data.overlong)" err
says "sequences of 64 tokens (" err
says "tokens without padding)" err
code 0 "$LEVIN" plan "${all[@]:2}" --json
json '0.97 * 4 * 64 < d["tokens_per_step"] < 4 * 64 and d["steps_per_epoch"] > 50'
code 0 train cut "${tokens[@]}" --data.overlong=truncate
says "13 documents longer than a row are truncated (data.overlong); 468 tokens lost" err
code 0 train dropped "${tokens[@]}" --data.overlong=drop
says "13 documents longer than a row are left out (data.overlong); 1,300 tokens lost" err
# a token file without its .json, and the same token given
cp train.bin bare.bin
code 0 train bare --data.path=bare.bin --data.val_path=val.bin --data.pack --model.block_size=64 --data.end_token=255 \
    --model.vocab_size=256
same_weights one bare

# --- evaluation: all documents once, and evenly spaced batches of rows ---
code 0 "$LEVIN" evaluate one --json --trainer.batch_size=3
mv out of_3
code 0 "$LEVIN" evaluate one --json --trainer.batch_size=7
python3 - <<'P'
import json
a, b = json.load(open("of_3")), json.load(open("out"))
assert a["tokens"] == b["tokens"] and abs(a["loss"] - b["loss"]) < 1e-5, (a, b)
P
code 0 "$LEVIN" evaluate one --json --trainer.limit_test_batches=3

# --- resuming: the same bits, and no other packing ---
code 0 train two "${tokens[@]}" --trainer.max_steps=4
code 0 train two "${tokens[@]}" --resume
same_run one two
for key in pack=false overlong=drop end_token=3; do
    code 2 "$LEVIN" train two --resume --trainer.max_steps=12 --data.$key
    one_error
    says "data.${key%%=*}" err
done

# --- levin prepare records the end token ---
mkdir texts
for i in $(seq 40); do head -c $((i * 97)) "$LEVIN_SOURCE/README.md" >texts/$i.txt; done
code 0 "$LEVIN" tokenizer train --kind=bpe --input=texts --out=tokenizer --vocab-size=300
code 0 "$LEVIN" prepare texts --tokenizer=tokenizer --out=prepared
check [ "$(grep -c '"end_token"' prepared/train.bin.json)" = 1 ]
code 0 train prepared-run --data.path=prepared --data.pack --model.block_size=64
says "data.pack: " err

# --- refused, in one sentence, before anything is trained ---
refused() { # CODE SENTENCE [keys]
    local wanted=$1 sentence=$2
    shift 2
    rm -rf refused
    code "$wanted" train refused "$@"
    one_error
    says "$sentence" err
    check [ ! -e refused/checkpoints ]
}
make_text
refused 2 "data.kind=chars has none" --data.path=text.txt --data.pack=true
refused 2 "has 100 tokens, and a row of model.block_size has 64" "${tokens[@]}" --data.overlong=refuse
refused 1 "the end token 254 never occurs in 'train.bin'" "${tokens[@]}" --data.end_token=254
refused 2 "no sidecar of 'bare.bin' contains one" --data.path=bare.bin --data.pack --model.block_size=64
refused 2 "the model 'bert' with task.kind=" "${tokens[@]}" --model.kind=bert
refused 2 "task.kind=mlm masks tokens" "${tokens[@]}" --model.kind=bert --task.kind=mlm
refused 2 "data.overlong (split) has no effect while data.pack is false" --data.path=train.bin --data.overlong=split
refused 2 "data.end_token (9) has no effect while data.pack is false" --data.path=train.bin --data.end_token=9
printf '\377\000\377\000\377\000' >single.bin
cp train.bin.json single.bin.json
refused 1 "each is a single token" --data.path=single.bin --data.pack --model.block_size=2

# --- labelled: rows longer than data.max_length ---
{
    printf 'text\tlabel\n'
    for i in $(seq 30); do printf 'a few words\tno\nmany more words than a sample may have in this test of data.overlong\tyes\n'; done
} >rows.tsv
labelled=(--data.kind=labelled --data.path=rows.tsv --data.tokenizer=tokenizer --data.max_length=16 --model.kind=gpt2
    --model.block_size=32 --trainer.max_steps=2 --task.kind=classify)
code 0 train cut-rows "${labelled[@]}"
says "30 of 60 rows are longer than 16 tokens and were truncated" err
code 1 train no-rows "${labelled[@]}" --data.overlong=refuse
one_error
says "rows.tsv:3: the text has" err
refused 2 "data.overlong=split is for documents without labels" "${labelled[@]}" --data.overlong=split
{ cat rows.tsv; for i in $(seq 9); do printf 'other words\tyes\n'; done; } >more.tsv
code 0 train dropped-rows "${labelled[@]/rows.tsv/more.tsv}" --data.overlong=drop
says "30 rows are longer than 16 tokens (data.max_length, else the model's context length) and were dropped" err
