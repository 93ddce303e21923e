# The Hugging Face hub: files and folders into its own cache as Python's tools lay it out, tokens, revisions, no network.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
web_server
export HF_ENDPOINT=$web/hub HF_HOME=$PWD/hf
make_text
train run
code 0 "$LEVIN" export run web/hub/org/tiny
mkdir -p web/hub/gated web/hub/datasets
cp -r web/hub/org/tiny web/hub/gated/tiny
random_file web/hub/org/tiny/pytorch_model.bin 2000
random_file web/hub/org/tiny/consolidated.safetensors 2000 # as in Mistral's folders
random_file web/hub/org/tiny/model.fp16.safetensors 2000
mkdir web/hub/org/tiny/onnx
echo '{}' >web/hub/org/tiny/onnx/config.json
code 0 "$LEVIN" ls --json --recursive hf://org/tiny
json '[e["name"] for e in d["entries"]] == ["config.json", "consolidated.safetensors", "model.fp16.safetensors", "model.safetensors", "onnx/config.json", "pytorch_model.bin", "state/vocabulary.json", "tokenizer.json", "tokenizer_config.json"]'
code 0 "$LEVIN" ls hf://org/tiny
says "onnx/" out
code 0 cp_ hf://org/tiny/model.safetensors got
same_file got web/hub/org/tiny/model.safetensors
# a model: only the needed files, laid out as by the hub's own tools
code 0 "$LEVIN" evaluate run --json --data.path=text.txt
cp out evaluated
same_loss() {
    python3 -c 'import json,sys; a,b=[json.load(open(f)) for f in sys.argv[1:]]; assert a["loss"]==b["loss"]' evaluated out
}
code 0 "$LEVIN" evaluate hf://org/tiny --json --data.path=text.txt
same_loss
top=hf/hub/models--org--tiny
commit=$(cat $top/refs/main)
same_file $top/snapshots/$commit/model.safetensors web/hub/org/tiny/model.safetensors
check [ "$(readlink $top/snapshots/$commit/model.safetensors)" = ../../blobs/"$(sha256sum <web/hub/org/tiny/model.safetensors | cut -d' ' -f1)" ]
check [ "$(readlink $top/snapshots/$commit/state/vocabulary.json)" = ../../../blobs/"$(git hash-object web/hub/org/tiny/state/vocabulary.json)" ]
for file in pytorch_model.bin consolidated.safetensors model.fp16.safetensors onnx; do
    check [ ! -e $top/snapshots/$commit/$file ]
done
if python3 -c 'import huggingface_hub' 2>/dev/null; then
    HF_HUB_OFFLINE=1 python3 -c 'import huggingface_hub as h,sys
p=h.snapshot_download("org/tiny"); assert p.endswith(sys.argv[1]), p; assert not h.scan_cache_dir().warnings' "$commit"
fi
# again: existing files are not downloaded; changed content is another commit
ref=$(stat -c %i $top/refs/main)
ask log >/dev/null
code 0 "$LEVIN" evaluate hf://org/tiny --json --data.path=text.txt
ask log >requests
lacks resolve requests
# nothing is written then, so the cache may be one that can only be read
check [ "$(stat -c %i $top/refs/main)" = "$ref" ]
mv $top/refs refs && : >$top/refs
code 0 "$LEVIN" evaluate hf://org/tiny --json --data.path=text.txt
same_loss
rm $top/refs && mv refs $top/refs
# branches of the hub whose names have slashes
for branch in refs/pr/1 refs%2Fpr%2F1; do
    code 0 "$LEVIN" evaluate hf://org/tiny@$branch --json --data.path=text.txt
    same_loss
    code 0 "$LEVIN" ls hf://org/tiny@$branch/onnx
    says config.json out
