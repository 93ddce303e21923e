# data.skip_bad_shards: a damaged shard in the middle of an epoch ends the run with its name; with the option it is skipped
# with the same bits on 1 and 3 ranks, killed and resumed, also if it is restored in between; what is refused.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
python3 - <<'P'
import array, json, os
ids = [i * i * 7 % 251 for i in range(35500)]
for name, header in (("plain", 0), ("headers", 1)):
    os.mkdir(name)
    for k in range(12):
        part = array.array("H", ids[3000 * k:3000 * k + 3000])
        with open(f"{name}/train-{k:05}.bin", "wb") as f:
            if header: array.array("i", [20240520, 1, len(part)] + [0] * 253).tofile(f)
            part.tofile(f)
    with open(f"{name}/val-00000.bin", "wb") as f:
        if header: array.array("i", [20240520, 1, 1000] + [0] * 253).tofile(f)
        array.array("H", ids[:1000]).tofile(f)
    if not header:
        json.dump({"dtype": "uint16", "vocab_size": 256, "shards": 12, "shard_tokens": 3000, "tokens": 35500}, open("plain/train.bin.json", "w"))
        json.dump({"dtype": "uint16", "vocab_size": 256}, open("plain/val.bin.json", "w"))
P
short=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=32 --model.vocab_size=256 --trainer.batch_size=6 --trainer.threads=1
    --trainer.max_steps=60 --trainer.val_check_interval=60 --trainer.limit_val_batches=2 --checkpoint.every_n_steps=5
    --trainer.deterministic=true --trainer.micro_batch_size=2)
skip=--data.skip_bad_shards=true
run() { code 0 "$LEVIN" train --run_dir="$1" --data.path="$2" "${short[@]}" "${@:3}"; } # run RUN DATA [keys]
wrong_id() { printf '\377\377' | dd of="$1" bs=1 seek=$((2 * $2)) conv=notrunc status=none; } # wrong_id FILE POSITION

# without damage the option changes nothing
run good plain
run same plain $skip
same_weights good same

# in the middle of an epoch
cp -r plain live
"$LEVIN" train --run_dir=live-run --data.path=live "${short[@]/max_steps=60/max_steps=100000}" --data.sampling=sequential >live.out 2>&1 &
soon test -e live-run/checkpoints/last
wrong_id live/train-00007.bin 1234
wait $! && fail "the run did not end"
says "live/train-00007.bin' holds the token id 65535 at position 1234" live.out
says "continue without it with data.skip_bad_shards=true" live.out
check [ -e live-run/checkpoints/last/model.safetensors ]
step=$(basename "$(readlink -f live-run/checkpoints/last)")
code 0 "$LEVIN" train live-run --resume $skip --trainer.max_steps=$((${step#step-} + 100))
says "skips 'live/train-00007.bin' with its 3,000 tokens, and reads the next good shard in its place: 'live/train-00007.bin' holds the token id 65535 at position 1234 (byte 2468), and the vocabulary has 256 tokens" err
says "1 damaged shard with 3,000 tokens was skipped (data.skip_bad_shards)" err
says "1 damaged shard with 3,000 tokens was skipped" live-run/report.html

# the same bits on all ranks, and after a resume; each kind of damage
cp -r plain bad
wrong_id bad/train-00007.bin 2999
truncate -s 5000 bad/train-00003.bin
: >bad/train-00011.bin
code 1 "$LEVIN" train --run_dir=never --data.path=bad "${short[@]}"
one_error
run skipped bad $skip
says "3 damaged shards with 8,500 tokens were skipped" err
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=three --data.path=bad "${short[@]}" $skip
same_weights skipped three
[ "$(grep -c "skips 'bad/train-00007.bin'" err)" = 1 ] || fail "not reported once"
run parts bad $skip --trainer.max_steps=25
check grep -q '0/train-00003.bin' parts/checkpoints/last/state/state.json
cp plain/train-00003.bin plain/train-00007.bin plain/train-00011.bin bad # restored: they stay skipped
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=parts --data.path=bad "${short[@]}" --resume $skip
says "it was skipped before the run was resumed" err
wrong_id bad/train-00007.bin 2999
truncate -s 5000 bad/train-00003.bin
endless=("${short[@]/every_n_steps=5/every_n_steps=1}")
killed_often 3 killed "$LEVIN" train --run_dir=killed --data.path=bad "${endless[@]/max_steps=60/max_steps=1000000}" $skip --resume
: >bad/train-00011.bin
code 0 "$LEVIN" train --run_dir=killed --data.path=bad "${endless[@]/max_steps=60/max_steps=$end}" $skip --resume
run all bad $skip --data.sampling=shards
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=all-3 --data.path=bad "${short[@]}" $skip --data.sampling=shards
same_weights all all-3
# headers; the first shard
printf '\1' | dd of=headers/train-00000.bin bs=1 seek=8 conv=notrunc status=none
truncate -s 4000 headers/train-00004.bin
code 1 "$LEVIN" train --run_dir=never --data.path=headers "${short[@]}"
says "headers/train-00000.bin' has a header that counts" err
run headers-run headers $skip
says "2 damaged shards with" err
run mixed plain --data.path= --data.mix="[{path: bad, weight: 1}, {path: plain, weight: 1}]" $skip
says "skips 'bad/train-00003.bin'" err

# --- refused ---
refuse() { code 2 "$LEVIN" train --run_dir=never "${@:2}" "${short[@]}"; says "$1" err; one_error; check [ ! -e never ]; }
refuse "data.skip_bad_shards finds damaged shards later: leave one of them out" --data.path=plain $skip --data.pack=true
refuse "data.skip_bad_shards is for a folder with shards, and 'plain/train-00000.bin' has none" --data.path=plain/train-00000.bin $skip
refuse "data.skip_bad_shards (true) is a key of data.kind=tokens" --data.kind=chars --data.path="$LEVIN_SOURCE/README.md" $skip
mkdir none && for i in 0 1; do printf '\377\377\377\377\377\377' >none/train-$i.bin; done
for i in 0 1 2 3 4 5; do cat none/train-0.bin none/train-0.bin >none/t && cat none/t >>none/train-0.bin && cp none/train-0.bin none/train-1.bin; done
code 1 "$LEVIN" train --run_dir=never --data.path=none "${short[@]}" $skip
says "none of the 2 shards from 'none/train-0.bin' on is undamaged" err
