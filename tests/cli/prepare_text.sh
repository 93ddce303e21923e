# levin prepare text, jsonl, openwebtext: files, folders and nested archives to token files; the split, duplicates, bad
# lines, kills, damaged archives.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ -n "$(ldconfig -p 2>/dev/null | grep libarchive.so.13)" ] || { echo "skipped: libarchive is not installed, so archives cannot be read"; exit 77; }
gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2
prepare() { "$LEVIN" prepare "$@" --tokenizer="$gpt2"; }

# The same documents as files, lines of JSON and archives of archives.
python3 - <<'END'
import gzip, io, json, lzma, os, random, tarfile
rng = random.Random(5)
words = open(os.environ["LEVIN_SOURCE"] + "/README.md", encoding="utf-8").read().split() + ["\u00e9t\u00e9", "\U0001f600"]
docs = [" ".join(rng.choices(words, k=rng.randrange(5, 400))) + "\n" for _ in range(900)]
docs[17] = docs[3]
docs[500] = docs[3]
json.dump(docs, open("docs.json", "w"))
def members(docs, first):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w") as t:
        for i, d in enumerate(docs):
            info = tarfile.TarInfo(f"{first + i:07}-abc.txt")
            info.size = len(d.encode())
            t.addfile(info, io.BytesIO(d.encode()))
    return b.getvalue()
