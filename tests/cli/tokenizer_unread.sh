# A tokenizer that cannot be read is a warning where token files suffice, and an error where text is needed.
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden/tokenizers
cat "$LEVIN_SOURCE"/src/text/data/*.c >text.txt
small=(--data.kind=tokens --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.max_steps=4
    --trainer.batch_size=4 --trainer.limit_val_batches=4 --checkpoint.every_n_steps=0)
code 0 "$LEVIN" prepare text.txt --tokenizer="$golden/tiny-llama3" --out=data
code 0 "$LEVIN" train --run_dir=run "${small[@]}" --data.path=data
silent_about tokenizer err
code 0 "$LEVIN" export run model
evaluation=(evaluate model --data.kind=tokens --data.path=data --trainer.batch_size=4 --json)
code 0 "$LEVIN" "${evaluation[@]}"
loss=$(value loss)

# the tokenizer of the data and that of the model are damaged
for folder in data model; do
    head -c 3000 "$folder/tokenizer.json" >cut
    cp --remove-destination cut "$folder/tokenizer.json"
done
code 0 "$LEVIN" "${evaluation[@]}"
says "the tokenizer cannot be read and is left out" err
says "invalid JSON" err
check test "$(value loss)" = "$loss"
code 0 "$LEVIN" train --run_dir=again "${small[@]}" --data.path=data
says "the tokenizer cannot be read and is left out" err
code 0 "$LEVIN" train --run_dir=tuned --data.kind=tokens --model.init=model --data.path=data --trainer.max_steps=1 \
    --trainer.batch_size=4 --trainer.limit_val_batches=4
says "the tokenizer cannot be read and is left out" err
code 0 "$LEVIN" generate model --prompt-ids=1,2,3 --max-new-tokens=4 --ignore-eos --json
json 'len(d["samples"][0]["ids"]) == 4'
says "so there are only ids" err
code 0 "$LEVIN" export model exported
says "the tokenizer cannot be read and is left out" err

# commands that read or write text need it
for command in "generate model --prompt=int" "generate model" "generate model --prompts=text.txt" "generate model --prompt-ids=1 --stop=x" \
    "prepare text.txt --tokenizer=model --out=more" "tokenize --tokenizer=model"; do
    # shellcheck disable=SC2086 # words
    code 1 "$LEVIN" $command
    one_error
    says "tokenizer" err
    says "invalid JSON" err
done
printf 'label\ttext\n0\tone\n1\ttwo\n0\tthree\n1\tfour\n' >rows.tsv
code 1 "$LEVIN" train --run_dir=rows --model.init=model --data.path=rows.tsv --task.kind=classify --trainer.max_steps=1 --trainer.batch_size=2
one_error
says "data.kind=labelled, which cuts texts into tokens, needs the tokenizer, which cannot be read" err
code 1 "$LEVIN" train --run_dir=masks --model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --data.kind=tokens \
    --data.path=data --task.kind=mlm --trainer.max_steps=1 --trainer.batch_size=2
one_error
says "task.kind=mlm needs the tokenizer, which cannot be read" err
