# Labels that are words, true and false, or numbers of any kind: their classes have names wherever classes are shown.
. "$LEVIN_SOURCE/tests/cli/common.bash"
vocab=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
python3 - <<'PY'
import json, random
r = random.Random(1)
words = "the a of to and in was it for on with as be at by I this had not are but from or have an they".split()
rows = []
for i in range(200):
    text = [r.choice(words) for _ in range(r.randrange(3, 20))]
    text[r.randrange(len(text))] = ("bad", "good")[i % 2]
    rows.append((" ".join(text), i % 2))
def table(name, labels, part, head="text,label"):
    with open(name, "w") as f:
        print(head, file=f)
        for text, label in part:
            print(f"{text},{labels[label]}", file=f)
table("words.csv", ("neg", "pos"), rows[:160])
table("words-val.csv", ("neg", "pos "), rows[160:])
table("flags.csv", ("False", "True"), rows[:160])
table("numbers.csv", (0, 1), rows[:160])
table("reals.csv", ("0.0", "1.0"), rows[:160])
table("stars.csv", (1, 5), rows[:160])
table("korean.csv", ("부정", "긍정"), rows[:160])
table("golden.csv", ("glad", "so so"), [("a b c", i % 2) for i in range(20)])
table("numbered.csv", (2, 0), [("a b c", i % 2) for i in range(20)])
with open("flags.jsonl", "w") as f:
    for text, label in rows[:160]:
        print(json.dumps({"text": text, "label": bool(label)}), file=f)
PY
bert=(--model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=32 --model.block_size=24 --data.tokenizer="$vocab"
    --trainer.batch_size=16 --optimizer.lr=3e-3)
