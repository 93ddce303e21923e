# Data that cannot be trained on: one sentence each, the right exit code, and no run folder remains.
. "$LEVIN_SOURCE/tests/cli/common.bash"
refuses() { # refuses CODE SENTENCE [keys]
    local wanted=$1 sentence=$2
    shift 2
    code "$wanted" "$LEVIN" train --run_dir=run --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --trainer.max_steps=1 "$@"
    says "$sentence" err
    one_error
    [ ! -e run ] || fail "a run folder was left by: $*"
}

refuses 1 "cannot open 'missing.txt': No such file" --data.path=missing.txt
refuses 2 "data.path" --data.kind=chars
: >empty
refuses 1 "'empty' is empty" --data.path=empty
printf x >one
refuses 1 "'one' is a single character long" --data.path=one
head -c 4000 /dev/zero | tr '\0' a >same
refuses 1 "'same' is one and the same character throughout" --data.path=same
cp "$LEVIN" binary
refuses 1 "'binary' is" --data.path=binary
printf 'caf\xe9 au lait' >latin1
refuses 1 "byte 0xe9 at offset 3" --data.path=latin1
printf 'ab\0cd' >zero
refuses 1 "a NUL byte at offset 2" --data.path=zero
printf 'the quick brown fox' >short
refuses 1 "'short' has 17 tokens to train on, but one window of model.block_size=32 needs 33" --data.path=short --model.block_size=32
refuses 1 "is a folder, on which levin cannot train directly" --data.path=.
refuses 2 "model.vocab_size is 9" --data.path="$LEVIN_SOURCE/LICENSE" --model.vocab_size=9

tokens=(--data.kind=tokens --model.block_size=8)
printf 'abc' >odd.bin
refuses 1 "'odd.bin' has 3 bytes" "${tokens[@]}" --data.path=odd.bin
refuses 1 "'empty' is empty" "${tokens[@]}" --data.path=empty
printf '\x93NUMPY\x01\x00v\x00{}' >ids.npy
refuses 1 "'ids.npy' is a file of numpy.save, and token files have no header" "${tokens[@]}" --data.path=ids.npy
printf 'abababababababababababababab' >ids.bin # 14 ids 25185
refuses 1 "'ids.bin' holds the token id 25185 at position 0, but the model's vocabulary has 100 tokens (0 to 99)" \
    "${tokens[@]}" --data.path=ids.bin --model.vocab_size=100
refuses 1 "needs 15" --data.kind=tokens --data.path=ids.bin --model.block_size=14
echo '{"dtype":"float32"}' >ids.bin.json
refuses 1 'ids.bin.json'"'"' has dtype "float32"' "${tokens[@]}" --data.path=ids.bin
echo 'uint32' >ids.bin.json
refuses 1 "ids.bin.json' is not JSON" "${tokens[@]}" --data.path=ids.bin
rm ids.bin.json
refuses 1 "cannot open 'novals/train.bin'" "${tokens[@]}" --data.path="$(mkdir novals && echo novals)"
refuses 2 "data.max_length must be between 0 and 16777216, got -1" --data.kind=labelled --data.max_length=-1
refuses 2 "data.max_length (3) is a key of data.kind=labelled" --data.kind=chars --data.max_length=3
printf 'review\tgrade\nfine\t1\n' >grades.tsv
refuses 1 "and its columns are review, grade. To learn labels, name the two: --data.text_column=COLUMN --data.label_column=COLUMN, and --data.pair_column=COLUMN for a second text. To learn answers (columns such as instruction and output), train on the lines of JSON" --data.path=grades.tsv
bert=--data.tokenizer=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
refuses 1 "'grades.tsv' has no column 'reviews'; its columns are review, grade" --data.path=grades.tsv --data.text_column=reviews $bert
refuses 1 "name the right one with data.text_column=COLUMN" --data.path=grades.tsv --data.text_column=reviews # no tokenizer is given
: >rows.csv
refuses 1 "(another one: data.text_column)" --data.path=rows.csv --data.kind=labelled
rm rows.csv
refuses 1 "cannot open 'missing.tsv': No such file" --data.path=missing.tsv $bert
mkdir tables
refuses 2 "'tables' is a folder; data.kind=labelled reads one .tsv" --data.path=tables --data.kind=labelled $bert
: >empty.csv
refuses 1 "'empty.csv' is empty" --data.path=empty.csv $bert
printf 'text,label\n' >quotes.csv
for i in $(seq 10); do echo "fine $i,0"; done >>quotes.csv
printf '"he said,1\nmore,0\na "quote" inside,0\n' >>quotes.csv
refuses 1 "quotes.csv:12: text after the closing quote" --data.path=quotes.csv $bert
printf '"' >>quotes.csv
sed -i 's/^"he/he/' quotes.csv
refuses 1 "quotes.csv:15: a quotation mark is never closed" --data.path=quotes.csv $bert
printf '{"text": "\\ud83d", "label": 0}\n' >half.jsonl
refuses 1 "no line is a JSON object; each must be a row, as {\"text\": \"..\", \"label\": 0}; line 1: " --data.kind=labelled \
    --data.path=half.jsonl $bert
