# Folders of token shards in a store: data.stream downloads those that are needed, into a cache of bounded size, with the bits of
# the same folder on this machine; resumed, on 3 ranks; shards that are missing or damaged when they are needed.
# label: slow
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
s3_server
python3 - <<'P'
import array, json, os
os.mkdir("here")
n, x = 20000, 5
for k in range(24):
    ids = array.array("H")
    for i in range(n if k < 23 else 7001):
        x = x * 16807 % 2147483647
        ids.append(x % 500)
    with open(f"here/fineweb_train_{k:06}.bin", "wb") as f:
        array.array("i", [20240520, 1, len(ids)] + [0] * 253).tofile(f)
        ids.tofile(f)
with open("here/fineweb_val_000000.bin", "wb") as f:
    array.array("i", [20240520, 1, 5000] + [0] * 253).tofile(f)
    ids[:5000].tofile(f)
json.dump({"vocab_size": 512}, open("here/train.bin.json", "w"))
P
cp_ --recursive here s3://bucket/tokens >/dev/null
store=s3://bucket/tokens
short=(--data.kind=tokens --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=64 --trainer.batch_size=240
    --trainer.threads=1 --trainer.max_steps=40 --trainer.val_check_interval=20 --trainer.limit_val_batches=2
    --checkpoint.every_n_steps=20 --trainer.deterministic=true --trainer.micro_batch_size=60)
cached_bytes() { du -sb cache/files 2>/dev/null | cut -f1; }

# --- everything is downloaded first without data.stream ---
code 0 "$LEVIN" train --run_dir=whole "${short[@]}" --data.path=$store
code 0 "$LEVIN" train --run_dir=local "${short[@]}" --data.path=here
same_run whole local
check [ "$(find cache/files -name '*_train_*.bin' | wc -l)" = 24 ]
rm -rf cache

# --- in both orders, with room for 8 of 24 shards ---
export LEVIN_CACHE_SIZE=400k
for sampling in shards sequential; do
    code 0 "$LEVIN" train --run_dir=here-$sampling "${short[@]}" --data.path=here --data.sampling=$sampling
    code 0 "$LEVIN" train --run_dir=there-$sampling "${short[@]}" --data.path=$store --data.stream=true --data.sampling=$sampling
    same_run here-$sampling there-$sampling
    silent_about "no space for" err
    check [ "$(cached_bytes)" -lt 420000 ]
    rm -rf cache
    code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=ranks-$sampling "${short[@]}" --data.path=$store --data.stream=true \
        --data.sampling=$sampling
    same_run here-$sampling ranks-$sampling
    code 0 "$LEVIN" train --run_dir=parts-$sampling "${short[@]/max_steps=40/max_steps=20}" --data.path=$store --data.stream=true \
        --data.sampling=$sampling
    code 0 "$LEVIN" train --run_dir=parts-$sampling "${short[@]}" --data.path=$store --data.stream=true --data.sampling=$sampling --resume
    same_run here-$sampling parts-$sampling
done
endless=("${short[@]/every_n_steps=20/every_n_steps=2}" --data.sampling=shards)
there=(--data.path=$store --data.stream=true --resume)
killed_often 3 killed "$LEVIN" train --run_dir=killed "${endless[@]/max_steps=40/max_steps=1000000}" "${there[@]}"
code 0 "$LEVIN" train --run_dir=killed "${endless[@]/max_steps=40/max_steps=$end}" "${there[@]}"
code 0 "$LEVIN" train --run_dir=undisturbed "${endless[@]/max_steps=40/max_steps=$end}" --data.path=here
same_weights undisturbed killed

# --- refused ---
refuses() { # refuses CODE SENTENCE [keys]
    local wanted=$1 sentence=$2
    shift 2
    code "$wanted" "$LEVIN" train --run_dir=none "${short[@]}" --data.path=$store --data.stream=true "$@"
    says "$sentence" err
    one_error
}
refuses 2 "data.stream of shards reads them one after the other"
refuses 2 "data.sampling=random needs all of them" --data.sampling=random
refuses 2 "data.pack reads all documents before the first step" --data.sampling=shards --data.pack=true --data.end_token=3
LEVIN_CACHE_SIZE=200k refuses 2 "and LEVIN_CACHE_SIZE allows less" --data.sampling=shards
code 2 "$LEVIN" train --run_dir=none "${short[@]}" --data.path=here/fineweb_val_000000.bin --data.sampling=shards
says "data.sampling=shards is for token files in shards" err

# --- a shard that is missing or damaged when it is needed: all ranks end, with its name ---
rm -rf cache
python3 - <<'P'
import os
path = "s3root/bucket/tokens/fineweb_train_000001.bin"
d = bytearray(open(path, "rb").read())
d[8] ^= 1
os.remove(path)
open(path, "wb").write(d)
P
code 1 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=damaged "${short[@]/max_steps=40/max_steps=400}" --data.path=$store \
    --data.stream=true --data.sampling=sequential
says "fineweb_train_000001.bin' has a header that counts" err
check [ "$(grep -c 'error: ' err)" = 1 ]
# with data.skip_bad_shards it is skipped, with the bits of the folder on this machine
cp -r here bad
cp s3root/bucket/tokens/fineweb_train_000001.bin bad
skip=(--data.skip_bad_shards=true --data.sampling=sequential)
code 0 "$LEVIN" train --run_dir=skip-here "${short[@]}" --data.path=bad "${skip[@]}"
code 0 "$LEVIN" train --run_dir=skip-there "${short[@]}" --data.path=$store --data.stream=true "${skip[@]}"
says "fineweb_train_000001.bin' with its 20,000 tokens" err
same_weights skip-here skip-there
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train --run_dir=skip-3 "${short[@]}" --data.path=$store --data.stream=true "${skip[@]}"
same_weights skip-here skip-3
rm s3root/bucket/tokens/fineweb_train_000003.bin
cp here/fineweb_train_000001.bin s3root/bucket/tokens
code 0 "$LEVIN" train --run_dir=gap "${short[@]}" --data.path=$store --data.stream=true --data.sampling=sequential
says "no shard has a number between" err
