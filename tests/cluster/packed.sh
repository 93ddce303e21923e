# data.pack on ranks: documents in rows train the same bits on 1 and 3 ranks, with sharded optimizer states, gradients and
# parameters, in every division into micro-batches that trainer.deterministic promises, and in a run that is killed and resumed.
. "$LEVIN_SOURCE/tests/cli/common.bash"
python3 - <<'P'
import array, json
ids, x = array.array("H"), 11
for i in range(900):
    x = x * 16807 % 2147483647
    for k in range(1 + x % 70):
        x = x * 16807 % 2147483647
        ids.append(x % 61)
    ids.append(63)
ids.tofile(open("d.bin", "wb"))
json.dump({"dtype": "uint16", "vocab_size": 64, "end_token": 63}, open("d.bin.json", "w"))
P
cp d.bin v.bin
cp d.bin.json v.bin.json
keys=(--data.path=d.bin --data.val_path=v.bin --data.pack=true --model.n_layer=2 --model.n_head=3 --model.n_embd=48
    --model.block_size=48 --model.dropout=0.1 --trainer.batch_size=12 --trainer.threads=1 --trainer.max_steps=8
    --trainer.val_check_interval=4 --trainer.limit_val_batches=3 --checkpoint.every_n_steps=4 --optimizer.lr=1e-2
    --trainer.deterministic=true --trainer.micro_batch_size=2)
ranks() { # N RUN [keys]
    local n=$1 run=$2
    shift 2
    code 0 "$LEVIN" launch --launcher=levin -n "$n" -- train --run_dir="$run" "${keys[@]}" "$@"
}
for kind in gpt2 llama; do
    code 0 "$LEVIN" train --run_dir=$kind-one "${keys[@]}" --model.kind=$kind
    for strategy in ddp zero1 fsdp; do
        ranks 3 $kind-$strategy --model.kind=$kind --trainer.strategy=$strategy
        same_run $kind-one $kind-$strategy
    done
    # another number of ranks after half of the steps
    ranks 3 $kind-parts --model.kind=$kind --trainer.strategy=fsdp --trainer.max_steps=4
    code 0 "$LEVIN" train --run_dir=$kind-parts "${keys[@]}" --model.kind=$kind --resume
    same_run $kind-one $kind-parts
done

# --- rows of which few tokens have labels, with rounded weights ---
python3 - <<'P'
import json
with open("talks.jsonl", "w") as out, open("words.txt", "w") as words:
    for i in range(60):
        talk = [{"role": "user", "content": f"what is {i} and {i * i}"}, {"role": "assistant", "content": f"{i + i * i}"}]
        print(json.dumps({"messages": talk}), file=out)
        print(*(turn["content"] for turn in talk), file=words)
P
code 0 "$LEVIN" tokenizer train --input=words.txt --vocab-size=280 --out=tokenizer
talks=("${keys[@]:3}" --data.path=talks.jsonl --data.tokenizer=tokenizer --data.template=chatml --data.pack=true --model.kind=llama
    --model.block_size=96 --trainer.precision=bf16-mixed --trainer.micro_batch_size=1 --trainer.batch_size=6)
code 0 "$LEVIN" train --run_dir=talks-one "${talks[@]}"
code 0 "$LEVIN" launch --launcher=levin -n 2 -- train --run_dir=talks-fsdp "${talks[@]}" --trainer.strategy=fsdp
same_run talks-one talks-fsdp

# --- killed at random moments ---
all=(--run_dir=killed "${keys[@]}" --model.kind=llama --trainer.max_steps=1000000 --checkpoint.every_n_steps=2
    --trainer.val_check_interval=0 --resume)
for i in $(seq 6); do
    before=$(readlink killed/checkpoints/last || true)
    "$LEVIN" train "${all[@]}" >out 2>err &
    pid=$!
    while kill -0 $pid 2>/dev/null && [ "$(readlink killed/checkpoints/last || true)" = "$before" ]; do sleep 0.005; done
    sleep "0.0$((RANDOM % 40 + 10))"
    kill -KILL $pid || fail "the run ended before kill $i: $(cat err)"
    ended
    check [ "$got" = 137 ]
done
step=$(newest killed)
end=$((step + 3))
code 0 "$LEVIN" train --run_dir=killed "${keys[@]}" --model.kind=llama --trainer.max_steps=$end --trainer.val_check_interval=0 --resume
code 0 "$LEVIN" train --run_dir=alone "${keys[@]}" --model.kind=llama --trainer.max_steps=$end --trainer.val_check_interval=0 \
    --checkpoint.every_n_steps=1000
same_run alone killed