for name in array.json array.jsonl; do
    echo '[{"text": "a", "label": 0}]' >$name
    refuses 1 "'$name' is an array of JSON, and levin reads lines of JSON: \`jq -c '.[]' $name > array-lines.jsonl\`" --data.path=$name
done
refuses 1 "'array.json' is an array of JSON" --data.path=array.json --data.kind=labelled
printf 'id\tdocument\tlabel\n1\tfine\t1\n' >table.txt
refuses 1 "'table.txt' is not a table: data.kind=labelled requires a .tsv, .csv, .jsonl or .parquet file; its first line names columns: rename it to .tsv" \
    --data.path=table.txt --data.kind=labelled
refuses 1 "name the right one with data.text_column=COLUMN (and the second text of pairs with data.pair_column=COLUMN)" \
    --data.path=grades.tsv --data.kind=labelled $bert
gzip -k quotes.csv
refuses 1 "quotes.csv.gz:15: a quotation mark is never closed" --data.path=quotes.csv.gz $bert
printf 'body,grade\na,0\nb,1\n' | gzip >grades.csv.gz
refuses 1 "'grades.csv.gz' needs one column of texts ('text') and one of labels ('label'), and its columns are body, grade" --data.path=grades.csv.gz
tar cf two.csv.tar quotes.csv grades.tsv
refuses 1 "'two.csv.tar/grades.tsv' is in an archive of several files, and a table is one file: unpack it first" --data.path=two.csv.tar \
    --data.kind=labelled $bert
# rows with labels that would be read as texts
mkdir rows
printf '{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n' >rows/some.jsonl
cp rows/some.jsonl some.json
tar cf some.tar rows
refuses 1 "the rows of 'rows' have texts and labels, and labels are read from one file, as 'rows/some.jsonl': to learn them, give its path; to learn the texts alone, as a language model, set data.kind=documents" \
    --data.path=rows
refuses 1 "to learn them, let .jsonl replace .json in its name" --data.path=some.json
gzip -k some.json
refuses 1 "to learn them, let .jsonl replace .json in its name" --data.path=some.json.gz
refuses 1 "to learn them, unpack it" --data.path=some.tar
cp "$LEVIN_SOURCE/tests/golden/parquet/classes.parquet" rows/train-00000-of-00001.parquet
refuses 1 "as 'rows/some.jsonl'" --data.path=rows
rm rows/some.jsonl
refuses 1 "as 'rows/train-00000-of-00001.parquet'" --data.path=rows
labelled=(--data.kind=labelled --data.path=none.tsv)
refuses 2 "data.replace must be a list of maps, as [{pattern: '[0-9]+', with: '#'}]" "${labelled[@]}" --data.replace=a
refuses 2 "data.replace: 'pattern' must be one value, got a list; put texts in quotes" "${labelled[@]}" \
    --data.replace="[{pattern: [a-z], with: b}]"
refuses 2 "data.replace: 'with' must be one value, got a map; put texts in quotes" "${labelled[@]}" \
    --data.replace="[{pattern: a, with: {b: c}}]"
refuses 2 "'data.replace, entry 2': the expression '(a' has a group without an end" "${labelled[@]}" \
    --data.replace="[{pattern: a, with: b}, {pattern: '(a', with: b}]"
refuses 2 "data.replace, entry 1: unknown key 'by'; there are pattern and with" "${labelled[@]}" --data.replace="[{pattern: a, by: b}]"
refuses 2 "data.replace, entry 1: pattern is empty" "${labelled[@]}" --data.replace="[{pattern: '', with: b}]"
for kind in chars tokens; do
    refuses 2 "data.replace ([{pattern: a, with: b}]) is a key of data.kind=labelled, and the data are of the kind $kind: leave it out" \
        --data.kind=$kind --data.replace="[{pattern: a, with: b}]"
done

# the same for a pretrained model, and for its prompt
make_text
code 0 train run --sample.prompt=the
says "warning: sample.prompt has no effect, because no samples are made while training" err
code 2 "$LEVIN" generate run --prompt=the --sample.max_new_tokens=3
says "--sample.max_new_tokens has no effect on \`levin generate\`: give --max-new-tokens instead" err
code 2 "$LEVIN" generate run --prompt 'naïve' --max-new-tokens=1
says "the character 'ï' (U+00EF) at byte 2" err
one_error
printf 'größer als der Text, mit dem das Modell gelernt hat' >german
code 2 "$LEVIN" evaluate run --data.path=german
says "'german' has the character 'ö' (U+00F6) at byte 2" err
one_error
code 1 "$LEVIN" evaluate run --data.kind=tokens --data.path=odd.bin
says "3 bytes" err
code 1 "$LEVIN" evaluate run --data.kind=tokens --data.path=ids.bin --model.block_size=8
says "token id 25185" err
