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
says "next:" out
says "    levin generate runs/my --prompt" out
says "    levin train runs/my --resume --trainer.max_steps=4" out
# the command after a run that another limit ended raises that limit, and does something
more() { # more KEY: of the last line of the run
    code 0 "$LEVIN" train my.txt --run_dir=ended "${short[@]:0:5}" --trainer.limit_val_batches=2 "${@:2}"
    says "    levin train ended --resume$1" out
    code 0 "$LEVIN" train ended --resume $1
    silent_about "nothing to do" out
    rm -r ended
}
more " --trainer.max_epochs=2" --trainer.max_epochs=1 --trainer.limit_train_batches=2
more " --early_stopping.patience=2" --trainer.max_steps=9 --optimizer.lr=0 --trainer.val_check_interval=1 --early_stopping.monitor=val_loss \
    --early_stopping.patience=1
code 0 "$LEVIN" train my.txt --run_dir=ended "${short[@]:0:5}" --trainer.max_epochs=1 --trainer.limit_train_batches=2
code 0 "$LEVIN" train ended --resume
says "nothing to do (raise trainer.max_epochs to continue)" out
code 0 "$LEVIN" train my.txt --run_dir=timed "${short[@]:0:5}" --trainer.max_time=0.1s
check [ "$(tail -n 1 out)" = "    levin train timed --resume" ]
code 0 "$LEVIN" train my.txt --resume "${short[@]}" --trainer.max_steps=3
says "continuing after step 2" err
code 0 "$LEVIN" train my.txt --run_dir=key "${short[@]}"
says "key: " err # the name of the folder that is given, not of the text
rm -r key
code 0 "$LEVIN" train --run_dir=key --data.path=my.txt "${short[@]}"
says "'my.txt' is read as data.kind=chars" err
code 0 "$LEVIN" train --run_dir=said --data.kind=chars --data.path=my.txt "${short[@]}"
silent_about "is read as" err
code 2 "$LEVIN" train my.txt --data.path=text.txt
says "'my.txt' and --data.path both name the data to train on" err

# what is not given follows from the size of the text: 20 times through it, but 200 to 2,600 steps; 16 x 64 tokens a step
shows() {
    "$LEVIN" train "${@:3}" --show-settings >shown
    grep -qE "^$1 +$2 +" shown || fail "$1 is not $2: train ${*:3}"
}
head -c 5000 my.txt >short.txt
head -c 100000 my.txt >half.txt
cat my.txt my.txt >long.txt
shows trainer.max_steps 200 short.txt
shows trainer.max_steps $((20 * $(stat -c %s half.txt) / 1024)) half.txt
shows trainer.max_steps 2600 long.txt
# a batch or a context that is given has the same number of epochs
bytes=$((20 * $(stat -c %s half.txt)))
shows trainer.max_steps $((bytes / (64 * 64))) half.txt --trainer.batch_size=64
shows trainer.max_steps $((bytes / (16 * 256))) half.txt --model.block_size=256
shows trainer.max_steps $((bytes / (12 * 128))) half.txt --trainer.micro_batch_size=4 --model.block_size=128
shows trainer.max_steps $((bytes / (40 * 64))) half.txt --trainer.batch_size_per_device=40
shows sample.every_n_steps 2600 long.txt
shows model.n_embd 128 my.txt
shows optimizer.lr 0.002 my.txt
# if a key of a group is given, the group has the defaults that it has without a text
shows optimizer.lr 0.0003 my.txt --schedule.kind=linear
code 0 "$LEVIN" train short.txt --optimizer.lr=1e-2 --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 \
    --trainer.limit_val_batches=1
says "390 steps and the sizes of the model follow from the size of the text" err
says "schedule.kind is constant, because a key of optimizer or schedule is given" err
shows model.n_embd 192 my.txt --model.n_layer=2
shows trainer.max_steps 0 my.txt --trainer.max_epochs=2
shows sample.every_n_steps 0 my.txt --trainer.max_epochs=2
# if only time ends the run, no step is known at which a schedule could end
shows schedule.kind constant my.txt --trainer.max_time=20s
shows optimizer.lr 0.001 my.txt --trainer.max_time=20s
shows schedule.kind cosine my.txt --trainer.max_time=20s --trainer.max_epochs=2
code 0 "$LEVIN" plan my.txt --trainer.max_time=20s
code 0 "$LEVIN" plan my.txt --model.init=runs/my --trainer.max_time=20s
echo 'data: {path: my.txt}' >my.yaml
shows trainer.max_steps 0 my.yaml

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

# a table whose name is that of a text
for _ in $(seq 200); do printf '1\tgood film\t1\n'; done >table.txt
code 0 "$LEVIN" train table.txt "${short[@]}"
lacks "names columns" err
sed -i '1s/^/id\tdocument\tlabel\n/' table.txt
code 0 "$LEVIN" train table.txt "${short[@]}" --overwrite
says "warning: the first line of 'table.txt' names columns, of which one is 'label', and the file is read as a text: to learn its labels, rename it to .tsv" err
code 2 "$LEVIN" train my.txt table.txt
says "several files are given as their folder, or with data.mix" err

# files that cannot be trained on: the message says how to prepare them
echo '[{"text": "one"}]' >lines.jsonl
code 1 "$LEVIN" train lines.jsonl
says "'lines.jsonl' is an array of JSON" err
mkdir pictures && : >pictures/one.png
code 1 "$LEVIN" train --data.path=pictures
says "'pictures' is a folder, on which levin cannot train directly (there is no train.bin in it" err
code 2 "$LEVIN" train pictures
says "'pictures' is a folder, not a recipe, and no data to train on: it has no train.bin, no text files" err
mkdir model && echo '{}' >model/config.json && cp my.txt model # a model's folder is not read as a folder of texts
code 2 "$LEVIN" train model
says "'model' is a folder, not a recipe, and no data to train on" err
: >table.parquet
code 1 "$LEVIN" train table.parquet
says "'table.parquet' cannot be read as a Parquet file" err
code 2 "$LEVIN" train nothing.txt
says "there is no file 'nothing.txt' to train on" err
code 2 "$LEVIN" train nothing
says "there is no recipe 'nothing', and no such file or folder to train on" err

# a recipe in JSON is accepted, because JSON is YAML
echo '{"data": {"path": "my.txt"}, "model": {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 8}, "trainer": {"max_steps": 1}}' >recipe.json
code 0 "$LEVIN" train recipe.json --run_dir=json
says "'my.txt' is read as data.kind=chars" err

# conversations in an archive
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' >talks.jsonl
tar cf talks.tar talks.jsonl
code 2 "$LEVIN" train talks.tar
says "data.kind=chat has no tokenizer" err
# data are read more than once
mkfifo pipe.jsonl
code 1 "$LEVIN" train pipe.jsonl
says "'pipe.jsonl' is a pipe or a device, and data are read more than once: write them to a file" err
code 1 "$LEVIN" train --data.path=<(cat my.txt)
says "is a pipe or a device" err
