# Addresses in a store for every kind of path: data, validation, tokenizer, initial weights, models; the same bits as from local
# files. Downloaded once, again if the store has another version, and cached within a limit.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
s3_server
root=s3root/bucket
requests() { grep -c 'GET\|HEAD' s3.log || true; }
make_text
cp text.txt $root/text.txt
train here
train there --data.path=s3://bucket/text.txt 2>err
same_run here there
check [ -f "$(find cache/files -name text.txt)" ]
# a second run fetches nothing; another version is fetched
before=$(find cache/files -name text.txt -printf '%i %T@')
train there2 --data.path=s3://bucket/text.txt 2>err
check [ "$before" = "$(find cache/files -name text.txt -printf '%i %T@')" ]
printf changed >"$(find cache/files -name text.txt)" # changed on this machine
train there3 --data.path=s3://bucket/text.txt 2>err
same_run here there3
{ cat text.txt; echo more; } >$root/text.txt
code 0 "$LEVIN" prepare s3://bucket/text.txt --out=prepared
{ cat text.txt; echo more; } | cmp - "$(find cache/files -name text.txt)"
# token files, with what describes them, from a folder and by name
code 0 "$LEVIN" prepare text.txt --out=tokens
code 0 cp_ --recursive tokens s3://bucket/tokens
train tokens_here --data.kind=tokens --data.path=tokens
train tokens_there --data.kind=tokens --data.path=s3://bucket/tokens 2>err
same_run tokens_here tokens_there
rm -rf cache
train tokens_named --data.kind=tokens --data.path=s3://bucket/tokens/train.bin --data.val_path=s3://bucket/tokens/val.bin 2>err
same_run tokens_here tokens_named
code 0 "$LEVIN" generate tokens_named --max-new-tokens=5 --prompt=int
# what the store no longer has is removed from the cache, whether the folder or one file is named
for path in tokens tokens/train.bin; do
    echo '{}' >$root/tokens/special_tokens_map.json
    train tokens_more --data.kind=tokens --data.path=s3://bucket/$path --data.val_path=s3://bucket/tokens/val.bin --overwrite 2>err
    check [ -n "$(find cache/files -name special_tokens_map.json)" ]
    rm $root/tokens/special_tokens_map.json
    train tokens_more --data.kind=tokens --data.path=s3://bucket/$path --data.val_path=s3://bucket/tokens/val.bin --overwrite 2>err
    check [ -z "$(find cache/files -name special_tokens_map.json)" ]
done
# models: a run, a checkpoint, best, a model directory
code 0 cp_ --recursive here s3://bucket/runs/here
code 0 "$LEVIN" evaluate here --json --data.path=text.txt
cp out evaluated
for model in runs/here runs/here/ runs/here/checkpoints runs/here/checkpoints/step-8; do
    code 0 "$LEVIN" evaluate s3://bucket/$model --json --data.path=text.txt
    sed 's/"seconds":[^,}]*//;s/"tokens_per_s":[^,}]*//' out >out.there
    sed 's/"seconds":[^,}]*//;s/"tokens_per_s":[^,}]*//' evaluated | cmp - out.there || fail "$model gives other numbers"
done
check [ -z "$(find cache/files -name optimizer.safetensors)" ]
train from_there --model.init=s3://bucket/runs/here --overwrite 2>err
train from_here --model.init=here
same_weights from_here from_there
code 0 "$LEVIN" export s3://bucket/runs/here exported
code 0 cp_ --recursive exported s3://bucket/exported
code 0 "$LEVIN" generate s3://bucket/exported --max-new-tokens=5
# a model's folder: cached files of other uses, such as a model below it, stay; those that the model no longer has are removed
code 0 cp_ --recursive exported s3://bucket/exported/below
code 0 "$LEVIN" generate s3://bucket/exported/below --max-new-tokens=5
below=$(find cache/files -path '*exported/below/model.safetensors')
before=$(stat -c '%i %y' "$below")
echo '{}' >$root/exported/special_tokens_map.json
code 0 "$LEVIN" generate s3://bucket/exported --max-new-tokens=5
check [ "$(stat -c '%i %y' "$below")" = "$before" ]
check [ -s "$(find cache/files -path '*/exported/special_tokens_map.json')" ]
rm $root/exported/special_tokens_map.json
code 0 "$LEVIN" generate s3://bucket/exported --max-new-tokens=5
check [ -z "$(find cache/files -path '*/exported/special_tokens_map.json')" ]
# the limit of the cache: least recently used files are removed first; a file that does not fit is an error
export LEVIN_CACHE=$PWD/small
for i in 1 2 3; do random_file $root/r$i 300000; done
for i in 1 2 3; do
    LEVIN_CACHE_SIZE=700000 code 1 "$LEVIN" tokenize --tokenizer=s3://bucket/r$i
    sleep 1.1
done
check [ -z "$(find small/files -name r1)" ]
check [ -n "$(find small/files -name r2)" ] && check [ -n "$(find small/files -name r3)" ]
LEVIN_CACHE_SIZE=200k code 1 "$LEVIN" tokenize --tokenizer=s3://bucket/r1
says "more than the limit of the cache" err
# missing files
code 1 "$LEVIN" train --run_dir=x --data.path=s3://bucket/none
says "'s3://bucket/none' does not exist" err
code 2 "$LEVIN" evaluate s3://bucket/none --data.path=text.txt
says "there is no model 's3://bucket/none'" err
