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
for name in t.orc t.CSV t.csv t.tsv t.xlsx t.feather; do
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
# with any name: a text has no NUL bytes
printf 'some text\0and more' >zero.txt
refused "NUL byte at offset 9" zero.txt
printf 'some text\0and more' >README
refused "NUL byte at offset 9" README
code 1 prepare text --input=README --out=none
says "'README' is a binary file, not text: it contains a NUL byte at offset 9" err
says "iconv" err
code 1 prepare text --input=zero.txt --out=none
says "'zero.txt' is a binary file" err
head -c 5000000 /dev/zero | tr '\0' 'a' | sed 's/aaaaaaaaaa/aaaaaaaaa /g' >late.txt
printf '\0' >>late.txt
code 1 prepare text --input=late.txt --out=none
says "'late.txt' is a binary file, not text: it contains a NUL byte at offset 5000000" err
code 1 "$LEVIN" train --run_dir=run --data.path=zero.txt
says "'zero.txt' is a binary file" err
# in a folder they are skipped, counted and named; --bad-lines=refuse refuses there too
mkdir mixed && cp some.txt t.csv zero.txt mixed
cp text.txt mixed/more.txt
code 0 prepare text --input=mixed --out=passed --json
json 'd["files_skipped"] == 2 and d["train_documents"] + d["val_documents"] in (2, 3)'
says "skipped: 'mixed/zero.txt' is a binary file" err
code 1 prepare text --input=mixed --out=none --bad-lines=refuse
says "'mixed/zero.txt' is a binary file" err
# the same for text that is not UTF-8; --encoding converts it, also across the blocks in which a file is read
python3 - <<'P'
def put(name, text, encoding): open(name, "w", encoding=encoding, newline="").write(text)
accents = "caf\u00e9 na\u00efve r\u00e9sum\u00e9\n" * 200
quoted = "\u201ccaf\u00e9\u201d \u2013 5 \u20ac \u0178\n" * 200
wide = "caf\u00e9 \u4f60\u597d \U0001f600\n" * 150001 # more than a batch
for name, text, encodings in (("accents", accents, ("latin-1", "windows-1252", "utf-16")), ("quoted", quoted, ("windows-1252", "utf-16-le")),
                              ("wide", wide, ("utf-16", "utf-16-le"))):
    put(f"{name}.utf-8.txt", text, "utf-8")
    for encoding in encodings: put(f"{name}.{encoding}.txt", text, encoding)
open("wide.utf-16-be.txt", "wb").write(b"\xfe\xff" + wide.encode("utf-16-be"))
P
refused "accents.latin-1.txt' is not UTF-8 text: byte 0xe9 at offset 3 does not belong to a character" accents.latin-1.txt
code 1 prepare accents.latin-1.txt --out=none
says "convert the file with iconv -f ENCODING -t UTF-8 (CP949 for Korean, GB18030 for Chinese" err
says "\`levin prepare\` does it with --encoding=latin-1, windows-1252 or utf-16" err
code 1 prepare text --input=accents.latin-1.txt --out=none
says "byte 0xe9 at offset 3 " err
rm -rf mixed && mkdir mixed && cp some.txt mixed && cp accents.latin-1.txt mixed/b.txt
code 0 prepare text --input=some.txt --out=without --val-fraction=0 --json
tokens=$(value train_tokens)
code 0 prepare text --input=mixed --out=passed --val-fraction=0 --overwrite --json
json "d['files_skipped'] == 1 and d['train_documents'] == 1 and d['train_tokens'] == $tokens"
says "skipped: 'mixed/b.txt' is not UTF-8 text: byte 0xe9 at offset 3" err
code 0 prepare text --input=mixed --out=passed --val-fraction=0 --overwrite
says "1 file skipped: no text by its name, or not UTF-8" out
code 1 prepare text --input=mixed --out=none --bad-lines=refuse
says "'mixed/b.txt' is not UTF-8 text" err
converts() { # converts NAME ENCODING-OF-FILE OPTION: the same tokens as of the UTF-8 file, by both ways
    for way in prepare "prepare text --input"; do
        [ "$way" = prepare ] && joint=" " || joint="="
        code 0 $way$joint$1.utf-8.txt --out=expected --val-fraction=0.2 --overwrite
        code 0 $way$joint$1.$2.txt --out=converted --val-fraction=0.2 --overwrite --encoding=$3 --json
        for part in train val; do same_file expected/$part.bin converted/$part.bin; done
    done
}
converts accents latin-1 latin-1
converts accents windows-1252 windows-1252
converts accents utf-16 utf-16
converts quoted windows-1252 Windows-1252
converts quoted utf-16-le utf-16
for encoding in utf-16 utf-16-le utf-16-be; do converts wide $encoding utf-16; done
printf '{"text": "caf\xe9"}\n' >latin.jsonl && printf '{"text": "caf\xc3\xa9"}\n' >utf.jsonl
code 0 prepare utf.jsonl --out=expected --val-fraction=0 --overwrite
code 0 prepare latin.jsonl --out=converted --val-fraction=0 --overwrite --encoding=latin-1
same_file expected/train.bin converted/train.bin
printf 'five \x80, none \x81' >undefined.txt
code 1 prepare undefined.txt --encoding=windows-1252 --out=none
says "'undefined.txt' is not windows-1252 text: what is at offset 13 does not belong to a character" err
printf 'a\0b\0\0\xd8c\0' >surrogate.txt # half of a surrogate pair
code 1 prepare surrogate.txt --encoding=utf-16 --out=none
says "'surrogate.txt' is not utf-16 text: what is at offset 4 " err
printf 'a\0b\0c' >odd.txt
for way in "prepare odd.txt" "prepare text --input=odd.txt"; do
    code 1 $way --encoding=utf-16 --out=none
    says "'odd.txt' is not utf-16 text: what is at offset 4 " err