short=("${bert[@]}" --trainer.max_steps=2 --quiet)
names() { python3 -c 'import json, sys; c = json.load(open(sys.argv[1] + "/checkpoints/last/config.json")); n = c["id2label"]
assert c["label2id"] == {n[k]: int(k) for k in n}, c["label2id"]; print(" ".join(n[str(k)] for k in range(len(n))))' "$1"; }
named() { [ "$(names "$1")" = "$2" ] || fail "the classes of $1 are '$(names "$1")' and not '$2'"; }

# words: sorted, in config.json as transformers reads them, in predictions, scores, the report and the plan
code 0 "$LEVIN" train words.csv "${bert[@]}" --data.val_path=words-val.csv --data.test_path=words-val.csv --trainer.max_epochs=8 --run_dir=words
says "'words.csv' has 2 classes: class 0 is the label neg (80 rows), class 1 is the label pos (80 rows)" err
named words "neg pos"
code 0 "$LEVIN" predict words --text "this was good" --text "it was bad"
[ "$(cut -f1 out)" = "$(printf 'pos\nneg')" ] || fail "the names are not in the table: $(cat out)"
code 0 "$LEVIN" predict words --input=words-val.csv --json
json 'len(d["predictions"]) == 40 and {p["name"] for p in d["predictions"]} == {"neg", "pos"}'
json 'all(p["name"] == ("neg", "pos")[p["label"]] for p in d["predictions"])'
for split in val test; do
    code 0 "$LEVIN" evaluate words --data.split=$split --json
    json 'd["classes"] == ["neg", "pos"] and d["samples"] == 40 and d["accuracy"] > 0.9 and d["confusion"][0][1] < 4'
done
says '"classes": ["neg", "pos"]' words/events.jsonl
says '"classes": ["neg", "pos"]' words/report.html
code 0 "$LEVIN" plan words.csv "${bert[@]}"
says "2 classes: neg, pos" out
code 0 "$LEVIN" plan words.csv "${bert[@]}" --json
json 'd["classes"] == ["neg", "pos"]'
# other names with the same order are the same samples, and 0.0 is 0
for form in words.csv flags.csv flags.jsonl numbers.csv reals.csv stars.csv; do
    code 0 "$LEVIN" train $form "${short[@]}" --run_dir=run-$form
    same_weights run-words.csv run-$form
done
named run-flags.csv "False True"
named run-flags.jsonl "false true"
named run-numbers.csv "LABEL_0 LABEL_1"
named run-reals.csv "LABEL_0 LABEL_1"
named run-stars.csv "1 5"
code 0 "$LEVIN" train korean.csv "${short[@]}" --run_dir=korean
says '    levin predict korean --text "..."' out
named korean "긍정 부정"
code 0 "$LEVIN" predict korean --text good
cut -f1 out | grep -qxE '긍정|부정' || fail "no name in $(cat out)"

# a resumed run has the classes of its checkpoint; a new class is refused
code 0 "$LEVIN" train --resume run-stars.csv --trainer.max_steps=3 --quiet
named run-stars.csv "1 5"
cp words.csv kept.csv
echo "it was good,meh" >>words.csv
code 1 "$LEVIN" train --resume words --trainer.max_epochs=9 --quiet
says "words.csv:162: the label is 'meh'; the model knows 'neg', 'pos'" err
sed 's/,neg/,bad/' kept.csv >words.csv
code 1 "$LEVIN" train --resume words --trainer.max_epochs=9 --quiet
says "words.csv:2: the label is 'bad'; the model knows 'neg', 'pos'" err
mv kept.csv words.csv

# a loaded head keeps its classes: labels are their names, in any order, or their numbers
cp -r "$LEVIN_SOURCE/tests/golden/bert/classify3" base
chmod -R u+w base
head -37 "$vocab/vocab.txt" >base/vocab.txt
tune=(--model.init=base --trainer.batch_size=4 --trainer.max_steps=1 --optimizer.lr=1e-3)
code 0 "$LEVIN" train golden.csv "${tune[@]}" --run_dir=tuned --quiet
named tuned "sad so so glad"
code 0 "$LEVIN" train numbered.csv "${tune[@]}" --run_dir=numbered --data.val_fraction=0.1
says "the labels of 'numbered.csv' are numbers, which count the model's classes: 0 is sad, 1 is so so" err
sed 's/glad/2/; s/so so/1/' golden.csv >same.csv
code 0 "$LEVIN" train same.csv "${tune[@]}" --run_dir=same --quiet
same_weights tuned same
code 1 "$LEVIN" train words.csv "${tune[@]}" --run_dir=no --quiet
says "words.csv:2: the label is 'neg'; the model knows 'sad', 'so so', 'glad'; to learn other classes, start with a new head (task.fresh_head=true)" err
code 0 "$LEVIN" train words.csv "${tune[@]}" --run_dir=fresh --quiet --task.fresh_head=true
named fresh "neg pos"

# refusals name the row and what to do
refused() { # refused SENTENCE ROW...: a table of these rows
    printf 'text,label\n' >rows.csv
    printf '%s\n' "${@:2}" >>rows.csv
    code 1 "$LEVIN" train rows.csv "${short[@]}" --run_dir=no
    one_error
    says "$1" err
}
refused "rows.csv:3: the label is 1.5, and a class is a word or a whole number; to learn numbers, set task.kind=regress" a,1 a,1.5
refused "rows.csv:4: the label is 1000000; the classes are the whole numbers 0 to 1, and there may be 65536" a,0 a,1 a,1000000
refused "rows.csv:3: the label is empty" a,neg a, a,pos
refused "rows.csv:3: the label is 'x'; the classes, from 'rows.csv', are 0 to 1" a,0 a,x a,1 a,1
refused "rows.csv': all rows have the label 'pos'" a,pos a,pos
mapfile -t different < <(seq -f 'a,text %g' 30)
refused "rows.csv': each of the 30 rows has a different label, such as 'text 1': name the column of the class with data.label_column" "${different[@]}"
printf 'text,label\na,neg\nb,pos\nc,Neg\n' >rows.csv
code 0 "$LEVIN" train rows.csv "${short[@]}" --trainer.batch_size=1 --data.val_path=words-val.csv --run_dir=case
says "'rows.csv': the labels 'Neg' and 'neg' differ only in case, and are two classes" err
# a class that only validation has: in its own file, or because few rows have it
sed '3s/pos.*/meh/' words-val.csv >meh.csv
code 1 "$LEVIN" train words.csv "${short[@]}" --data.val_path=meh.csv --run_dir=no
says "meh.csv:3: the label is 'meh'; the classes, from 'words.csv', are 'neg', 'pos'" err
code 0 "$LEVIN" train words.csv "${short[@]}" --data.val_path=meh.csv --data.skip_bad_rows=true --run_dir=skips --quiet=false
says "1 row cannot be used and is skipped" err
sed 's/,neg/,0/; s/,pos/,1/; 3s/1 *$/2/' words-val.csv >two.csv
code 1 "$LEVIN" train numbers.csv "${short[@]}" --data.val_path=two.csv --run_dir=no
says "two.csv:3: the label is '2'; the classes, from 'numbers.csv', are 0 to 1" err
printf 'text,label\na,neg\nb,pos\nc,meh\n' >rows.csv
code 0 "$LEVIN" train rows.csv "${short[@]}" --trainer.batch_size=1 --data.val_fraction=0.4 --run_dir=chance
says "were chosen for validation, so the model does not learn it" err

# --- columns that are not read are named, unless the columns were given ---
python3 - <<'P'
import json
with open("pairs.jsonl", "w") as f:
    for i in range(20):
        f.write(json.dumps({"sentence": "the man", "question": "a dog", "idx": i, "label": i % 2}) + "\n")
P
code 0 "$LEVIN" train pairs.jsonl "${bert[@]}" --trainer.max_steps=2 --run_dir=pairs
says "'pairs.jsonl': the text is the column 'sentence'; not read: question, idx (data.text_column and data.pair_column name others)" err
code 0 "$LEVIN" train pairs.jsonl "${bert[@]}" --trainer.max_steps=2 --data.text_column=sentence --data.pair_column=question --run_dir=paired
check [ "$(grep -c 'not read' err)" = 0 ]
code 0 "$LEVIN" train words.csv "${bert[@]}" --trainer.max_steps=2 --run_dir=plain
check [ "$(grep -c 'not read' err)" = 0 ]
