# Settings that are not given are detected: the kind of data from the files; `levin train my.txt` works, and reports
# what it chose.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
short=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.batch_size=4
    --trainer.max_steps=2 --trainer.limit_val_batches=2)

# a text in place of a recipe: the run is named after it
cp text.txt my.txt
code 0 "$LEVIN" train my.txt "${short[@]}"
says "'my.txt' is read as data.kind=chars" err
says "for model.kind=nanogpt" err
check test -d runs/my/checkpoints/last
grep -A 9 '^data:' runs/my/settings.yaml | grep -q 'kind: chars' || fail "the run does not keep what was found"
code 0 "$LEVIN" train my.txt --resume "${short[@]}" --trainer.max_steps=3
says "continuing after step 2" err
code 0 "$LEVIN" train --run_dir=key --data.path=my.txt "${short[@]}"
says "'my.txt' is read as data.kind=chars" err
code 0 "$LEVIN" train --run_dir=said --data.kind=chars --data.path=my.txt "${short[@]}"
silent_about "taken" err
code 2 "$LEVIN" train my.txt --data.path=text.txt
says "'my.txt' and --data.path both name the data to train on" err

# token files: a folder, or one
code 0 "$LEVIN" prepare my.txt --out=tokens
code 0 "$LEVIN" train tokens/ "${short[@]}"
says "'tokens/' is read as data.kind=tokens" err
check test -d runs/tokens
code 0 "$LEVIN" train tokens/train.bin --run_dir=one "${short[@]}"
says "'tokens/train.bin' is read as data.kind=tokens" err
code 0 "$LEVIN" plan tokens --json "${short[@]}"

# MNIST's files select a model that reads them
mkdir digits
python3 "$LEVIN_SOURCE/tests/cli/drawn_digits.py" digits 240 48
code 0 "$LEVIN" train digits --trainer.max_steps=2 --trainer.batch_size=8
says "'digits' is read as data.kind=mnist" err
says "for model.kind=mnist-cnn" err
code 2 "$LEVIN" train digits --model.kind=nanogpt --run_dir=no
says "the model 'nanogpt' reads" err

# files that cannot be trained on: the message says how to prepare them
echo '{"text": "one"}' >lines.jsonl
code 1 "$LEVIN" train lines.jsonl
says "'lines.jsonl' is lines of JSON, on which levin cannot train directly: \`levin prepare lines.jsonl --tokenizer=" err
tar cf texts.tar my.txt
code 1 "$LEVIN" train --data.path=texts.tar
says "'texts.tar' is an archive, on which levin cannot train directly" err
mkdir texts && cp my.txt texts
code 1 "$LEVIN" train --data.path=texts
says "'texts' is a folder, on which levin cannot train directly (there is no train.bin in it" err
code 2 "$LEVIN" train texts
says "'texts' is a folder, not a recipe, and no data to train on" err
: >table.parquet
code 1 "$LEVIN" train table.parquet
says "'table.parquet' is a table, no text" err
code 2 "$LEVIN" train nothing.txt
says "there is no recipe 'nothing.txt'" err