done
code 2 prepare some.txt --encoding=koi8-r --out=none
says "--encoding must be utf-8, latin-1, windows-1252 or utf-16, got 'koi8-r'" err
code 2 "$LEVIN" prepare some.txt --encoding=latin-1 --out=none
says "--separator, --allow-special and --encoding need a tokenizer" err
check [ ! -e none ]

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
    says "'damaged.tar' begins like an archive, but cannot be read as one; it is damaged or truncated" err
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
    folder_listing "$folder" >before
    code 2 "$@" --out="$folder"
    one_error
    says "exists already" err
    says "--overwrite" err
    folder_listing "$folder" | diff before - || fail "a refused preparation changed $folder"
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
cp -r "$gpt2" same # an existing tokenizer is not a reason to refuse
code 0 prepare some.txt --out=same
# an interrupted preparation of other input is not removed either
for i in $(seq 15); do cat text.txt; done >long.txt
mkdir many && for i in 1 2 3 4; do cp long.txt many/$i.txt; done
for _ in 1 2 3 4 5; do # on a busy machine it may be done before the signal arrives
    rm -rf going
    "$LEVIN" prepare text --input=many --out=going --save-every=0 --tokenizer="$gpt2" >going.out 2>&1 &
    pid=$!
    while kill -0 $pid 2>/dev/null && [ ! -e going/prepare.state.json ]; do sleep 0.01; done
    kill -KILL $pid 2>/dev/null || true
    ended
    [ ! -e going/prepare.state.json ] || break
done
folder_listing going >before
code 2 prepare text --input=folder --out=going
says "holds an interrupted preparation" err
folder_listing going | diff before - || fail "an interrupted preparation was changed"
code 0 prepare text --input=many --out=going # resumes
code 0 prepare text --input=many --out=whole
same_file whole/train.bin going/train.bin

# --- a validation split of any amount of data ---
parts() { # parts FOLDER: tokens of both
    echo "$(($(stat -c %s "$1/train.bin") / 2)) $(($(stat -c %s "$1/val.bin") / 2))"
}
# a few long texts: the exact share, of one of them a part; without a share a tenth, at most 16 windows
sizes() { # sizes TRAIN VAL: of the last preparation
    json "d['train_tokens'] == $1 and d['val_tokens'] == $2"
}
rm -rf books && mkdir books && head -c 120000 text.txt >books/b.txt && tail -c 90000 text.txt >books/a.txt
code 0 prepare books --out=books0 --val-fraction=0 --json
all=$(value train_tokens)
for fraction in 0.05 0.3 0.9; do
    code 0 prepare text --input=books --out=books-$fraction --val-fraction=$fraction --json
    val=$(python3 -c "print(int($fraction * $all + 0.5))")
    sizes $((all - val)) $val
    python3 - books-$fraction <<'END'
