# levin prepare: files that are not text are refused by name or by their bytes, each file goes to the reader of its
# type, existing output is not replaced unasked, and a validation split is held out of any amount of data.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2
prepare() { "$LEVIN" prepare "$@" --tokenizer="$gpt2"; }
make_text
head -c 20000 text.txt >some.txt

# --- files that are not text ---
refused() { # refused SENTENCE prepare-arguments: one sentence, nothing made
    local sentence=$1
    shift
    for way in "$LEVIN prepare" prepare; do
        code 1 $way "$@" --out=none
        one_error
        says "$sentence" err
        check [ ! -e none ]
    done
}
for name in t.parquet t.PARQUET t.csv t.tsv t.xlsx t.feather; do
    cp some.txt $name
    refused "'$name' is" $name
    says ".to_json('t.jsonl'" err
    code 1 prepare text --input=$name --out=none
    says "'$name' is" err
    check [ ! -e none ]
done
says "pandas.read_feather('t.feather')" err
for name in a.png a.jpeg a.mp3 a.pdf a.docx a.zip a.safetensors a.npy a.bin a.so; do
    cp some.txt $name
    refused "'$name' is" $name
done
says "a program" err
# with any name: a text has no zero bytes
printf 'some text\0and more' >zero.txt
refused "zero byte at offset 9" zero.txt
printf 'some text\0and more' >README
refused "zero byte at offset 9" README
code 1 prepare text --input=README --out=none
says "'README' is a binary file, not text: it has a zero byte at offset 9" err
says "iconv" err
code 1 prepare text --input=zero.txt --out=none
says "'zero.txt' is a binary file" err
head -c 5000000 /dev/zero | tr '\0' 'a' | sed 's/aaaaaaaaaa/aaaaaaaaa /g' >late.txt
printf '\0' >>late.txt
code 1 prepare text --input=late.txt --out=none
says "'late.txt' is a binary file, not text: it has a zero byte at offset 5000000" err
code 1 "$LEVIN" train --run_dir=run --data.path=zero.txt
says "'zero.txt' is a binary file" err
# in a folder they are skipped, counted and named; --bad-lines=refuse refuses there too
mkdir mixed && cp some.txt t.parquet zero.txt mixed
cp text.txt mixed/more.txt
code 0 prepare text --input=mixed --out=passed --json
json 'd["files_passed_over"] == 2 and d["train_documents"] + d["val_documents"] == 2'
says "mixed/zero.txt: skipped" err
code 1 prepare text --input=mixed --out=none --bad-lines=refuse
says "'mixed/zero.txt' is a binary file" err

# --- the reader of each file type ---
printf '{"text": "one two three four five"}\n{"text": "six seven eight nine ten"}\n' >lines.jsonl
cp lines.jsonl lines.ndjson
code 0 prepare jsonl --input=lines.jsonl --out=said
code 0 prepare lines.jsonl
same_file said/train.bin lines/train.bin
same_file said/val.bin lines/val.bin
code 0 prepare --data.path=lines.ndjson --out=by-key
same_file said/train.bin by-key/train.bin
code 2 "$LEVIN" prepare lines.jsonl --out=none
says "lines of JSON" err
says "--tokenizer" err
mkdir folder && cp some.txt text.txt folder
code 0 prepare text --input=folder --out=said-folder
code 0 prepare folder --out=by-folder
same_file said-folder/train.bin by-folder/train.bin
if [ -n "$(ldconfig -p 2>/dev/null | grep libarchive.so.13)" ]; then
    tar cf folder.tar folder/some.txt folder/text.txt
    cp folder.tar damaged.tar
    printf x | dd of=damaged.tar bs=1 seek=150 conv=notrunc 2>/dev/null # its header's checksum
    code 1 prepare damaged.tar --out=none
    says "'damaged.tar' begins as an archive does, and cannot be read as one; it is damaged or cut" err
    gzip -k some.txt lines.jsonl
    code 0 prepare folder.tar --out=unpacked-folder
    same_file said-folder/train.bin unpacked-folder/train.bin
    code 0 prepare some.txt.gz --out=unpacked
    code 0 prepare text --input=some.txt --out=plain
    same_file plain/train.bin unpacked/train.bin
    code 0 prepare lines.jsonl.gz --out=unpacked-lines
    same_file said/train.bin unpacked-lines/train.bin
fi
# a given kind is used
code 0 "$LEVIN" prepare lines.jsonl --data.kind=chars --out=characters
says '"vocabulary"' characters/train.bin.json

