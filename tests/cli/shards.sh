# Token files in shards: levin prepare --shard-size, which is killed and run again; folders of shards of levin, llm.c and
# modded-nanogpt train with the bits of one file, on 1 and 3 ranks, killed and resumed; missing, cut and foreign shards.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2
python3 - <<'P'
import os
text = open(os.environ["LEVIN_SOURCE"] + "/docs/data.md").read().encode("ascii", "ignore")
os.mkdir("texts")
for i in range(60): open(f"texts/{i}.txt", "wb").write(text[300 * i:][:131 * (i + 1)])
P
prepare() { "$LEVIN" prepare text --input=texts --tokenizer="$gpt2" --val-fraction=0.05 "$@"; }
joined() { # joined FOLDER PART: its shards are the file of that part, and nothing else is in the folder
    cat "$1/$2"-*.bin >joined
    same_file joined one/$2.bin
    check [ ! -e "$1/$2.bin" ]
    check [ -z "$(find "$1" -name '*.part' -o -name '*.state.json')" ]
}

# --- levin prepare ---
code 0 prepare --out=one
code 0 prepare --out=many --shard-size=8000
says "many/train-00000.bin ... train-000" out
n=$(ls many/train-*.bin | wc -l)
check [ "$n" -gt 5 ]
joined many train
same_file many/val.bin one/val.bin # fewer tokens than a shard
check [ "$(stat -c %s many/train-00000.bin many/train-00001.bin | sort -u)" = 16000 ]
python3 - "$n" <<'P'
import json, sys
one, many = json.load(open("one/train.bin.json")), json.load(open("many/train.bin.json"))
assert many.pop("shards") == int(sys.argv[1]) and many.pop("shard_tokens") == 8000, many
assert one == many, (one, many)
P
code 2 prepare --out=many --shard-size=4000
one_error
says "exists already: replace it with --overwrite" err
code 0 prepare --out=many --shard-size=2500 --overwrite
joined many train
joined many val
code 0 prepare --out=many --overwrite
check [ -z "$(ls many | grep -- '-0')" ]
same_file many/train.bin one/train.bin
code 0 prepare --out=many --shard-size=8000 --overwrite
joined many train
# a single text, with and without a tokenizer
cp texts/59.txt single.txt
code 0 "$LEVIN" prepare single.txt --tokenizer="$gpt2" --out=single
code 0 "$LEVIN" prepare single.txt --tokenizer="$gpt2" --out=single-many --shard-size=700
cat single-many/train-*.bin >joined
same_file joined single/train.bin
code 0 "$LEVIN" prepare single.txt --out=characters
code 0 "$LEVIN" prepare single.txt --out=characters-many --shard-size=1000
cat characters-many/train-*.bin >joined
same_file joined characters/train.bin
says "characters-many/train-00000.bin ... train-000" out
for size in 0.5 5X 1B -3 MiB; do
    code 2 "$LEVIN" prepare single.txt --out=many-more --shard-size=$size
    says "--shard-size must be a number of tokens, as 100000000 or 100M, or a size, as 64MB or 64MiB, got '$size'" err
done
for size in 1k 2kB; do
    code 0 "$LEVIN" prepare single.txt --out=sized --shard-size=$size --overwrite
    check diff -r characters-many sized
done
code 0 "$LEVIN" prepare single.txt --tokenizer="$gpt2" --out=sized-tokens --shard-size=1KiB
check [ "$(stat -c %s sized-tokens/train-00000.bin)" = 1024 ]
code 2 "$LEVIN" prepare many --out=again
one_error
# killed while it reads, writes or divides shards, and run again
sharded=(prepare text --input=texts --tokenizer="$gpt2" --val-fraction=0.05 --shard-size=2500 --save-every=0)
timed "$LEVIN" "${sharded[@]}" --out=undisturbed
kills=0
for i in $(seq 6); do
    rm -rf killed
    killed_midway "$LEVIN" "${sharded[@]}" --out=killed
    if [ -e killed/prepare.state.json ] || [ ! -e killed/train.bin.json ]; then code 0 prepare --out=killed --shard-size=2500; fi
    joined killed train
    joined killed val
done
check [ $kills -gt 0 ]

# --- training: the bits of one file ---
short=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=32 --trainer.batch_size=6 --trainer.threads=1
    --trainer.max_steps=8 --trainer.val_check_interval=4 --trainer.limit_val_batches=2 --checkpoint.every_n_steps=4
    --trainer.deterministic=true --trainer.micro_batch_size=2)
