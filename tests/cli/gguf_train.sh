# label: slow
# Adapters on a base in the blocks of a GGUF file: killed and resumed, 1 and 3 ranks, zero1 and zero2 give equal bits; with fsdp the base
# is converted to full precision, with a message.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
code 0 "$LEVIN" tokenizer train --input=text.txt --out=tokenizer --vocab-size=400
code 0 "$LEVIN" train --data.path=text.txt --data.kind=documents --data.tokenizer=tokenizer --model.kind=llama --model.n_layer=2 \
    --model.n_head=2 --model.n_embd=32 --model.intermediate_size=64 --model.block_size=32 --trainer.max_steps=2 --run_dir=small \
    --trainer.batch_size=4
code 0 "$LEVIN" export small base.gguf --type=q8_0
tiny=(--model.init=base.gguf --data.path=text.txt --data.kind=documents --trainer.batch_size=6 --trainer.limit_val_batches=4
    --trainer.val_check_interval=2 --checkpoint.every_n_steps=2 --trainer.deterministic=true --trainer.threads=1 --lora.rank=4
    --lora.targets=all-linear --optimizer.lr=1e-2 --trainer.max_steps=4)
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
for precision in 32-true bf16-true; do
    code 0 train one --trainer.precision=$precision
    says "14 linear layers stay in their blocks" err
    arguments three --trainer.precision=$precision
    code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
    same_weights one three
    for strategy in zero1 zero2; do
        arguments three-$strategy --trainer.precision=$precision --trainer.strategy=$strategy
        code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
        same_file {one,three-$strategy}/checkpoints/last/adapter/adapter_model.safetensors
    done
    code 0 train parts --trainer.precision=$precision --trainer.max_steps=2
    code 0 train parts --trainer.precision=$precision --trainer.max_steps=4 --resume
    same_run one parts
    rm -r one three* parts
done

# killed at any moment, it ends with the bits of an undisturbed run
start killed --trainer.max_steps=2000 --checkpoint.every_n_steps=4
wait_rows killed 5
kill -KILL $pid
wait $pid || true
step=$(newest killed)
code 0 train killed --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4 --resume
code 0 train whole --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4
same_file {killed,whole}/checkpoints/step-$((step + 4))/adapter/adapter_model.safetensors

code 0 train one
arguments fsdp --trainer.strategy=fsdp
code 0 "$LEVIN" launch -n 2 -- "${all[@]}"
says "which are widened to fp32" err
says "; trainer.strategy fsdp shards them" err
same_file {one,fsdp}/checkpoints/last/adapter/adapter_model.safetensors
