# Checkpoints of each kind, read by a program that was written from docs/checkpoint-format.md alone.
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden
python3 - <<'PY'
import random, struct
rng = random.Random(1)
for part in ("train", "val"):
    open(part + ".bin", "wb").write(b"".join(struct.pack("<H", rng.randrange(60)) for _ in range(2000)))
with open("rows.tsv", "w") as f:
    f.write("document\tlabel\n" + "".join(f"{rng.choice(['good', 'bad'])} film\t{i % 2}\n" for i in range(60)))
PY
cat "$LEVIN_SOURCE"/src/base/*.c >text.txt
few=(--trainer.max_steps=2 --trainer.limit_val_batches=1 --quiet)
tokens=(--data.kind=tokens --data.path=.)
small=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16)
code 0 "$LEVIN" train text.txt "${small[@]}" "${few[@]}" --run_dir=chars
code 0 "$LEVIN" train text.txt "${small[@]}" "${few[@]}" --optimizer.kind=sgd --run_dir=sgd
code 0 "$LEVIN" train --model.init="$golden/neox" "${tokens[@]}" "${few[@]}" --trainer.precision=bf16-true --optimizer.state=bf16 --run_dir=neox
code 0 "$LEVIN" train --model.init="$golden/llama" "${tokens[@]}" "${few[@]}" --lora.rank=2 --run_dir=adapters
code 0 "$LEVIN" train --model.init="$golden/llama" "${tokens[@]}" "${few[@]}" --lora.rank=2 --lora.merge_checkpoints=true --run_dir=merged
code 0 "$LEVIN" tokenizer train --kind=wordpiece --vocab-size=60 --input=rows.tsv --out=words
code 0 "$LEVIN" train --model.kind=bert "${small[@]}" --data.kind=labelled --data.path=rows.tsv --data.tokenizer=words --trainer.batch_size=8 "${few[@]}" --run_dir=bert
# more than 64 files: each tensor is larger than checkpoint.max_shard_size
deep=(text.txt --model.n_layer=6 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.limit_val_batches=1 --quiet)
code 0 "$LEVIN" train "${deep[@]}" --trainer.max_steps=2 --run_dir=one
code 0 "$LEVIN" train "${deep[@]}" --trainer.max_steps=1 --run_dir=many --checkpoint.max_shard_size=64
code 0 "$LEVIN" train "${deep[@]}" --trainer.max_steps=2 --run_dir=many --checkpoint.max_shard_size=64 --resume
code 0 "$LEVIN" train "${deep[@]}" --trainer.max_steps=2 --run_dir=few --checkpoint.max_shard_size=40KB
for how in 64bit 0 -1GB "5 parsecs" 1e30TB; do
    code 2 "$LEVIN" train "${deep[@]}" --run_dir=no "--checkpoint.max_shard_size=$how"
    says "checkpoint.max_shard_size must be a size like 5GB, 500MB or 2GiB, got '$how'" err
done
runs=(chars sgd neox adapters merged bert one many few)
code 0 python3 "$LEVIN_SOURCE/tests/cli/checkpoint_reader.py" "${runs[@]/%//checkpoints/last}"
python3 - <<'PY'
import json
chars, sgd, neox, adapters, merged, bert, one, many, few = map(json.loads, open("out"))
for c in (chars, sgd, neox, adapters, merged, bert, one, many, few):
    assert c["step"] == 2, c
assert chars["weights"] and chars["moments"] == 2 * sgd["moments"] > 0, (chars, sgd)
assert neox["moments"] == 2 * neox["weights"], neox
assert adapters["adapters"] and not adapters["weights"] and adapters["moments"] == 2 * adapters["adapters"], adapters
assert merged["weights"] and merged["adapters"] == adapters["adapters"], merged
assert one["files"] == 0 and many["files"] == many["weights"] == one["weights"] > 64 > few["files"] > 1, (one, many, few)
PY
# the same weights, and the same state of a run that was resumed from many files
for run in one many few; do
    code 0 "$LEVIN" export $run $run-whole
    same_file one-whole/model.safetensors $run-whole/model.safetensors
    same_file one/checkpoints/last/state/optimizer.safetensors $run/checkpoints/last/state/optimizer.safetensors
done
rm many/checkpoints/last/model-00065-of-*
code 1 "$LEVIN" generate many/checkpoints/last --prompt=a
says "model-00065-of-" err
# one byte of a tensor is changed
python3 -c 'import os
f = open("chars/checkpoints/last/model.safetensors", "r+b"); f.seek(-3, os.SEEK_END)
b = f.read(1); f.seek(-1, os.SEEK_CUR); f.write(bytes([b[0] ^ 1]))'
code 1 python3 "$LEVIN_SOURCE/tests/cli/checkpoint_reader.py" chars/checkpoints/last
says "wte.weight' is another" err