run() { # run RUN DATA [keys]
    local run=$1 data=$2
    shift 2
    code 0 "$LEVIN" train --run_dir="$run" --data.path="$data" "${short[@]}" "$@"
}
run run-one one
run run-many many
same_run run-one run-many
says "many" run-many/settings.yaml
run packed-one one --data.pack=true
run packed-many many --data.pack=true
same_run packed-one packed-many
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=run-3 --data.path=many "${short[@]}"
same_run run-one run-3
code 0 "$LEVIN" train --run_dir=run-parts --data.path=many "${short[@]/max_steps=8/max_steps=4}"
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=run-parts --data.path=many "${short[@]}" --resume
same_run run-one run-parts
code 0 "$LEVIN" evaluate run-many --json
mv out of_many
code 0 "$LEVIN" evaluate run-one --json
python3 -c 'import json
a, b = json.load(open("out")), json.load(open("of_many"))
assert a["loss"] == b["loss"] and a["tokens"] == b["tokens"], (a, b)'
# killed at random moments
endless=("${short[@]/every_n_steps=4/every_n_steps=1}")
killed_often 4 run-killed "$LEVIN" train --run_dir=run-killed --data.path=many "${endless[@]/max_steps=8/max_steps=1000000}" --resume
code 0 "$LEVIN" train --run_dir=run-killed --data.path=many "${endless[@]/max_steps=8/max_steps=$end}" --resume
code 0 "$LEVIN" train --run_dir=run-undisturbed --data.path=one "${short[@]/max_steps=8/max_steps=$end}"
same_weights run-undisturbed run-killed
# validation data in another folder; the kind is detected by the names
mkdir apart
cp many/train-*.bin many/tokenizer* many/vocab* many/merges* apart 2>/dev/null || true
cp many/train.bin.json apart
code 0 "$LEVIN" train apart --run_dir=run-apart "${short[@]}" --data.val_path=many
same_weights run-one run-apart

# --- shards of llm.c and modded-nanogpt, more than are open at a time ---
python3 - <<'P'
import array, os
os.mkdir("nano"), os.mkdir("whole")
ids = array.array("H", [i * 419 % 50257 for i in range(30000)])
ids.tofile(open("whole/train.bin", "wb"))
ids[:2000].tofile(open("whole/val.bin", "wb"))
for k in range(300):
    with open(f"nano/fineweb_train_{k + 1:06}.bin", "wb") as f:
        array.array("i", [20240520, 1, 100] + [0] * 253).tofile(f)
        ids[100 * k:100 * k + 100].tofile(f)
with open("nano/fineweb_val_000000.bin", "wb") as f:
    array.array("i", [20240520, 1, 2000] + [0] * 253).tofile(f)
    ids[:2000].tofile(f)
P
run nano-whole whole
run nano-shards nano
same_run nano-whole nano-shards
says "data: 30,000 training tokens, 2,000 for validation" err

# --- refused, or reported ---
refuses() { # refuses CODE SENTENCE DATA [keys]
    local wanted=$1 sentence=$2 data=$3
    shift 3
    code "$wanted" "$LEVIN" train --run_dir=none --data.path="$data" "${short[@]}" "$@"
    says "$sentence" err
    one_error
    [ ! -e none ] || fail "a run folder was left"
}
cp -r nano gap
rm gap/fineweb_train_000007.bin
code 0 "$LEVIN" train gap --run_dir=run-gap "${short[@]}"
says "no shard has a number between 'gap/fineweb_train_000006.bin' and 'gap/fineweb_train_000008.bin'" err
truncate -s 1100 gap/fineweb_train_000009.bin
refuses 1 "'gap/fineweb_train_000009.bin' has a header that counts 100 tokens of 2 bytes, and 76 bytes follow it" gap
head -c 64 /dev/zero >>gap/fineweb_train_000009.bin
: >gap/fineweb_train_000009.bin
refuses 1 "'gap/fineweb_train_000009.bin' is empty" gap
cp -r many missing
rm missing/train-00003.bin
refuses 1 "'missing/train.bin.json' counts $n shards, and its folder has $((n - 1))" missing
says "the first that is missing is train-00003.bin" err
cp -r many cut
truncate -s 6000 cut/train-00002.bin
refuses 1 "'cut/train-00002.bin' has 3000 tokens, and 'cut/train.bin.json' says that each shard but the last has 8000" cut
cp -r many both
cp one/train.bin both
refuses 1 "has both 'train.bin' and 'train-00000.bin'" both
cp gap/fineweb_train_000001.bin cut/other_train_1.bin
refuses 1 "has token files of two data sets" cut
# other data in a run that resumes
cp -r many changed
mv changed/$(printf train-%05d.bin $((n - 1))) changed/$(printf train-%05d.bin $n)
code 2 "$LEVIN" train --run_dir=run-many --data.path=changed "${short[@]/max_steps=8/max_steps=10}" --resume
says "was trained on other data than 'changed' contains now, or with another tokenizer or chat template, or by a levin that reads the files differently" err
