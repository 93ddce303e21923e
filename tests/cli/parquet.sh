# Parquet files: levin prepare, tokenizer train, documents and conversations read them as lines of JSON with the same rows;
# folders, also of the hub; what is refused. With pyarrow (LEVIN_PEERS) 200 files of random settings.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden/parquet
gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2
prepare() { "$LEVIN" prepare "$@" --tokenizer="$gpt2" --val-fraction=0; }

# --- the same rows as lines of JSON ---
for name in snappy-dictionary gzip-delta_length_byte_array zstd-plain; do
    cp "$golden/$name.parquet" rows.parquet
    grep "^$name.parquet" "$golden/rows.jsonl" | cut -f2 >rows.jsonl
    code 0 prepare rows.jsonl --out=lines --overwrite --json
    bad=$(value bad_lines)
    code 0 prepare rows.parquet --out=tokens --overwrite --json
    json "d['bad_lines'] == $bad and d['train_documents'] > 9"
    same_file lines/train.bin tokens/train.bin
    python3 -c 'import json; [print(json.dumps({"text": json.loads(line)["text"]})) for line in open("rows.jsonl")]' >texts.jsonl
    code 0 "$LEVIN" tokenizer train --input=texts.jsonl --vocab-size=300 --out=bpe-$name-lines --json
    [ "$(value bad_lines)" = "$bad" ] || continue # a NUL byte, which tables refuse
    code 0 "$LEVIN" tokenizer train --input=rows.parquet --vocab-size=300 --out=bpe-$name --json
    json "d['bad_lines'] == $bad"
    same_file bpe-$name/tokenizer.json bpe-$name-lines/tokenizer.json
    compared=$name
done
check [ -n "${compared:-}" ]
cp "$golden/none-plain.parquet" null.parquet
code 0 prepare null.parquet --out=of-null
says "warning: 'null.parquet', row group 0, row " err
says "column 'text': it is null, not text" err
# a shard whose texts are all null has no type of texts
mkdir shards
cp null.parquet "$golden/nulls.parquet" shards
code 0 prepare shards --out=of-nulls --json
json "d['bad_lines'] == $(python3 -c 'import json,sys; print(sum(json.loads(x.split("\t")[1])["text"] is None for x in open(sys.argv[1]) if x.startswith("none-plain.")) + 4)' "$golden/rows.jsonl")"
same_file of-null/train.bin of-nulls/train.bin
code 0 prepare null.parquet --out=deep --field=s.a.b
tiny=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.batch_size=2 --trainer.max_steps=2
    --trainer.val_check_interval=2)
code 0 "$LEVIN" train rows.parquet "${tiny[@]}" --data.kind=documents --data.tokenizer="$gpt2" --run_dir=of-rows
code 0 "$LEVIN" train rows.jsonl "${tiny[@]}" --data.kind=documents --data.tokenizer="$gpt2" --run_dir=of-lines
same_weights of-rows of-lines

