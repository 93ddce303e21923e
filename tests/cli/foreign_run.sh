# What the settings of a run, which may be another user's, do not make a command do: create files outside of the run, the
# current folder and the cache, fetch from an address unasked, load a library. And what a run does not need: the tokenizer
# that it was trained with, where that was.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
mkdir www near far
cp text.txt www
serve_digits 1200 200
export LEVIN_CACHE=$PWD/cache
top=$PWD

# --- data.path and data.url ---
train near/run --data.path="$top/far/away/t.txt" --data.url="$url/text.txt" >/dev/null 2>err
says "data.path, '$top/far/away/t.txt', does not exist: '$url/text.txt' is downloaded to '$top/far/away/t.txt'" err
rm -r far/away
cd near
code 0 "$LEVIN" evaluate run --json
says "data.path, '$top/far/away/t.txt', does not exist: '$url/text.txt' is downloaded to '$top/cache/data/" err
json 'd["loss"] > 0'
loss=$(value loss)
check [ "$(find "$top/cache/data" -type f -name t.txt | wc -l)" = 1 ]
check [ -z "$(ls "$top/far")" ]
code 0 "$LEVIN" evaluate run --json
says "'$url/text.txt' is in the cache, '$top/cache/data/" err
check [ "$(value loss)" = "$loss" ]
# a checksum applies there, too
code 1 "$LEVIN" evaluate run --data.sha256="$(printf '0%.0s' {1..64})"
says "is not the expected file" err
# continuing writes to data.path only in the run or the current folder, or if the path is given again
more=(train run --resume --trainer.max_steps=9)
code 2 "$LEVIN" "${more[@]}"
one_error
says "data.path, '$top/far/away/t.txt', does not exist, and data.url, '$url/text.txt', would be downloaded there" err
says "(run/settings.yaml:" err
says "give the path again, --data.path=$top/far/away/t.txt" err
code 2 "$LEVIN" train run/settings.yaml --run_dir=copy
says "give the path again" err
code 2 "$LEVIN" prepare run/settings.yaml --out=tokens
says "give the path again" err
code 2 "$LEVIN" prepare run/settings.yaml
says "the settings of a run do not say where to write: give a folder, --out=FOLDER" err
check [ -z "$(ls "$top/far")" ]
code 0 "$LEVIN" "${more[@]}" --data.path="$top/far/away/t.txt"
check [ -f "$top/far/away/t.txt" ]
cd ..
steps=0
for place in near/run/deep/t.txt here/t.txt "$top/here/u.txt"; do
    sed -i "s|^  path: .*|  path: '$place'|" near/run/settings.yaml
    code 0 "$LEVIN" train near/run --resume --trainer.max_steps=$((++steps + 9))
    check [ -f "$place" ]
done
# not through a link, not into a hidden folder, and not out of the folder by ".."
ln -s "$top/far/link.txt" near/run/link.txt
ln -s "$top/far" near/run/folder
cd near
for place in run/link.txt run/folder/t.txt run/.ssh/t.txt .profile none/../../far/t.txt ../far/t.txt; do
    sed -i "s|^  path: .*|  path: '$place'|" run/settings.yaml
    code 2 "$LEVIN" train run --resume --trainer.max_steps=20
    says "give the path again" err
    check [ "$(ls -A "$top/far")" = away ]
done
cd ..
# pictures: four files in a folder
"$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.url="$url" --data.sha256="$sums" --data.path="$top/far/digits" \
    --trainer.max_steps=1 --run_dir=near/digits >/dev/null 2>&1
rm -r far/digits
code 0 "$LEVIN" evaluate near/digits
check [ ! -e far/digits ]
check [ "$(find cache/data -name '*-ubyte.gz' | wc -l)" -ge 2 ]
mkdir far/digits
cd near
for command in "evaluate digits" "train digits --resume --trainer.max_steps=2"; do
    code 1 "$LEVIN" $command
    says "put the files of MNIST into data.path" err
    check [ -z "$(ls "$top/far/digits")" ]
done
cd ..

# --- a base model at an address ---
train base --trainer.max_steps=1 >/dev/null 2>&1
"$LEVIN" export base plain >/dev/null
"$LEVIN" train --model.init=plain --data.path=text.txt --lora.rank=2 --trainer.batch_size=4 --trainer.max_steps=1 --run_dir=lora >/dev/null 2>&1
"$LEVIN" export lora peft --format=peft >/dev/null
for address in "$url/secret" s3://bucket/secret gs://bucket/secret; do
    sed -i "s|\"base_model_name_or_path\": \"[^\"]*\"|\"base_model_name_or_path\": \"$address\"|" peft/adapter_config.json
    code 2 "$LEVIN" generate peft --prompt=the --max-new-tokens=2
    one_error
    says "names the base model '$address', and an address is fetched, with your credentials, only if you name it yourself" err
    says "--lora.base=ADDRESS" err
    code 0 "$LEVIN" generate peft --prompt=the --max-new-tokens=2 --lora.base=plain
    code 2 "$LEVIN" export peft whole
    says "\`levin export --base ADDRESS\`" err
done
lacks secret server

# --- libraries, and other addresses ---
train near/library --trainer.mpi_library="$top/evil.so" --trainer.nccl_library="$top/evil.so" >/dev/null 2>&1 # one rank loads none
code 0 "$LEVIN" evaluate near/library
for command in "evaluate near/library" "generate near/library" "train near/library --resume --trainer.max_steps=12"; do
    code 2 env LEVIN_RANK=0 LEVIN_SIZE=2 LEVIN_LOCAL_RANK=0 LEVIN_LOCAL_SIZE=2 "$LEVIN" $command
    says "trainer.mpi_library, '$top/evil.so', comes from the settings of a run" err
done
train near/address --data.path="$url/text.txt" >/dev/null 2>err
silent_about "which the run's settings name" err
for command in "evaluate near/address" "train near/address --resume --trainer.max_steps=12"; do
    code 0 "$LEVIN" $command
    says "reading data.path, '$url/text.txt', which the run's settings name" err
done

# --- the tokenizer of the model is enough ---
cp -r "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" words
printf 'text\tlabel\n' >table.tsv
for i in $(seq 20); do printf 'good day %d\t1\nbad day %d\t0\n' "$i" "$i" >>table.tsv; done
code 0 "$LEVIN" train --model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=32 --data.tokenizer=words \
    --data.path=table.tsv --trainer.batch_size=8 --trainer.max_steps=2 --run_dir=near/bert --quiet
code 0 "$LEVIN" predict near/bert --text="good day" --quiet
cp out want
code 0 "$LEVIN" evaluate near/bert --json
loss=$(value loss)
cd near
code 0 "$LEVIN" predict bert --text="good day" --quiet
same_file ../want out
code 0 "$LEVIN" evaluate bert --data.path=../table.tsv --data.split=val --json
check [ "$(value loss)" = "$loss" ]
code 2 "$LEVIN" predict bert --text="good day" --data.tokenizer=words # given here, it must exist