def put(t, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    t.addfile(info, io.BytesIO(data))
os.makedirs("in/b")
for i in range(300):
    open(f"in/{i:05}.txt", "w", encoding="utf-8", newline="").write(docs[i])
with open("in/a.jsonl", "w") as f:
    for d in docs[300:450]: f.write(json.dumps({"id": 1, "text": d}) + "\n")
with gzip.open("in/b/lines.jsonl.gz", "wt") as f:
    for d in docs[450:600]: f.write(json.dumps({"text": d}) + "\n")
with tarfile.open("in/c.tar", "w") as t:
    for k in range(3):
        put(t, f"openwebtext/urlsf_subset00-{k}_data.xz", lzma.compress(members(docs[600 + 100 * k:700 + 100 * k], 600 + 100 * k)))
    put(t, "openwebtext/README", b"no text")
# archives that must be refused
with tarfile.open("climbs.tar", "w") as t: put(t, "../../a.txt", b"hello")
data, name = b"hello", "a.txt"
for i in range(12):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w") as t: put(t, name, data)
    data, name = b.getvalue(), f"{i}.tar"
open("deep.tar", "wb").write(data)
open("bomb.txt.xz", "wb").write(lzma.compress(b"a b " * 25_000_000, preset=0))
open("cut.tar", "wb").write(open("in/c.tar", "rb").read()[:5000])
open("cut.jsonl.gz", "wb").write(open("in/b/lines.jsonl.gz", "rb").read()[:3000])
with open("bad.jsonl", "w") as f: f.write('{"text": "good one"}\nnot json\n{"text": 3}\n\n{"other": "x"}\n["text"]\n{"text": ""}\n{"text": "good two"}\n')
END

code 0 prepare text --input=in --out=all --val-fraction=0.1 --json
# a document that is divided counts in both splits
json 'd["train_documents"] + d["val_documents"] in (900, 901) and 50 < d["val_documents"] < 140 and d["bad_lines"] == 0'
json 'd["val_tokens"] == int(0.1 * (d["train_tokens"] + d["val_tokens"]) + 0.5)'
json 'd["files_skipped"] == 1 and d["vocab_size"] == 500'
[ "$(stat -c %s all/train.bin)" = $((2 * $(value train_tokens))) ] || fail "size of train.bin"

# ids as levin tokenize gives them, an end token after each document, in the order of the names
python3 - "$LEVIN" "$gpt2" <<'END'
import array, json, subprocess, sys
docs = [d.encode() for d in json.load(open("docs.json"))] # the two parts may be cut within a character
docs = docs[:300] + docs[300:450] + docs[450:600] + docs[600:]
stored = {}
for part in ("train", "val"):
    ids = array.array("H", open(f"all/{part}.bin", "rb").read())
    side = json.load(open(f"all/{part}.bin.json"))
    assert side["tokens"] == len(ids) and side["dtype"] == "uint16" and side["vocab_size"] == 500, side
    text = subprocess.run([sys.argv[1], "tokenize", f"--tokenizer={sys.argv[2]}", "--decode=-"],
                          input=",".join(map(str, ids)).encode(), capture_output=True, check=True).stdout
    stored[part] = text.split(b"<|endoftext|>")
    if not stored[part][-1]: stored[part].pop()
    assert len(stored[part]) == side["documents"]
# the parts have all documents, of which at most one is cut
whole = docs.copy()
pieces = [d for part in stored.values() for d in part if not (d in whole and not whole.remove(d))]
assert len(whole) <= 1 and (pieces[0] + pieces[1] == whole[0] or pieces[1] + pieces[0] == whole[0] if whole else not pieces), pieces
numbers = {d: i for i, d in enumerate(docs) if docs.count(d) == 1}
for part in stored.values():  # in their order, except those that were moved to the other split
    order = [numbers[d] for d in part if d in numbers]
    assert sum(a > b for a, b in zip(order, order[1:])) <= 1, order
END
"$LEVIN" tokenize --tokenizer="$gpt2" <in/00000.txt >one
check [ -s one ]

# The number of threads changes nothing. Names and folders change only the order; which documents validate stays the same.
for n in 1 4; do
    OMP_NUM_THREADS=$n code 0 prepare text --input=in --out=t$n --val-fraction=0.1
    same_file all/train.bin t$n/train.bin
    same_file all/val.bin t$n/val.bin
    same_file all/train.bin.json t$n/train.bin.json
done
mkdir moved && cp in/b/lines.jsonl.gz moved/00.jsonl.gz && cp in/c.tar moved/a.tar && cp in/a.jsonl moved/z.jsonl && cp in/*.txt moved
code 0 prepare text --input=moved --out=m --val-fraction=0.1
[ "$(stat -c %s all/val.bin)" = "$(stat -c %s m/val.bin)" ] || fail "the validation split changed"
code 0 prepare text --input=in --out=seed --val-fraction=0.1 --seed=1
! cmp -s all/val.bin seed/val.bin || fail "another seed gives the same split"

# links to folders are followed; a folder is read once, under its own name if it has one, and cycles are not followed
mkdir -p linked/own elsewhere/deep plain
for name in linked/own/x elsewhere/y elsewhere/deep/z; do echo "a document, $name" >$name.txt; done
ln -s own linked/again && ln -s ../elsewhere linked/far && ln -s . linked/here && ln -s none linked/nothing
ln -s ../linked elsewhere/back && ln -s deep elsewhere/again
cp elsewhere/deep/z.txt plain/1.txt && cp elsewhere/y.txt plain/2.txt && cp linked/own/x.txt plain/3.txt
for folder in linked plain; do code 0 prepare text --input=$folder --out=of-$folder --val-fraction=0; done
same_file of-plain/train.bin of-linked/train.bin

# a hard link in an archive is the same file again, without its bytes
mkdir same && echo "a document" >same/a.txt && ln same/a.txt same/b.txt && tar cf same.tar same
code 0 prepare text --input=same.tar --out=of-same --val-fraction=0 --json
json 'd["train_documents"] == 1 and d["empty_documents"] == 0'

# a file that cannot be reached is not left out
ln -s "$(printf 'x%.0s' $(seq 300))" linked/unknown
code 1 prepare text --input=linked --out=of-unknown
says "cannot read 'linked/unknown'" err

# duplicates: three of the same document
code 0 prepare text --input=in --out=d --val-fraction=0.1 --drop-duplicates --json
json 'd["duplicates"] == 2 and d["train_documents"] + d["val_documents"] in (898, 899)'

# killed repeatedly, it resumes and ends with the same bytes
for i in $(seq 40); do
    if killed_after 0.0$((i * 7 % 90 + 10)) "$LEVIN" prepare text --input=in --out=k --val-fraction=0.1 --drop-duplicates \
        --save-every=0 --tokenizer="$gpt2"; then break; fi
done 2>/dev/null
[ -e k/train.bin -a ! -e k/prepare.state.json ] || code 0 prepare text --input=in --out=k --val-fraction=0.1 --drop-duplicates
same_file d/train.bin k/train.bin
same_file d/val.bin k/val.bin
same_file d/train.bin.json k/train.bin.json
check [ ! -e k/prepare.state.json -a ! -e k/train.bin.part -a ! -e k/hashes.part ]

# a full disk
bash -c 'ulimit -f 100; exec "$@"' - "$LEVIN" prepare text --input=in --out=full --val-fraction=0.1 --tokenizer="$gpt2" >out 2>err && fail "a full disk was not reported"
says "full/train.bin.part" err
check [ ! -e full/train.bin ]
code 0 prepare text --input=in --out=full --val-fraction=0.1
same_file all/train.bin full/train.bin

# training on it; the tokenizer is in the same folder as the tokens
check [ -s all/vocab.json -a -s all/merges.txt ]
code 0 "$LEVIN" train --run_dir=run --data.kind=tokens --data.path=all --model.n_layer=1 --model.n_head=2 --model.n_embd=16 \
    --model.block_size=16 --trainer.max_steps=2 --trainer.limit_val_batches=2

# bad lines: counted and named, or refused
code 0 prepare jsonl --input=bad.jsonl --out=bad --val-fraction=0 --json
json 'd["bad_lines"] == 4 and d["train_documents"] == 2 and d["empty_documents"] == 1'
says "bad.jsonl:2: " err
says "bad.jsonl:3: the field is not a text" err
says "bad.jsonl:5: the field is missing" err
printf '\xef\xbb\xbf{"text": "behind the mark of an editor"}\n{"text": "and one more", "score": NaN}\n' >marked.jsonl
code 0 prepare jsonl --input=marked.jsonl --out=marked --val-fraction=0 --json
json 'd["bad_lines"] == 0 and d["train_documents"] == 2'
code 1 prepare jsonl --input=bad.jsonl --out=refused --bad-lines=refuse
says "bad.jsonl:2: " err
check [ ! -e refused/train.bin ]
# lines with other fields: their names are printed once
for i in $(seq 30); do echo '{"question": "why", "answer": "because"}'; done >other.jsonl
code 1 prepare jsonl --input=other.jsonl --out=other
says "other.jsonl:1: the field is missing; choose another one with --field: question, answer" err
[ "$(grep -c "question, answer" err)" = 1 ] || fail "the fields are listed again: $(cat err)"
says "30 bad lines); texts are files named .txt, and .jsonl and .parquet with the text in \"text\" (--field gives another name)" err
code 1 prepare jsonl --input=other.jsonl --out=other --bad-lines=refuse
says "--field: question, answer" err
# an array is not a file of lines, though its last line may be an object
for text in '[{"text": "one"}, {"text": "two"}]' $'[\n {"text": "one"},\n {"text": "two"}\n]'; do
    echo "$text" >array.jsonl
    code 1 prepare jsonl --input=array.jsonl --out=array
    says "array.jsonl:1: no JSON object, but an array: \`jq -c '.[]' FILE > FILE.jsonl\` makes lines of it" err
    check [ ! -e array/train.bin ]
done
code 0 prepare jsonl --input=bad.jsonl --out=field --field=other --val-fraction=0 --json
json 'd["train_documents"] == 1'
code 0 prepare jsonl --input=bad.jsonl --out=plural --field=other --val-fraction=0
grep -q " of 1 document$" out || fail "$(cat out)"
check [ ! -e field/val.bin ]

# damaged archives
code 1 prepare text --input=climbs.tar --out=x
says "leads out of its folder" err
code 1 prepare text --input=deep.tar --out=x
says "at most 8 levels are supported" err
code 1 prepare text --input=bomb.txt.xz --out=x
says "may be a decompression bomb" err
code 1 prepare text --input=cut.tar --out=x
says "damaged or truncated" err
code 1 prepare text --input=cut.jsonl.gz --out=x
says "damaged or truncated" err
code 1 prepare text --input=nowhere --out=x
says "'nowhere' does not exist" err
mkdir empty
code 2 prepare text --input=empty --out=x
says "without files" err
code 2 prepare text --out=x
says "needs --input" err
code 2 "$LEVIN" prepare text --input=in --out=x
says "needs --tokenizer" err
code 2 prepare text --input=in --out=x --bad-lines=maybe
says "skip or refuse" err
code 2 prepare text --input=in --out=x --end-token=none-such
says "has no token 'none-such'" err
# flags are checked before anything is downloaded or created
rm -rf x
for flags in "--shard-size=abc" "--bad-lines=maybe" "--encoding=none-such"; do
    code 2 prepare http://127.0.0.1:1/text.txt --out=x $flags
    code 2 prepare text --input=in --out=x $flags
    [ ! -e x ] || fail "a folder was created in spite of $flags"
done
code 2 "$LEVIN" prepare http://127.0.0.1:1/text.txt --out=x --encoding=latin1
for flag in --end-token=none --drop-duplicates --bad-lines=skip --field=text --seed=1 --save-every=5; do
    code 2 "$LEVIN" prepare http://127.0.0.1:1/text.txt --out=x $flag
    says "error: ${flag%=*} has no effect on a single text" err
done

# one text: the last tenth is validation data, and no end token is written
printf '0123456789%.0s' 1 2 3 4 5 6 7 8 9 10 >ten.txt
code 0 prepare ten.txt --out=one-text --json
head -c 90 ten.txt | "$LEVIN" tokenize --tokenizer="$gpt2" --json >first
[ "$(python3 -c 'import json; print(len(json.load(open("first"))["ids"]))')" = "$(value train_tokens)" ] || fail "ids of nine tenths"

# OpenWebText from a server: fetched once, checked, prepared
mkdir www && cp in/c.tar www/openwebtext.tar
sum=$(sha256sum www/openwebtext.tar | cut -d' ' -f1)
serve www
code 1 prepare openwebtext --out=owt --data.url=$url/openwebtext.tar --data.sha256="${sum//[0-9]/0}"
says "is not the expected file" err
code 0 prepare openwebtext --out=owt --data.url=$url/openwebtext.tar --data.sha256="$sum" --json
json 'd["train_documents"] + d["val_documents"] in (300, 301)'
kill $server; wait $server 2>/dev/null || true
code 0 prepare openwebtext --out=owt --data.url=$url/openwebtext.tar --data.sha256="$sum" --overwrite