done
check [ "$(cat $top/refs/refs/pr/1)" = $commit ]
echo '{"new": 1}' >web/hub/org/tiny/generation_config.json
code 0 "$LEVIN" evaluate hf://org/tiny --json --data.path=text.txt
check [ "$(cat $top/refs/main)" != "$commit" ]
code 0 "$LEVIN" evaluate hf://org/tiny@"$(cat $top/refs/main)" --json --data.path=text.txt
code 1 "$LEVIN" ls hf://org/tiny@other
says "the revision 'other'" err
# without the network
HF_HUB_OFFLINE=1 code 0 "$LEVIN" evaluate hf://org/tiny --json --data.path=text.txt
same_loss
HF_ENDPOINT=http://127.0.0.1:1 code 0 "$LEVIN" evaluate hf://org/tiny --json --data.path=text.txt
same_loss
says "the hub cannot be reached" err
HF_HUB_OFFLINE=1 code 1 "$LEVIN" evaluate hf://org/none --data.path=text.txt
one_error
says "HF_HUB_OFFLINE disables fetching" err
# tokens are sent to the hub only
code 1 "$LEVIN" ls hf://gated/tiny
says "set HF_TOKEN" err
HF_TOKEN=wrong code 1 "$LEVIN" ls hf://gated/tiny
says "the token (HF_TOKEN) has no access" err
HF_TOKEN=hf_secret code 0 cp_ hf://gated/tiny/model.safetensors got2
same_file got2 web/hub/org/tiny/model.safetensors
printf 'hf_secret\n' >hf/token
code 0 cp_ --recursive hf://gated/tiny gated
same_file gated/model.safetensors web/hub/org/tiny/model.safetensors
mkdir -p xdg/huggingface .cache/huggingface
cp hf/token xdg/huggingface
code 0 env -u HF_HOME XDG_CACHE_HOME="$PWD/xdg" "$LEVIN" ls hf://gated/tiny
code 1 env -u HF_HOME "$LEVIN" ls hf://gated/tiny
mv xdg/huggingface/token .cache/huggingface
code 0 env -u HF_HOME "$LEVIN" ls hf://gated/tiny
HF_TOKEN=$' hf_secret\n' code 0 "$LEVIN" ls hf://gated/tiny
code 0 env -u HF_HOME -u HOME "$LEVIN" evaluate hf://org/tiny --json --data.path=text.txt # without a home
check [ -d cache/huggingface/hub/models--org--tiny ] && check [ ! -e .cache/huggingface/hub ]
code 1 "$LEVIN" ls hf://org/none
one_error
says "the token (HF_TOKEN) has no access" err
code 1 cp_ got hf://org/tiny/new
says "can only read from this store" err
code 2 "$LEVIN" ls hf://org
says "contains no repository" err
# a published model by its name
mkdir -p web/hub/openai-community
cp -r web/hub/org/tiny web/hub/openai-community/gpt2
code 0 "$LEVIN" evaluate gpt2 --json --data.path=text.txt
same_loss
# a dataset of Parquet files: the shards of train
golden=$LEVIN_SOURCE/tests/golden/parquet gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2
mkdir -p web/hub/org/texts/data here/data
for part in train-00000-of-00002:snappy-plain train-00001-of-00002:zstd-plain test-00000-of-00001:none-plain; do
    cp "$golden/${part#*:}.parquet" web/hub/org/texts/data/${part%%:*}.parquet
    cp "$golden/${part#*:}.parquet" here/data/${part%%:*}.parquet
done
echo "A description." >web/hub/org/texts/README.md
code 0 "$LEVIN" prepare here --tokenizer="$gpt2" --out=of-here --val-fraction=0
code 0 "$LEVIN" prepare hf://datasets/org/texts --tokenizer="$gpt2" --out=of-hub --val-fraction=0
same_file of-here/train.bin of-hub/train.bin
code 0 "$LEVIN" prepare hf://datasets/org/texts/data/test-00000-of-00001.parquet --tokenizer="$gpt2" --out=of-test --val-fraction=0
code 0 "$LEVIN" prepare hf://datasets/org/texts/data --tokenizer="$gpt2" --out=of-data --val-fraction=0
same_file of-here/train.bin of-data/train.bin
# without the hub's list of files it is unknown whether all of them are cached: here the cache has one of two shards
mkdir -p web/hub/org/parts/data
cp here/data/train-* web/hub/org/parts/data
parts=hf://datasets/org/parts
learn() { "$LEVIN" tokenizer train --input="$1" --vocab-size=300 --out=learned --overwrite; }
code 0 learn $parts/data/train-00000-of-00002.parquet
silent_about "others may be missing" err
HF_HUB_OFFLINE=1 code 0 learn $parts
says "'$parts': the 1 file in Hugging Face's cache on this machine is used; the hub's list of files was not read" err
HF_ENDPOINT=http://127.0.0.1:1 code 0 learn $parts
says "others may be missing" err
HF_HUB_OFFLINE=1 code 0 learn $parts/data/train-00000-of-00002.parquet
silent_about "others may be missing" err
code 0 learn $parts
silent_about "others may be missing" err
HF_HUB_OFFLINE=1 code 0 learn $parts
says "the 2 files in" err
# a data set that is cached is prepared and trained on without the network
HF_HUB_OFFLINE=1 code 0 "$LEVIN" prepare hf://datasets/org/texts --tokenizer="$gpt2" --out=of-cache --val-fraction=0
same_file of-here/train.bin of-cache/train.bin
HF_HUB_OFFLINE=1 code 0 "$LEVIN" train --data.path=$parts --data.kind=documents --data.tokenizer="$gpt2" --model.n_layer=1 --model.n_head=2 \
    --model.n_embd=16 --model.block_size=8 --trainer.max_steps=1 --trainer.limit_val_batches=1 --run_dir=of-parts
