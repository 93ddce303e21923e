# Predictions belong to their rows: an unusable row is refused with its line number and the reason, or has its own line
# in the output, from files, from a pipe and from the command line.
. "$LEVIN_SOURCE/tests/cli/common.bash"
printf 'text\tlabel\n' >train.tsv
for i in $(seq 20); do printf 'good day %d\t1\nbad day %d\t0\n' "$i" "$i" >>train.tsv; done
code 0 "$LEVIN" train --model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=32 \
    --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" --data.path=train.tsv --trainer.batch_size=8 \
    --trainer.max_steps=2 --run_dir=run --quiet
predict() { code "$1" "$LEVIN" predict run --quiet "${@:2}"; }

printf 'text\tlabel\nfirst\t0\nsecond\t0\tmore\n\nthird\xff\t1\nfourth\t1\n\n\n' >rows.tsv
printf 'text,label\n"first\n, and more",0\nsecond,0,more\n\nthird\xff,1\nfourth,1\n\n' >rows.csv
printf '{"text":"first"}\n{"txt":"second"}\n\n{"text":"third\xff"}\n{"text":"fourth"}\n\n' >rows.jsonl
# format, lines of the rows, and the messages about unusable rows
while read -r form lines; do
    predict 1 --input=rows.$form
    one_error
    says "rows.$form:" err
    says "or give such rows no prediction with data.skip_bad_rows=true" err
    [ ! -s out ] || fail "rows.$form: predictions in spite of an error"
    predict 0 --input=rows.$form --data.skip_bad_rows=true
    cut -f1,2 out | sed 's/^[01]\t[01]\.[0-9]*$/yes/' | tr '\n' ' ' >kinds
    [ "$(cat kinds)" = $'yes -\t- -\t- -\t- yes ' ] || fail "rows.$form: $(cat out)"
    says $'-\t-\trows.'$form:${lines:2:1} out
    says "3 of 5 rows have no prediction; the first: rows.$form:" err
    grep -n fourth out | grep -q '^5:' || fail "rows.$form: the last row is not the last line"
    predict 0 --input=rows.$form --data.skip_bad_rows=true --json
    json "[p['line'] for p in d['predictions']] == [int(x) for x in '$lines'.split()] and d['skipped'] == 3"
    json '[p["label"] is None and "error" in p for p in d["predictions"]] == [False, True, True, True, False]'
    json 'd["predictions"][2]["error"].endswith("the line is empty") and "UTF-8" in d["predictions"][3]["error"]'
done <<'ROWS'
tsv 2 3 4 5 6
csv 2 4 5 6 7
jsonl 1 2 3 4 5
ROWS
says "no 'text'" out

# a pipe of lines: an empty line is a text without words, and has its prediction
printf 'first\n\nthird\xff\nfourth\n' >lines.txt
predict 1 --input=- <lines.txt
says "/dev/stdin:3: byte 6 is not UTF-8" err
predict 0 --input=- --data.skip_bad_rows=true <lines.txt
[ "$(cut -f1 out | tr '01' 'xx' | tr -d '\n')" = "xx-x" ] || fail "lines: $(cat out)"
predict 1 --text=first --text=$'sec\xffond'
says "--text 2: byte 4 is not UTF-8" err
predict 0 --text=first --text=$'sec\xffond' --text=third --data.skip_bad_rows=true --json
json '[p["label"] is None for p in d["predictions"]] == [False, True, False] and d["skipped"] == 1'
# a prediction does not depend on the rows around it
predict 0 --text=first --text=third --json
json 'd["skipped"] == 0 and len(d["predictions"]) == 2'
# also if the path of the file is not UTF-8
cp lines.txt $'l\xff.txt'
predict 0 --input=$'l\xff.txt' --data.skip_bad_rows=true --json
json '[p["label"] is None for p in d["predictions"]] == [False, False, True, False] and "byte 6 is not UTF-8" in d["predictions"][2]["error"]'
# only bad rows
printf 'text\n\xff\n' >bad.tsv
predict 1 --input=bad.tsv --data.skip_bad_rows=true
says "'bad.tsv' has no row that can be used; the first one: bad.tsv:2: byte 1 is not UTF-8" err

# evaluation leaves such rows out of its lists, and names them
printf 'text\tlabel\nfirst\t0\nsecond\t9\nthird\t1\nfourth\t1\t1\n' >test.tsv
code 0 "$LEVIN" evaluate run --data.path=test.tsv --data.skip_bad_rows=true --json --logits
json 'len(d["logits"]) == 2 and d["skipped"] == 2 and [r.split(":")[1] for r in d["skipped_rows"]] == ["3", "5"]'
code 0 "$LEVIN" evaluate run --data.path=test.tsv --data.skip_bad_rows=true
says "2 rows cannot be used and are skipped; the first: test.tsv:3: the label is 9" out
