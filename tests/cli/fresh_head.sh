# Adapters beside a new head of a language model: the head is trained and saved with them, also on a base in nf4; and gradients of
# quantized models.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
tiny+=(--model.kind=llama --model.intermediate_size=32)
code 0 train base --trainer.max_steps=2
code 0 "$LEVIN" export base plain
tiny=(--model.init=plain --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=4 --trainer.val_check_interval=4
    --checkpoint.every_n_steps=4 --trainer.max_steps=8 --trainer.deterministic=true --trainer.threads=1 --lora.rank=2
    --optimizer.lr=1e-2 --task.fresh_head=true)
loss() { # loss MODEL [keys]
    code 0 "$LEVIN" evaluate "$1" --data.path=text.txt --trainer.limit_test_batches=2 --trainer.batch_size=4 --trainer.micro_batch_size=4 --json "${@:2}"
    value loss
}
less() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert a < b - 0.1, (a, b)' "$@"; }

code 0 train run
says '"modules_to_save": ["lm_head"]' run/checkpoints/last/adapter/adapter_config.json
code 0 train frozen --model.freeze=lm_head
less "$(loss run)" "$(loss frozen)"
code 0 "$LEVIN" export run merged
check [ "$(loss merged)" = "$(loss run)" ]
for mode in lora.merge_checkpoints=true model.quantize=nf4; do
    code 0 train whole --$mode
    code 0 train parts --$mode --trainer.max_steps=4
    code 0 train parts --$mode --resume
    same_run whole parts
    check [ "$(loss whole)" = "$(loss whole/checkpoints/last)" ]
    rm -r parts
    [ $mode = model.quantize=nf4 ] || rm -r whole
done
code 0 "$LEVIN" generate whole --prompt="int " --max-new-tokens=4
code 0 "$LEVIN" export run peft --format=peft
code 0 train more --lora.init=peft --optimizer.kind=sgd --optimizer.lr=1e-30
same_file peft/adapter_model.safetensors more/checkpoints/last/adapter/adapter_model.safetensors
code 1 train no --lora.init=peft --task.fresh_head=false
one_error
says "stores 'base_model.model.lm_head.weight' in full (modules_to_save in its adapter_config.json), and this run does not train it: set task.fresh_head=true" err
# a new head for masked tokens
printf 'text,label\n%s' "$(for i in $(seq 40); do echo "w$((i % 7)) w$((i % 5)) w$((i % 3)) end,$((i % 2))"; done)" >words.csv
code 0 "$LEVIN" train words.csv --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --trainer.max_steps=1 --run_dir=bert
code 0 "$LEVIN" train words.csv --model.init=bert --task.kind=mlm --lora.rank=2 --model.quantize=int8 --optimizer.lr=1e-2 --trainer.max_steps=20 \
    --run_dir=mlm
code 0 "$LEVIN" evaluate mlm
words=(--data.path=words.csv --task.kind=mlm --json)
code 0 "$LEVIN" evaluate mlm "${words[@]}"
whole=$(value loss)
code 0 "$LEVIN" evaluate mlm/checkpoints/last/adapter "${words[@]}" --model.quantize=int8
check [ "$(value loss)" = "$whole" ]
code 2 "$LEVIN" export mlm never --format=peft
one_error
says "which PEFT cannot load together: leave --format=peft out" err
check [ ! -e never ]
code 0 "$LEVIN" export mlm merged-mlm
# a head that is the embedding
tiny=(--data.path=text.txt --trainer.max_steps=1)
code 0 train tied --model.kind=gpt2 --model.n_layer=1 --model.n_head=1 --model.n_embd=16 --model.block_size=16
code 2 train no --model.init=tied --task.fresh_head=true
one_error
says "is its embedding (tie_word_embeddings), which is kept: leave task.fresh_head out" err

# gradients of a quantized model are those of the weights in its files
gradients() { code 0 "$LEVIN" evaluate "$1" --data.path=text.txt --trainer.limit_test_batches=1 --gradients="$2" "${@:3}"; }
for model in plain whole; do
    gradients $model nf4.safetensors --model.quantize=nf4
    says "model.quantize is ignored, because quantized weights have no gradients" err
    gradients $model none.safetensors --model.quantize=none
    same_file {nf4,none}.safetensors
done
