# Checkpoints of adapters in stores: a run in a store with its base on this machine; a base in a store; a folder of PEFT there;
# which files are copied, and the messages about it.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
s3_server
root=s3root/bucket
make_text
train base --trainer.max_steps=4 >/dev/null 2>&1
code 0 "$LEVIN" export base plain
tiny=(--model.init=plain --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=4 --trainer.val_check_interval=4
    --checkpoint.every_n_steps=4 --lora.rank=2 --optimizer.lr=1e-2)
text() { # text MODEL [keys]
    code 0 "$LEVIN" generate "$1" --prompt="int " --max-new-tokens=8 --temperature=0 "${@:2}"
    cat out
}
train here --trainer.max_steps=8 2>err
text here >told

# the run is in the store, its base on this machine
arguments s3://bucket/runs/there --trainer.max_steps=4
code 0 "$LEVIN" "${all[@]}" --verbose
says "checkpoints are sent to s3://bucket/runs/there without the base model of their adapters" err
rm -rf cache
code 0 "$LEVIN" train s3://bucket/runs/there --resume --trainer.max_steps=8 # on another machine
for file in adapter/adapter_model.safetensors adapter/base.json state/optimizer.safetensors; do
    same_file here/checkpoints/step-8/$file $root/runs/there/checkpoints/step-8/$file
done
rm -rf cache
text s3://bucket/runs/there >now
same_file told now
check [ -z "$(find cache/files -name optimizer.safetensors)" ] # for a MODEL only weights are downloaded, not state

# the base is in the store
code 0 cp_ --recursive plain s3://bucket/plain
train far --model.init=s3://bucket/plain --trainer.max_steps=8 2>err
same_file here/checkpoints/step-8/adapter/adapter_model.safetensors far/checkpoints/step-8/adapter/adapter_model.safetensors
says '"base_model_name_or_path": "s3://bucket/plain"' far/checkpoints/last/adapter/adapter_config.json
mv plain moved # the base on this machine must not be read
rm -rf cache
code 2 "$LEVIN" generate far --prompt="int " # an address in a file is not fetched unasked
says "names the base model 's3://bucket/plain', and an address is fetched, with your credentials, only if you name it yourself" err
check [ ! -e cache ]
text far --lora.base=s3://bucket/plain >now
same_file told now
code 2 "$LEVIN" generate s3://bucket/runs/there --prompt="int "
says "the base model of the adapters in '" err
text s3://bucket/runs/there --lora.base=s3://bucket/plain >now
same_file told now

# copies, and a folder of PEFT's
code 0 cp_ --recursive far s3://bucket/runs/far
says "the base model of the adapters in it, 's3://bucket/plain', is not part of the copy" out
rm -rf cache
text s3://bucket/runs/far --lora.base=s3://bucket/plain >now
same_file told now
code 0 "$LEVIN" export far s3://bucket/peft --format=peft --base=s3://bucket/plain
check [ -f $root/peft/adapter_config.json -a ! -e $root/peft/model.safetensors ]
text s3://bucket/peft --lora.base=s3://bucket/plain >now
same_file told now
# a checkpoint with a copy of the whole model needs no base
mv moved plain
train s3://bucket/runs/copies --lora.merge_checkpoints=true --trainer.max_steps=8 2>err
mv plain moved
rm -rf cache
text s3://bucket/runs/copies >now
same_file told now