import array, collections, sys
read = lambda name: array.array("H", open(name, "rb").read())
train, val, all = (read(name) for name in (f"{sys.argv[1]}/train.bin", f"{sys.argv[1]}/val.bin", "books0/train.bin"))
assert collections.Counter(train) + collections.Counter(val) == collections.Counter(all)
END
done
code 0 prepare books --out=books1 --json
val=$(((all + 9) / 10))
sizes $((all - val)) $val
code 0 prepare books --out=books2 --json --model.block_size=64
sizes $((all - 1024)) 1024
code 0 prepare books --out=books3
says " tokens (10 %) of 1 document" out
rm -rf few && mkdir few && head -c 3000 text.txt >few/a.txt && tail -c 3000 text.txt >few/b.txt
code 0 prepare few --out=few1 --json
json 'd["val_tokens"] == (d["train_tokens"] + d["val_tokens"] + 9) // 10'
code 2 prepare books --out=none --val-fraction=0.0005 --model.block_size=64
says "--val-fraction=0.0005 leaves $(((all + 1000) / 2000)) of $all tokens for validation, and a window of model.block_size=64 needs 65: the smallest fraction that works is" err
check [ ! -e none/train.bin ]
code 0 prepare books --out=smallest --model.block_size=64 --json --val-fraction="$(sed -n 's/.*fraction that works is \([0-9.e-]*\).*/\1/p' err)"
json 'd["val_tokens"] >= 65'
code 2 prepare few --out=none --val-fraction=0.999999
says "tokens for training, and each part needs 2: the largest fraction that works is" err
# a single text without a kind obeys, too, by tokenizer and by characters
for way in "$LEVIN prepare" prepare; do
    code 0 $way some.txt --out=share --json
    json '0.89 < d["train_tokens"] / (d["train_tokens"] + d["val_tokens"]) < 0.91'
    code 0 $way some.txt --out=share --json --overwrite --val-fraction=0
    json 'd["val_tokens"] == 0'
    check [ ! -e share/val.bin -a ! -e share/val.bin.json ]
    code 0 $way some.txt --out=share --json --overwrite --val-fraction=0.5
    json '0.45 < d["train_tokens"] / (d["train_tokens"] + d["val_tokens"]) < 0.55'
    code 2 $way some.txt --out=none --val-fraction=0.00001
    says "the smallest fraction that works is" err
    check [ ! -e none/train.bin ]
    rm -rf share none
done
code 2 "$LEVIN" prepare some.txt --data.val_path=text.txt --out=none --val-fraction=0.5
says "--val-fraction=0.5 divides a single text, and the data ('some.txt') have their own validation data" err
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

# --- documents of one text, special tokens in texts, byte order marks, line ends ---
neox=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-neox
end='<|endoftext|>'
python3 - <<'P'
import json
docs = ["the cat %d sat\non the mat." % i for i in range(50)]
def put(name, text): open(name, "w", newline="").write(text)
put("lines.txt", "\n<|endoftext|>\n".join(docs) + "\n<|endoftext|>\n")
put("inline.txt", "<|endoftext|>".join(docs))
put("crlf.txt", "\r\n<|endoftext|>\r\n".join(docs) + "\r\n")
put("docs.jsonl", "".join(json.dumps({"text": d}) + "\n" for d in docs))
put("ends.jsonl", "".join(json.dumps({"text": d + "<|endoftext|> x"}) + "\n" for d in docs))
put("mark.txt", "\ufeffhello there, hello there, hello there, all of you\n")
put("plain.txt", "hello there, hello there, hello there, all of you\n")
P
code 0 "$LEVIN" prepare docs.jsonl --tokenizer="$neox" --val-fraction=0.1 --out=of-docs
for text in lines inline crlf; do
    code 0 "$LEVIN" prepare $text.txt --tokenizer="$neox" --separator="$end" --val-fraction=0.1 --out=of-$text --json
    json 'd["train_documents"] + d["val_documents"] in (50, 51) and d["special_texts"] == 0 and d["empty_documents"] == 0'
    same_file of-docs/train.bin of-$text/train.bin
    same_file of-docs/val.bin of-$text/val.bin
    silent_about warning err