# --- conversations: answers that are not trained, arguments of the template, token ids, columns of JSON ---
cat >plain.jinja <<'J'
{% if enable_thinking %}think {{ depth }} {% endif %}{{ tools | tojson }} {% for m in messages %}{{ m.role }}: {{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}; {% endfor %}{% if add_generation_prompt %}assistant: {% endif %}
J
for name in chat ids json; do
    for kind in parquet jsonl; do
        code 0 "$LEVIN" train "$golden/$name.$kind" "${tiny[@]}" --data.kind=chat --data.tokenizer="$gpt2" --data.template=plain.jinja \
            --data.skip_bad_rows=true --model.block_size=256 --run_dir=$name-$kind
        grep -o 'conversations, .* have labels' err >$name.$kind
    done
    same_weights $name-parquet $name-jsonl
    same_file $name.parquet $name.jsonl
done
code 1 "$LEVIN" train "$golden/dates.parquet" "${tiny[@]}" --data.kind=chat --data.tokenizer="$gpt2" --data.template=plain.jinja --run_dir=dates
says "dates.parquet': the column 'messages.list.element.at' has a type that is not read (map, date, time, decimal, float16 or bytes), so templates do not get it" err
says "the column 'tools.list.element.since' has a type that is not read (map, date, time, decimal, float16 or bytes), so the model would learn without it" err

sed 's/tools/extra/g' "$golden/dates.parquet" >untooled.parquet
for again in 1 2; do # the second time from the cache
    code 0 "$LEVIN" train untooled.parquet "${tiny[@]}" --data.kind=chat --data.tokenizer="$gpt2" --data.template=plain.jinja --data.train_on=all \
        --run_dir=untooled --overwrite
    says "untooled.parquet': the column 'messages.list.element.at' has a type that is not read" err
done

# --- texts with labels: the same rows as lines of JSON ---
tiny_bert=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --trainer.max_steps=2 --trainer.batch_size=4)
for name in dictionary plain delta; do
    cp "$golden/numbers-$name.parquet" table.parquet
    cp "$golden/numbers.jsonl" table.jsonl
    for kind in parquet jsonl; do
        code 0 "$LEVIN" train table.$kind "${tiny_bert[@]}" --data.tokenizer="$gpt2" --data.label_column=good --data.skip_bad_rows=true --run_dir=labels-$kind --overwrite
    done
    same_weights labels-parquet labels-jsonl
done
code 1 "$LEVIN" train "$golden/numbers-plain.parquet" "${tiny_bert[@]}" --data.label_column=label --data.text_column=body
says "has no column 'body'; it has text, label, small, large, low, score, mean, good, when, list" err
python3 - <<'P' # without a column of the known names
data = open("table.parquet", "rb").read()
open("other.parquet", "wb").write(data.replace(b"text", b"body"))
P
code 1 "$LEVIN" train other.parquet "${tiny_bert[@]}" --data.label_column=label
says "has no column 'document' or 'text' or 'sentence'; it has body, label" err
code 0 "$LEVIN" predict labels-parquet --input=table.parquet --data.skip_bad_rows=true

# --- names of classes in the metadata: they are the model's, and another file may number them differently ---
cp "$golden/classes.parquet" .
code 0 "$LEVIN" train classes.parquet "${tiny_bert[@]}" --trainer.max_steps=60 --data.tokenizer="$gpt2" --run_dir=named
says "'classes.parquet' names its 3 classes, from 0: 'maybe', 'right', 'wrong'" err
grep -A3 id2label named/checkpoints/last/config.json | tr -d ' \n' | grep -q '"0":"maybe","1":"right","2":"wrong"'
python3 - <<'P'
data = open("classes.parquet", "rb").read()
for name, names in ("classes", ["maybe", "right", "wrong"]), ("moved", ["RIGHT", "wrong", "maybe"]), ("foreign", ["apple", "pears", "plums"]):
    text = b"[" + b", ".join(b'"%s"' % x.encode() for x in names) + b"]"
    open(name + ".parquet", "wb").write(data.replace(b'["maybe", "right", "wrong"]', text))
    with open(name + ".csv", "w") as f:
        f.write("text,label\n" + "".join(f"answer {i % 7},{names[i % 7 % 3].lower()}\n" for i in range(24)))
P
for name in classes moved; do
    for kind in parquet csv; do
        code 0 "$LEVIN" evaluate named --data.path=$name.$kind --json
        grep -o '"\(loss\|accuracy\)": *[0-9.]*' out >$name-$kind
        ! grep -q warning err || fail "a warning for $name.$kind"
    done
    same_file $name-parquet $name-csv
done
! cmp -s classes-csv moved-csv || fail "other labels do not change the metrics"
code 0 "$LEVIN" evaluate named --data.path=foreign.parquet
says "'foreign.parquet' names class 0 'apple', which is not a class of the model ('maybe', 'right', 'wrong')" err
code 1 "$LEVIN" train classes.parquet "${tiny_bert[@]}" --data.tokenizer="$gpt2" --data.label_column=price
says "the column 'price' has the type decimal, which is not read" err

