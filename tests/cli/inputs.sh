# Anything but a regular file is refused where one is needed, before it is opened: a pipe without a writer, an endless
# device, a socket, a folder, as data, model, shard, tokenizer or state. Pipes are read where a stream is expected.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
head -c 20000 text.txt >input.txt
code 0 train run --trainer.max_steps=4
mkfifo pipe
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
kinds=(pipe socket)
if mknod zero c 1 5 2>/dev/null && head -c 1 zero >/dev/null 2>&1; then kinds+=(zero); fi # only where devices can be created
refused() { # refused COMMAND...: one sentence, quickly, with little memory
    local got=0
    ([ -n "${LVN_SANITIZE:-}" ] || ulimit -v 4000000; exec timeout 600 "$@") >out 2>err </dev/null || got=$?
    case $got in 1 | 2) ;; *) fail "$*: exit $got, $(cat out err)" ;; esac
    one_error
    grep -qE "regular file|no recipe|it is neither a file nor a folder|no model|is damaged|neither" err || fail "$*: says $(cat err)"
}
for it in "${kinds[@]}"; do
    for kind in chars tokens; do
        refused "$LEVIN" train --data.kind=$kind --data.path="$it" --run_dir=no --model.kind=nanogpt --model.n_layer=1
    done
    refused "$LEVIN" train "$it"
    refused "$LEVIN" train --model.kind=mnist-mlp --data.kind=mnist --data.path="$it" --run_dir=no
    refused "$LEVIN" evaluate run --data.path="$it"
    refused "$LEVIN" generate "$it"
    refused "$LEVIN" prepare "$it" --out=no
    refused "$LEVIN" cp "$it" copy
    refused "$LEVIN" launch --hostfile="$it" -n 1 -- train input.txt
    refused "$LEVIN" tokenize --tokenizer="$it"
    refused "$LEVIN" generate run --prompts="$it"
    # a model, and a run's state
    for file in model.safetensors config.json; do
        rm -rf model
        cp -rL run/checkpoints/last model
        rm -r model/state
        ln -sf "../$it" "model/$file"
        refused "$LEVIN" generate model
        refused "$LEVIN" evaluate model --data.path=input.txt
    done
    for file in settings.yaml checkpoints/step-4/state/optimizer.safetensors checkpoints/step-4/state/state.json; do
        rm -rf broken
        cp -r run broken
        ln -sf "$PWD/$it" "broken/$file"
        got=0
        timeout 600 "$LEVIN" train broken --resume --trainer.max_steps=5 >out 2>err </dev/null || got=$?
        [ $got != 124 ] || fail "--resume with $file as $it hangs"
        [ $got = 0 ] || one_error # if a checkpoint is damaged, the run may start from the beginning, with a message
    done
done
[ ! -e no ] || fail "a folder was left"

# so is a pointer of Git LFS, in place of any file; in an archive it is skipped
printf '%s\n' 'version https://git-lfs.github.com/spec/v1' "oid sha256:$(printf '%064d' 7)" 'size 12345' >pointer
pointed() { # pointed FILE COMMAND...
    local file=$1
    shift
    code 1 "$@"
    one_error
    says "$file' is a pointer of Git LFS, not the file itself: run \`git lfs pull\` in its folder" err
}
for name in p.txt p.csv p.jsonl p.parquet p.bin p.txt.gz; do
    cp pointer "$name"
    pointed $name "$LEVIN" train "$name" --run_dir=no
done
mkdir texts
cp input.txt texts
cp pointer texts/b.txt
pointed texts/b.txt "$LEVIN" train texts --run_dir=no
rm -rf no
tar cf texts.tar texts
code 0 "$LEVIN" prepare texts.tar --tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2" --out=no
says "skipped: 'texts.tar/texts/b.txt' is a pointer of Git LFS" err
for file in model.safetensors config.json tokenizer.json pytorch_model.bin; do
    rm -rf model
    cp -rL run/checkpoints/last model
    [ $file != pytorch_model.bin ] || rm model/model.safetensors
    rm -r model/state
    cp pointer model/$file
    pointed $file "$LEVIN" generate model --prompt=a
done
cp pointer p.gguf
pointed p.gguf "$LEVIN" generate p.gguf --prompt=a
{ cat pointer && seq 500; } >more.txt # a text that begins as a pointer
code 0 "$LEVIN" train more.txt --run_dir=more --trainer.max_steps=1
# where a stream is allowed
"$LEVIN" tokenize --tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" <input.txt >ids
check [ -s ids ]
sed 's/^/# /; $a name: piped' <<<'a recipe' >recipe.yaml
code 0 "$LEVIN" plan <(cat recipe.yaml) --data.path=input.txt --show-settings
says piped out

# a folder that is not a run has nothing to watch
code 2 "$LEVIN" watch model
one_error
says "'model' is not a run: it has no settings.yaml and no status.json; give the folder of a run" err