# --- existing output ---
keeps() { # keeps FOLDER prepare-arguments: refused, and nothing changed
    local folder=$1
    shift
    picture "$folder" >before
    code 2 "$@" --out="$folder"
    one_error
    says "exists already" err
    says "--overwrite" err
    picture "$folder" | diff before - || fail "a refused preparation changed $folder"
    code 0 "$@" --out="$folder" --overwrite
}
code 0 "$LEVIN" prepare some.txt --out=there
keeps there "$LEVIN" prepare text.txt
keeps there prepare text.txt
keeps there prepare text --input=folder
keeps there prepare jsonl --input=lines.jsonl
mkdir half && echo mine >half/val.bin
keeps half prepare text --input=folder
mkdir model && echo '{"a": 0}' >model/vocab.json
keeps model prepare some.txt
cp -r "$gpt2" same # a tokenizer that exists already is no reason to refuse
code 0 prepare some.txt --out=same
# an interrupted preparation of other input is not removed either
for i in $(seq 15); do cat text.txt; done >long.txt
mkdir many && for i in 1 2 3 4; do cp long.txt many/$i.txt; done
"$LEVIN" prepare text --input=many --out=going --save-every=0 --tokenizer="$gpt2" >going.out 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && [ ! -e going/prepare.state.json ]; do sleep 0.01; done
kill -KILL $pid 2>/dev/null || true
wait $pid 2>/dev/null || true
if [ -e going/prepare.state.json ]; then # unless it was done before it could be interrupted
    picture going >before
    code 2 prepare text --input=folder --out=going
    says "holds an interrupted preparation" err
    picture going | diff before - || fail "an interrupted preparation was changed"
    code 0 prepare text --input=many --out=going # resumes
    code 0 prepare text --input=many --out=whole
    same_file whole/train.bin going/train.bin
fi

# --- a validation split of any amount of data ---
parts() { # parts FOLDER: tokens of both
    echo "$(($(stat -c %s "$1/train.bin") / 2)) $(($(stat -c %s "$1/val.bin") / 2))"
}
# two documents: the one with the smallest hash validates, in either order
rm -rf ab && mkdir ab && printf 'the first of two texts' >ab/a.txt && printf 'and the second one of them' >ab/b.txt
code 0 prepare text --input=ab --out=ab1 --json
json 'd["train_documents"] == 1 and d["val_documents"] == 1'
mv ab/a.txt ab/c.txt
code 0 prepare text --input=ab --out=ab2
same_file ab1/val.bin ab2/val.bin
same_file ab1/train.bin ab2/train.bin
# also where the fraction would take all of them
code 0 prepare text --input=ab --out=ab3 --val-fraction=0.999999 --json
json 'd["train_documents"] == 1 and d["val_documents"] == 1'
# a single one, or one and the same: its last tenth
code 0 prepare text --input=text.txt --out=single --json
json 'abs(d["val_tokens"] / (d["val_tokens"] + d["train_tokens"]) - 0.1) < 0.001'
cat single/train.bin single/val.bin >joined
code 0 prepare text --input=text.txt --out=undivided --val-fraction=0
same_file joined undivided/train.bin
check [ ! -e undivided/val.bin ]
says "no val.bin" out
rm -rf dup && mkdir dup && for i in 1 2 3; do cp some.txt dup/$i.txt; done
code 0 prepare text --input=dup --out=dups --json
json 'd["val_tokens"] > 0 and abs(d["val_tokens"] / (d["val_tokens"] + d["train_tokens"]) - 0.1) < 0.001'
code 0 prepare text --input=dup --out=dropped --drop-duplicates --json
json 'd["duplicates"] == 2 and abs(d["val_tokens"] / (d["val_tokens"] + d["train_tokens"]) - 0.1) < 0.001'
# a document longer than a batch
code 0 prepare text --input=long.txt --out=long --json
json 'abs(d["val_tokens"] / (d["val_tokens"] + d["train_tokens"]) - 0.1) < 0.001'
for n in 1 3; do
    OMP_NUM_THREADS=$n code 0 prepare text --input=long.txt --out=long$n
    same_file long/train.bin long$n/train.bin
    same_file long/val.bin.json long$n/val.bin.json
done
# killed again and again
for i in $(seq 30); do
    if killed_after 0.0$((i * 7 % 90 + 10)) "$LEVIN" prepare text --input=long.txt --out=killed --save-every=0 \
        --tokenizer="$gpt2"; then break; fi
done 2>/dev/null
[ -e killed/val.bin -a ! -e killed/prepare.state.json ] || code 0 prepare text --input=long.txt --out=killed
same_file long/train.bin killed/train.bin
same_file long/val.bin killed/val.bin
# too little to hold anything back: reported
printf 'a' >tiny.txt
code 0 prepare text --input=tiny.txt --out=tiny --end-token=none
says "no val.bin" out