HF_HUB_OFFLINE=1 code 1 "$LEVIN" prepare hf://datasets/org/none --tokenizer="$gpt2" --out=of-none
says "HF_HUB_OFFLINE" err
# nor if the hub does not respond; `levin cp` is refused, because the cache may have only a part
without_hub() { code "$1" env HF_ENDPOINT=http://127.0.0.1:1 LEVIN_STORE_TRIES=1 "$LEVIN" "${@:2}"; }
without_hub 0 prepare hf://datasets/org/texts --tokenizer="$gpt2" --out=of-cache2 --val-fraction=0
says "the hub cannot be reached; using 'hf://datasets/org/texts' from the cache" err
same_file of-here/train.bin of-cache2/train.bin
without_hub 0 train --data.path=$parts --data.kind=documents --data.tokenizer="$gpt2" --model.n_layer=1 --model.n_head=2 \
    --model.n_embd=16 --model.block_size=8 --trainer.max_steps=1 --trainer.limit_val_batches=1 --run_dir=of-parts2
same_run of-parts of-parts2
without_hub 0 ls hf://datasets/org/texts/data
says "train-00001-of-00002.parquet" out
says "the hub cannot be reached; using" err
without_hub 0 ls hf://datasets/org/texts/data/test-00000-of-00001.parquet
for missing in hf://datasets/org/none hf://datasets/org/texts/none.parquet; do
    without_hub 1 ls $missing
    one_error
    says "the hub cannot be reached" err
done
without_hub 1 cp hf://org/tiny/model.safetensors got3
one_error
says "cannot read 'hf://org/tiny/model.safetensors'" err
HF_HUB_OFFLINE=1 code 1 cp_ hf://org/tiny/model.safetensors got3
one_error
says "cannot be fetched: HF_HUB_OFFLINE is set; unset it" err
check [ ! -e got3 ]
# nor if it is overloaded
for code in 429 503; do
    ask control/busy/$code >/dev/null
    LEVIN_STORE_TRIES=1 code 0 learn $parts
    says "the hub cannot be reached; using '$parts' from the cache" err
    LEVIN_STORE_TRIES=1 code 0 "$LEVIN" ls $parts/data/train-00000-of-00002.parquet
    LEVIN_STORE_TRIES=1 code 1 learn hf://datasets/org/none
    says "the server responded with $code" err
done
ask control/busy/off >/dev/null
# a repository with more files than the hub's first response has
mkdir -p web/hub/org/many/a
for i in $(seq 1100); do echo "text $i" >web/hub/org/many/a/$i.txt; done
random_file web/hub/org/many/z.txt 2000
code 0 "$LEVIN" ls --json --recursive hf://datasets/org/many
json 'len(d["entries"]) == 1101'
for pages in 1 2 3; do
    ask control/repeat/$pages >/dev/null
    code 1 "$LEVIN" ls hf://datasets/org/many
    one_error
    says "the hub sends no usable address of the next page, or pages that it has sent before" err
done
ask control/repeat/off >/dev/null
code 0 cp_ hf://datasets/org/many/z.txt got4
same_file got4 web/hub/org/many/z.txt
# recipes/speedrun.sh with such a dataset; run again it changes nothing
mkdir -p web/hub/org/long/data
python3 - <<'P'
import glob, json, os
texts = "".join(open(f).read() for f in sorted(glob.glob(os.environ["LEVIN_SOURCE"] + "/docs/*.md"))).split("\n\n")
with open("web/hub/org/long/data/train-00000.jsonl", "w") as f:
    for text in texts[:1500]: f.write(json.dumps({"text": text}) + "\n")
with open("talks.jsonl", "w") as f:
    for a, b in zip(texts[:60:2], texts[1:60:2]):
        f.write(json.dumps({"messages": [{"role": "user", "content": a[:80] or "-"}, {"role": "assistant", "content": b[:80] or "-"}]}) + "\n")
P
export LEVIN
speedrun() { OUT=speedrun TEXT=hf://datasets/org/long CHAT=talks.jsonl code 0 bash "$LEVIN_SOURCE/recipes/speedrun.sh" 1 --trainer.batch_size=8 \
    --trainer.max_steps=3 --trainer.limit_val_batches=1; }
speedrun
says "talk with the model: " out
check grep -q '"tokens"' speedrun/tokens/train.bin.json
touch stamp
sleep 1.1
speedrun
check [ -z "$(find speedrun -type f -newer stamp)" ]
