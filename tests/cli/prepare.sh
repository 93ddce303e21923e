# levin prepare: a text becomes token files with a vocabulary; refusals.
code() { # code WANTED COMMAND...: the exit code, output in out and err
    local wanted=$1 got=0
    shift
    "$@" >out 2>err || got=$?
    [ "$got" = "$wanted" ] || { echo "$*: exit $got, wanted $wanted"; cat out err; exit 1; }
}
says() { grep -qF -- "$1" "$2" || { echo "no '$1' in $2:"; cat "$2"; exit 1; }; }
size() { [ "$(stat -c %s "$1")" = "$2" ] || { echo "$1 has $(stat -c %s "$1") bytes, wanted $2"; exit 1; }; }

printf 'the more it snows, tiddely pom' >snow.txt # 30 characters: 27 and 3
code 0 "$LEVIN" prepare snow.txt
size snow/train.bin 54
size snow/val.bin 6
says "snow/train.bin: 27 tokens" out
says '"vocabulary": " ,dehilmnoprstwy"' snow/train.bin.json
code 0 "$LEVIN" prepare --data.path=snow.txt --out=a/b/c --json
[ "$(cat out)" = '{"out":"a/b/c","vocab_size":16,"train_tokens":27,"val_tokens":3}' ] || { cat out; exit 1; }
cmp snow/train.bin a/b/c/train.bin

printf 'data: {kind: chars, path: snow.txt}\n' >snow.yaml
code 0 "$LEVIN" prepare snow.yaml --out=d
cmp snow/val.bin d/val.bin

# a second preparation replaces the first with --overwrite
printf 'the more it goes, tiddely pom, the more it goes on snowing' >snow.txt
code 2 "$LEVIN" prepare snow.txt
says "'snow/train.bin' exists already" err
size snow/train.bin 54
code 0 "$LEVIN" prepare snow.txt --overwrite
size snow/train.bin 104

code 1 "$LEVIN" prepare missing.txt
says "cannot open 'missing.txt'" err
printf 'abc\xff' >bad.txt
code 1 "$LEVIN" prepare bad.txt
says "byte 0xff at offset 3" err
[ ! -e bad ]
code 2 "$LEVIN" prepare snow.txt --out=none --data.tokenizer=t # the command has flags for these
says "data.tokenizer is 't', and levin prepare has a flag for it: add --tokenizer=t" err
code 2 "$LEVIN" prepare snow.txt --out=none --data.kind=documents
says "data.kind=documents needs a tokenizer: leave data.kind out, and give --tokenizer=MODEL_OR_FILE" err
for what in snow.txt "text --input=snow.txt"; do
    code 2 "$LEVIN" prepare $what --out=none --tokenizer=t --data.val_path=snow.txt
    says "--data.val_path has no effect on \`levin prepare\` with a tokenizer: leave it out; --field" err
done
[ ! -e none ]
code 2 "$LEVIN" prepare --data.kind=mnist
says "data.kind=mnist is read as it is: there is nothing to prepare" err
printf '{"text": "a", "label": 0}\n' >labelled.jsonl
for kind in labelled chat; do
    printf 'data: {kind: %s, path: labelled.jsonl, tokenizer: t}\n' $kind >rows.yaml
    for flag in "" --tokenizer=t; do
        code 2 "$LEVIN" prepare rows.yaml --out=none $flag
        says "data.kind=$kind is read as it is: there is nothing to prepare" err
    done
done
mkdir folder
cp snow.txt folder
printf 'data: {kind: documents, path: folder}\n' >folder.yaml
code 2 "$LEVIN" prepare folder.yaml --out=none --tokenizer=t
says "preparing 'folder', which is a folder of texts" err
code 2 "$LEVIN" prepare
says "data.path" err
code 1 "$LEVIN" prepare snow.txt --out=snow.txt
says "snow.txt" err