done
code 0 prepare text --input=lines.txt --separator="$end" --out=from-input --json
json 'd["train_documents"] + d["val_documents"] in (50, 51)'
code 0 "$LEVIN" prepare docs.jsonl --tokenizer="$neox" --separator="$end" --out=unused
says "do not contain '$end'" err
code 2 "$LEVIN" prepare lines.txt --separator="$end" --out=none
says "need a tokenizer" err
# a document longer than a batch, of many megabytes
python3 -c 'open("large.txt", "w").write("%s<|endoftext|>b" % ("a cat " * 800000))'
code 0 "$LEVIN" prepare large.txt --tokenizer="$neox" --separator="$end" --out=large --json
json 'd["train_documents"] + d["val_documents"] in (2, 3)'
# special tokens: ordinary text, counted and reported; or the tokens
for way in "$LEVIN prepare ends.jsonl" "$LEVIN prepare text --input=ends.jsonl" "$LEVIN prepare lines.txt"; do
    code 0 $way --tokenizer="$neox" --out=ordinary --json --overwrite
    json 'd["special_texts"] == 50'
    says "such as $end, 50 times" err
done
code 0 "$LEVIN" prepare text --input=ends.jsonl --tokenizer="$neox" --out=ordinary --overwrite
code 0 "$LEVIN" prepare ends.jsonl --tokenizer="$neox" --out=special --allow-special --val-fraction=0 --json
json 'd["special_texts"] == 0'
silent_about warning err
code 0 "$LEVIN" prepare lines.txt --tokenizer="$neox" --out=special-one --allow-special
python3 - <<'P'
import array
count = lambda *names: sum(array.array("H", open(n, "rb").read()).count(0) for n in names)
assert count("special/train.bin") == 100 and count("ordinary/train.bin", "ordinary/val.bin") == 50
assert count("special-one/train.bin", "special-one/val.bin") == 50
P
# a text that begins with the token that the tokenizer puts before it
printf '<s>a man\n' >begins.txt
code 0 "$LEVIN" prepare text --input=begins.txt --tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama2" --allow-special --out=twice
says "1 document begins with a token that the tokenizer also adds" err
# a byte order mark is not part of a text
for way in "$LEVIN prepare FILE" "$LEVIN prepare FILE --tokenizer=$neox" "$LEVIN prepare text --input=FILE --tokenizer=$neox"; do
    for text in mark plain; do code 0 ${way/FILE/$text.txt} --out=$text --overwrite; done
    same_file plain/train.bin mark/train.bin
    same_file plain/val.bin mark/val.bin
done
printf '\xef\xbb\xbf' >only-mark.txt
code 1 "$LEVIN" train --run_dir=run --data.path=only-mark.txt
says "holds only a byte order mark" err
code 1 "$LEVIN" prepare only-mark.txt --tokenizer="$gpt2" --out=nothing
says "'only-mark.txt' holds only a byte order mark: there is no text to train on" err
code 1 "$LEVIN" tokenizer train --input=only-mark.txt --out=nothing
says "there is no text in 'only-mark.txt'" err
check [ ! -e nothing ]
for text in mark plain; do code 0 "$LEVIN" tokenizer train --input=$text.txt --vocab-size=300 --out=learned-$text; done
same_file learned-mark/tokenizer.json learned-plain/tokenizer.json
# line ends of Windows are learned, which is reported
code 0 "$LEVIN" prepare crlf.txt --out=crlf-chars
says "'crlf.txt': 99 lines end in CR LF" err
code 0 "$LEVIN" prepare crlf.txt --tokenizer="$neox" --out=crlf-one --json
json 'd["crlf_lines"] == 99'
code 0 "$LEVIN" prepare text --input=crlf.txt --tokenizer="$neox" --out=crlf-text
says "99 lines end in CR LF" out
