# model.quantize: adapters on a base in nf4 or int8: the results of a base with the rounded weights, in every precision; resuming,
# 1 and 3 ranks, zero1 and zero2; evaluation and generation of the run and of its base; export; memory in `levin plan`; what is refused.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
export HF_HUB_OFFLINE=1
code 0 train small --trainer.max_steps=8 --optimizer.lr=1e-2
code 0 "$LEVIN" export small plain
tiny=(--model.init=plain --data.path=text.txt --trainer.batch_size=6 --trainer.limit_val_batches=4 --trainer.val_check_interval=2
    --checkpoint.every_n_steps=2 --trainer.deterministic=true --trainer.threads=1 --lora.rank=4 --lora.targets=all-linear
    --optimizer.lr=1e-2 --trainer.max_steps=4)
loss() { grep -o '"loss": [^,]*' "$1/metrics.jsonl"; }

for type in nf4 int8; do
    for precision in 32-true bf16-mixed bf16-true; do
        code 0 train $type-$precision --model.quantize=$type --trainer.precision=$precision
    done
    run=$type-32-true
    code 0 train plain-base
    check [ "$(loss $run)" != "$(loss plain-base)" ]
    rm -r plain-base
    arguments three --model.quantize=$type
    ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
    same_weights $run three
    for strategy in zero1 zero2; do
        arguments three-$strategy --model.quantize=$type --trainer.strategy=$strategy
        ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
        same_file {$run,three-$strategy}/checkpoints/last/adapter/adapter_model.safetensors
        rm -r three-$strategy
    done
    code 0 train parts --model.quantize=$type --trainer.max_steps=2
    code 0 train parts --model.quantize=$type --trainer.max_steps=4 --resume
    same_run $run parts
    code 0 train threads --model.quantize=$type --trainer.threads=2
    same_weights $run threads
    rm -r three parts threads

    # a run is evaluated as it was trained; with model.quantize=none its adapters are merged into the weights of the base's files
    same=(--data.path=text.txt --trainer.limit_test_batches=2 --trainer.batch_size=4 --trainer.micro_batch_size=4 --json)
    code 0 "$LEVIN" evaluate $run "${same[@]}"
    as_trained=$(value loss)
    code 0 "$LEVIN" evaluate $run "${same[@]}" --model.quantize=none
    merged=$(value loss)
    code 0 "$LEVIN" export $run merged-$type
    code 0 "$LEVIN" evaluate merged-$type "${same[@]}"
    check [ "$(value loss)" = "$merged" ]
    check [ "$as_trained" != "$merged" ]
    code 0 "$LEVIN" evaluate $run/checkpoints/best/adapter "${same[@]}" --model.quantize=$type
    check [ "$(value loss)" = "$as_trained" ]
    code 0 "$LEVIN" evaluate plain "${same[@]}"
    wide=$(value loss)
    code 0 "$LEVIN" evaluate plain "${same[@]}" --model.quantize=$type
    python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert a != b and abs(a - b) < 0.1, (a, b)' "$wide" "$(value loss)"
    for model in $run plain; do
        code 0 "$LEVIN" generate $model --prompt="int " --max-new-tokens=8 --temperature=0 --model.quantize=$type
    done
done

# killed at any moment, it ends with the bits of an undisturbed run
start killed --trainer.max_steps=2000 --checkpoint.every_n_steps=4 --model.quantize=nf4
wait_rows killed 5
kill -KILL $pid
wait $pid || true
step=$(newest killed)
code 0 train killed --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4 --model.quantize=nf4 --resume
code 0 train whole --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4 --model.quantize=nf4
same_file {killed,whole}/checkpoints/step-$((step + 4))/adapter/adapter_model.safetensors

# memory: 4.13 bits instead of 32 for each weight of a linear layer
parameters() { code 0 "$LEVIN" plan --model.init=gpt2 --data.path=text.txt --lora.rank=4 "$@" && sed -n 's/^ *parameters *\([0-9,]*\) .*/\1/p' out | tr -d ,; }
whole=$(parameters) nf4=$(parameters --model.quantize=nf4) int8=$(parameters --model.quantize=int8)
check [ $((whole - nf4)) -gt $((84934656 * 275 / 80)) -a $((whole - int8)) -gt $((84934656 * 2396 / 800)) ] # of 84,934,656 weights

# --- refused ---
refused() { # refused WORDS KEY...
    local words=$1
    shift
    code 2 "$LEVIN" train --run_dir=no --model.init=plain --data.path=text.txt "$@"
    one_error
    says "$words" err
}
refused "model.quantize nf4 is for weights that are not trained, and without lora.rank all are" --model.quantize=nf4
refused "lora.merge_checkpoints=true would merge adapters into weights that model.quantize int8 has rounded" --model.quantize=int8 \
    --lora.rank=4 --lora.merge_checkpoints
refused "and those of model.quantize nf4 are whole on each rank; set trainer.strategy to ddp" --model.quantize=nf4 --lora.rank=4 \
    --trainer.strategy=fsdp
refused "model.quantize" --model.quantize=nf3 --lora.rank=4
refused "levin quantizes to nf4 and int8" --model.quantize=fp4 --lora.rank=4
code 2 train nf4-32-true --resume --trainer.max_steps=8 --model.quantize=int8
one_error
says "model.quantize is int8 here but was nf4 in the run" err
code 2 "$LEVIN" train --run_dir=no --load_in_4bit=true
says "levin calls it --model.quantize" err
