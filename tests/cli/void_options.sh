# Options that would have no effect, or another one than they name, are refused or reported.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
tiny=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.batch_size=4 --trainer.limit_val_batches=1)
run() { "$LEVIN" train text.txt "${tiny[@]}" --trainer.max_steps=2 --sample.every_n_steps=0 "$@"; }
refused() { code 2 "${@:2}" && says "$1" err; }

code 0 run --run_dir=one
code 0 run --run_dir=two --trainer.seed=2

# a run that continues has its own weights
refused "model.init is 'two', but the run began with '' and continues with the weights of its checkpoint" \
    "$LEVIN" train one --resume --model.init=two --trainer.max_steps=4
code 0 "$LEVIN" train text.txt --model.init=one --trainer.batch_size=4 --trainer.limit_val_batches=1 --trainer.max_steps=2 --run_dir=three
code 0 "$LEVIN" train three --resume --model.init="$PWD/one" --trainer.max_steps=3
code 0 "$LEVIN" train text.txt --model.init=one --lora.rank=2 --trainer.max_steps=1 --run_dir=adapted
code 0 "$LEVIN" train text.txt --model.init=one --lora.init=adapted/checkpoints/last/adapter --trainer.max_steps=1 --run_dir=more
code 0 "$LEVIN" train more --resume --lora.init="$PWD/adapted/checkpoints/last/adapter" --trainer.max_steps=2
code 0 run --run_dir=llama --model.kind=llama
printf 'model: {init: llama, kind: llama, head_dim: 0, intermediate_size: 0}\n' >derived.yaml
code 0 "$LEVIN" plan derived.yaml --data.path=text.txt
printf 'model: {init: llama, kind: llama, intermediate_size: 32}\n' >derived.yaml
refused "model.intermediate_size is 32, but the loaded model has " "$LEVIN" plan derived.yaml --data.path=text.txt
code 0 run --run_dir=clip --trainer.gradient_clip_algorithm=value --trainer.gradient_clip_val=0.5
code 0 "$LEVIN" train clip --resume --trainer.gradient_clip_val=0 --trainer.max_steps=3
mv one moved
refused "task.fresh_head is 'true'" "$LEVIN" train three --resume --model.init=moved --task.fresh_head=true --trainer.max_steps=4
code 0 "$LEVIN" train three --resume --model.init=moved --trainer.max_steps=4

# counts with an exponent
code 0 run --run_dir=counts --trainer.val_check_interval=1e2 --show-settings
grep -qE '^trainer.val_check_interval +100 ' out
code 0 run --run_dir=counts --trainer.val_check_interval=1e-1 --show-settings
grep -qE '^trainer.val_check_interval +0.1 ' out

code 0 run --run_dir=counts --trainer.limit_val_batches=1e0 --show-settings
grep -qE '^trainer.limit_val_batches +1.0 ' out

# a model that is read
refused "'two' is given as the base model of loaded adapters, and 'moved/checkpoints" "$LEVIN" export moved out --base=two
refused "trainer.precision 16-mixed has no effect on this command, which computes in 32-true, bf16-mixed or bf16-true" \
    "$LEVIN" evaluate moved --trainer.precision=16-mixed
refused "trainer.precision bf16-mixed has no effect on this command" "$LEVIN" generate moved --trainer.precision=bf16-mixed
refused "trainer.devices is 4, but 1 rank of this command runs on this host" "$LEVIN" evaluate moved --trainer.devices=4
refused "set trainer.strategy to ddp or auto" "$LEVIN" evaluate moved --model.quantize=nf4 --trainer.strategy=fsdp

# training
refused "trainer.accelerator reference trains in 32-true" run --run_dir=none --trainer.accelerator=reference --trainer.precision=bf16-mixed
refused "disables clipping: set trainer.gradient_clip_val too" run --run_dir=none --trainer.gradient_clip_val=0 --trainer.gradient_clip_algorithm=value
refused "task.fresh_head (true) has no effect while model.init is" run --run_dir=none --task.fresh_head=true
refused "data.stream (true) is a key of data.kind=tokens" run --run_dir=none --data.stream=true
code 1 run --run_dir=none --sample.every_n_steps=1 --sample.prompt=FILE:nonexistent
says "encoding sample.prompt" err
refused "encoding sample.prompt" run --run_dir=none --sample.every_n_steps=1 --sample.prompt=ß
check [ ! -e none ]
refused "5 ranks cannot share the 1 sequence of a step (trainer.batch_size): start at most 1 rank, or" \
    "$LEVIN" plan --ranks=5 "${tiny[@]}" --trainer.batch_size=1 --data.path=text.txt
code 0 "$LEVIN" prepare text.txt --out=tokens
code 0 "$LEVIN" train tokens "${tiny[@]}" --trainer.max_steps=1 --run_dir=local --data.stream=true
says "data.stream has no effect on 'tokens', which is on this machine" err

# labelled texts
{
    echo text,label
    for i in $(seq 60); do echo "a word of row $i,$((i % 2))"; done
} >rows.csv
{
    echo text,label
    for i in $(seq 7); do echo "a word of test $i,$((i % 2))"; done
} >test.csv
code 0 "$LEVIN" train rows.csv "${tiny[@]:0:3}" --trainer.max_steps=2 --trainer.batch_size=4 --run_dir=classes
refused "--token-losses is for language models" "$LEVIN" evaluate classes --token-losses --json
code 0 "$LEVIN" evaluate classes --data.test_path=test.csv --json
json 'd["samples"] == 7'
code 0 "$LEVIN" evaluate classes --trainer.seed=9
says "--trainer.seed chooses the rows that are scored: unless the run had the same value, it has trained on some of them" err
code 0 "$LEVIN" evaluate classes
silent_about "chooses the rows" err
code 0 "$LEVIN" train rows.csv "${tiny[@]:0:3}" --trainer.max_steps=2 --trainer.batch_size=4 --run_dir=words --task.kind=mlm
says "levin evaluate words" out
lacks "levin predict" out

# flags
refused "--limits has no effect without --parts" "$LEVIN" bench --limits=1e12,1e9
refused "--every has no effect without --watch" "$LEVIN" report moved --every=5
refused "--every has no effect with --once and --json" "$LEVIN" watch moved --every=5 --once
refused "--num-samples must be" "$LEVIN" generate moved --num-samples=0
refused "--quiet prints less and --verbose more" "$LEVIN" runs --quiet --verbose
refused "are for all commands: leave 'train' out" "$LEVIN" help train --completion=bash