# --- folders: only shards of the train split are read, and no README ---
mkdir -p hub/data
cp "$golden/snappy-plain.parquet" hub/data/train-00000-of-00002.parquet
cp "$golden/zstd-plain.parquet" hub/data/train-00001-of-00002.parquet
cp "$golden/none-plain.parquet" hub/data/test-00000-of-00001.parquet
echo "A description." >hub/README.md
grep -E "^(snappy|zstd)-plain.parquet" "$golden/rows.jsonl" | cut -f2 >both.jsonl
code 0 prepare hub --out=of-hub
says "2 files are not read, such as 'data/test-00000-of-00001.parquet'" err
code 0 prepare both.jsonl --out=of-both
same_file of-both/train.bin of-hub/train.bin

# --- splits: by the names of files, else of folders ---
folder_of() { # folder_of FILE FOLDER/NAME...: a folder `set` of copies, and a file of another type
    rm -rf set
    for name in "${@:2}"; do
        mkdir -p "set/$(dirname "$name")"
        cp "$1" "set/$name"
    done
}
rows=$golden/snappy-plain.parquet
code 0 prepare "$rows" --out=of-one
check_train_of() { # of the folder `set` only one file is read for training
    code 0 prepare set --out=of-set --overwrite
    says "'set': 1 file is not read, such as '$1': " err
    same_file of-one/train.bin of-set/train.bin
}
for pair in train-00000-of-00001-a09b74b3ef9c3b56:test-00000-of-00001-3d4ce2d7b65a03fb train_sft-00000-of-00001:test_sft-00000-of-00001 \
    train/0000:test/0000 train:test data/my.training.v2:data/my.dev.v2 a/train_1:a/other-00000-of-00001 test/train:test/b; do
    folder_of "$rows" "${pair%:*}.parquet" "${pair#*:}.parquet"
    check_train_of "${pair#*:}.parquet"
done
grep "^snappy-plain.parquet" "$golden/rows.jsonl" | cut -f2 >rows.jsonl
gzip -nk -c rows.jsonl >rows.jsonl.gz
code 0 prepare rows.jsonl --out=of-one --overwrite
for pair in train:validation c4-train.00000-of-00002:c4-validation.00000-of-00001 train/a:val TRAIN/x:Test/x; do
    for kind in jsonl json.gz; do
        cp rows.jsonl"$([ $kind = jsonl ] || echo .gz)" "rows.of"
        folder_of rows.of "${pair%:*}.$kind" "${pair#*:}.$kind"
        check_train_of "${pair#*:}.$kind"
    done
done
echo "some words of a text" >text.txt
folder_of text.txt Stories-train.txt
code 0 prepare set --out=of-one --overwrite
for pair in Stories-train:Stories-valid train:test train/a:test/a; do
    folder_of text.txt "${pair%:*}.txt" "${pair#*:}.txt"
    check_train_of "${pair#*:}.txt"
done
all_read() { # of the folder `set`
    code 0 prepare set --out=of-set --overwrite
    silent_about " not read" err
}
folder_of text.txt train.py test.py tests/a.txt test_of_time.txt train_of_thought.txt contest.txt
all_read
folder_of rows.jsonl pretraining.jsonl contest.jsonl latest.jsonl
all_read
folder_of rows.jsonl test.jsonl validation.jsonl
all_read
silent_about "split" err
folder_of rows.jsonl test.jsonl rows.jsonl
all_read
says "'set': 1 file is read, such as 'test.jsonl', with the name of a validation or test split" err
# the kind and the suggested steps are those of the files that are read
setting() { "$LEVIN" train set --show-settings | awk -v key="$1" '$1 == key { print $2 }'; }
seq 20000 >text.txt # 109 kB
folder_of text.txt train.txt
steps=$(setting trainer.max_steps)
folder_of text.txt train.txt test.txt
check [ "$(setting trainer.max_steps)" = "$steps" ]
seq 40000 >set/train.txt
check [ "$(setting trainer.max_steps)" != "$steps" ] # the size decides
folder_of rows.jsonl train.jsonl
echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}' >set/train.jsonl
cp rows.jsonl set/eval.jsonl
check [ "$(setting data.kind)" = chat ]
echo "some words" >set/train.txt
rm set/train.jsonl
check [ "$(setting data.kind)" = documents ]

# --- refused: one error message, and nothing is created ---
refused() { # refused SENTENCE prepare-arguments
    local sentence=$1
    shift
    code 1 prepare "$@" --out=none
    one_error
    says "$sentence" err
    check [ ! -e none ]
}
refused "'null.parquet', row group 0, row " null.parquet --bad-lines=refuse
refused "'null.parquet' has no column 'body'; it has id, text, messages, tags, map, s: choose the one with the text (--field=NAME)" \
    null.parquet --field=body
refused "the column 'id' has the type INT64, not text" null.parquet --field=id
refused "the column 'messages' is a list, not text" null.parquet --field=messages
head -c 2000 rows.parquet >cut.parquet
refused "'cut.parquet' cannot be read as a Parquet file: it does not end with PAR1; it is damaged or cut" cut.parquet
: >empty.parquet
refused "'empty.parquet' cannot be read as a Parquet file: it has fewer than 12 bytes" empty.parquet
code 2 prepare rows.parquet --out=none --encoding=latin-1
says "'rows.parquet' is a Parquet file, whose texts are UTF-8: leave --encoding out" err
gzip -k rows.parquet
refused "'rows.parquet.gz' is a Parquet file that is compressed" rows.parquet.gz
mkdir two && cp rows.parquet two/a.parquet
python3 - "$golden/none-plain.parquet" <<'P'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
open("two/b.parquet", "wb").write(data.replace(b"text", b"body")) # the same length: another schema
first = data.index(b"the") # in a page: it has a checksum
data[first] ^= 1
open("damaged.parquet", "wb").write(data)
P
refused "'two/b.parquet' has no column 'text'; it has id, body" two
code 1 prepare damaged.parquet --out=none

# --- pyarrow itself ---
peers=${LEVIN_PEERS:+$LEVIN_PEERS/bin/}python3
"$peers" -c 'import pyarrow' 2>/dev/null || { echo "left out: files that pyarrow writes now; it is not here"; exit 0; }
"$peers" "$LEVIN_SOURCE/tools/make_parquet.py" 200 1 wide
for ((i = 0; i < 200; i++)); do
    [ -s wide/$i.jsonl ] || continue
    "$LEVIN" prepare wide/$i.jsonl --tokenizer="$gpt2" --val-fraction=0 --out=lines --overwrite >of-lines.out 2>&1 || { has "no documents" of-lines.out && continue; }
    code 0 prepare wide/$i.parquet --out=tokens --overwrite
    same_file lines/train.bin tokens/train.bin
done
for codec in brotli none; do
    "$peers" - $codec <<'P'
import sys, pyarrow as pa, pyarrow.parquet as pq
kw = {} if sys.argv[1] == "brotli" else {"use_dictionary": False, "column_encoding": {"text": "BYTE_STREAM_SPLIT"}}
ty = pa.string() if sys.argv[1] == "brotli" else pa.float32()
pq.write_table(pa.table({"text": pa.array(["a"] if sys.argv[1] == "brotli" else [1.0], ty)}), f"{sys.argv[1]}.parquet", compression=sys.argv[1], **kw)
P
done
refused "'brotli.parquet', row group 0, column 'text': it is compressed with BROTLI" brotli.parquet
refused "the column 'text' has the type FLOAT, not text" none.parquet
