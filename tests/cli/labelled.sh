# Text classification: training, evaluation and prediction from three file formats; masked language modeling; replaced
# heads; input that is refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
vocab=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
# Texts of 3 to 39 words, one of which is `good` (class 1) or `bad` (class 0), in three file formats.
python3 - <<'PY'
import csv, json, random
r = random.Random(1)
words = "the a of to and in was it for on with as be at by I this had not are but from or have an they which one you".split()
rows = []
for i in range(240):
    text = [r.choice(words) for _ in range(r.randrange(3, 40))]
    text[r.randrange(len(text))] = ("bad", "good")[i % 2]
    rows.append((" ".join(text), i % 2))
for name, part in ("train", rows[:200]), ("test", rows[200:]):
    with open(name + ".tsv", "w") as f:
        f.write("id\tdocument\tlabel\n")
        for i, (text, label) in enumerate(part):
            f.write(f"{i}\t{text}\t{label}\n")
    with open(name + ".csv", "w", newline="") as f:
        csv.writer(f, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *part])
    with open(name + ".jsonl", "w") as f:
        for text, label in part:
            f.write(json.dumps({"sentence": text, "label": label}) + "\n")
PY
bert=(--model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=32 --model.block_size=48 --data.tokenizer="$vocab"
    --trainer.batch_size=16 --optimizer.lr=3e-3 --quiet)
code 0 "$LEVIN" train "${bert[@]}" --data.path=train.tsv --data.val_path=test.tsv --trainer.fast_dev_run=2 --quiet=false
check grep -q 'train_accuracy [0-9]' out err
code 0 "$LEVIN" train "${bert[@]}" --data.path=train.tsv --data.val_path=test.tsv --trainer.max_epochs=12 --run_dir=tsv --quiet=false
grep -qE '^data: [0-9,]+ training samples, [0-9,]+ for validation$' err
says '"val_f1"' tsv/metrics.jsonl
code 0 "$LEVIN" evaluate tsv --data.kind=labelled --data.path=test.tsv --json --logits
json 'd["samples"] == 40 and d["accuracy"] > 0.9 and len(d["logits"]) == 40 and len(d["logits"][0]) == 2'
# predictions in the order of the file give the counts: f1, precision and recall are those of class 1
python3 - <<'PY'
import json
d = json.load(open("out"))
label = [int(l.rsplit("\t", 1)[1]) for l in open("test.tsv").read().splitlines()[1:]]
found = [int(x[1] > x[0]) for x in d["logits"]]
count = [[sum(l == i and f == j for l, f in zip(label, found)) for j in (0, 1)] for i in (0, 1)]
(_, b), (c, right) = count
assert count == d["confusion"], (count, d["confusion"])
assert abs(d["precision"] - right / (right + b)) < 1e-12 and abs(d["recall"] - right / (right + c)) < 1e-12
assert abs(d["f1"] - 2 * right / (2 * right + b + c)) < 1e-12
PY
cp out tsv.json
# the other formats have the same data; without data.kind they are detected by their columns
for form in csv jsonl; do
    code 0 "$LEVIN" evaluate tsv --data.kind=labelled --data.path=test.$form --json --logits
    same_file out tsv.json
done
code 0 "$LEVIN" train "${bert[@]}" --data.path=train.csv --data.val_path=test.csv --trainer.max_epochs=12 --run_dir=csv
same_weights tsv csv
# compressed ones too
gzip -k test.csv train.csv
zstd -q test.jsonl -o test.jsonl.zst || xz -k --stdout test.jsonl >test.jsonl.zst # recognized by its content
for form in csv.gz jsonl.zst; do
    code 0 "$LEVIN" evaluate tsv --data.kind=labelled --data.path=test.$form --json --logits
    same_file out tsv.json
done
code 0 "$LEVIN" predict tsv --input=test.csv
mv out predicted
code 0 "$LEVIN" predict tsv --input=test.csv.gz
same_file out predicted
code 0 "$LEVIN" train "${bert[@]}" --data.path=train.csv.gz --data.val_path=test.jsonl.zst --trainer.max_epochs=12 --run_dir=gz
same_weights csv gz
# data.replace changes nothing in these texts; a run records it, and resumes only with the same value
python3 - <<'PY'
for name in ("train", "test"):
    head, *rows = open(name + ".tsv").read().splitlines()
    with open(f"noisy-{name}.tsv", "w") as f:
        print(head, file=f)
        for row in rows:
            number, text, label = row.split("\t")
            print(number, "<b>" + text.replace(" ", " \U0001f600\U0001f600 ") + "</b>", label, sep="\t", file=f)
PY
cat >noisy.yaml <<'END'
data:
  replace: # removes tags and doubled emoji
    - {pattern: '</?[a-z]+>', with: ''}
    - pattern: '([😀-🙏])\1'
      with: ''
    - {pattern: ' +', with: ' '}
END
noisy=(train noisy.yaml "${bert[@]}" --data.path=noisy-train.tsv --data.val_path=noisy-test.tsv --run_dir=noisy)
code 0 "$LEVIN" "${noisy[@]}" --trainer.max_epochs=6
code 0 "$LEVIN" train --resume noisy --trainer.max_epochs=12 --quiet
same_weights tsv noisy
says 'replace: [{pattern: "</?[a-z]+>", with: ""}, {pattern: "([😀-🙏])\\1", with: ""}, {pattern: " +", with: " "}]' noisy/settings.yaml
code 0 "$LEVIN" predict noisy --text "<b>this was</b> 😀😀 good" --json
cp out with
code 0 "$LEVIN" predict noisy --text "this was good" --json
python3 -c 'import json; a, b = (json.load(open(x))["predictions"][0]["probabilities"] for x in ("with", "out")); assert a == b, (a, b)'
code 2 "$LEVIN" train --resume noisy --trainer.max_epochs=13 --quiet --data.replace="[{pattern: ' +', with: ''}]"
says "data.replace" err
# class 1 neither present nor predicted
grep "0$" test.tsv | grep -v good | head -3 | sed '1i id\tdocument\tlabel' >zeros.tsv
code 0 "$LEVIN" evaluate tsv --data.kind=labelled --data.path=zeros.tsv --json
json 'd["samples"] == 3 and d["confusion"][0][0] == 3 and [d["f1"], d["precision"], d["recall"]] == [0, 0, 0]'
# new texts: from the command line, a pipe and a table; a single text has the prediction that it has among others
texts() { cut -f2 test.tsv | tail -n +2; }
code 0 "$LEVIN" predict tsv --text "this was good" --text "$(texts | sed -n 2p)" --json
json 'len(d["predictions"]) == 2 and d["predictions"][0]["label"] == 1 and d["predictions"][0]["name"] == "LABEL_1"'
json 'all(abs(sum(p["probabilities"]) - 1) < 1e-12 for p in d["predictions"])'
cp out two
texts | code 0 "$LEVIN" predict tsv --input=- --json
python3 - <<'PY'
import json, math
d, e, two = (json.load(open(x)) for x in ("out", "tsv.json", "two"))
assert len(d["predictions"]) == 40
for p, (a, b) in zip(d["predictions"], e["logits"]):
    assert abs(p["probabilities"][1] - 1 / (1 + math.exp(a - b))) < 1e-5
assert abs(d["predictions"][1]["probabilities"][0] - two["predictions"][1]["probabilities"][0]) < 1e-5
PY
unlined() { sed 's/, *"line": *[0-9]*//g' out; } # without the numbers of lines, among which headers count
unlined >piped
for form in tsv csv jsonl; do
    code 0 "$LEVIN" predict tsv --input=test.$form --json
    unlined >tabled
    same_file tabled piped
done
code 0 "$LEVIN" predict tsv --input=test.tsv
check [ "$(wc -l <out)" = 40 ]
says "$(texts | head -1)" out
code 2 "$LEVIN" predict tsv
says "give texts: either" err
code 1 "$LEVIN" predict tsv --input=nothing.txt
# a directory of transformers, whose classes have names
cp -r "$LEVIN_SOURCE/tests/golden/bert/classify3" named
head -37 "$vocab/vocab.txt" >named/vocab.txt
code 0 "$LEVIN" predict named --text "a b c" --json
json 'd["predictions"][0]["name"] in ("sad", "so so", "glad") and len(d["predictions"][0]["probabilities"]) == 3'
# heads that were not trained to choose one class: refused, unless a new head is requested
for problem in regression multi_label_classification; do
    cp -r named other
    chmod -R u+w other
    sed -i 's/"problem_type": "[a-z_]*",//; s/^{/{"problem_type": "'$problem'",/' other/config.json
    code 1 "$LEVIN" predict other --text "a b c"
    says "is the choice of one class" err
    code 1 "$LEVIN" train --model.init=other --data.path=train.tsv --trainer.max_steps=1 --run_dir=no --quiet
    says "set task.fresh_head=true" err
    code 0 "$LEVIN" export other kept
    says '"problem_type": "'$problem'"' kept/config.json
    rm -r kept
    code 0 "$LEVIN" train --model.init=other --data.path=train.tsv --trainer.max_steps=1 --run_dir=kept --quiet --task.fresh_head=true
    says '"problem_type": "single_label_classification"' kept/checkpoints/last/config.json
    rm -r other kept
done
# a model with a head that levin does not have is loaded without it
sed 's/"BertForSequenceClassification"/"BertForTokenClassification"/' -i named/config.json
code 2 "$LEVIN" predict named --text "a b c"
says "named/config.json: BertForTokenClassification has a head that levin does not have: the model is loaded without it" err
code 0 "$LEVIN" train --model.init=named --data.path=train.tsv --trainer.max_steps=1 --run_dir=kept
says "the head of 'named' (BertForMaskedLM) is replaced by a new one" err
says BertForSequenceClassification kept/checkpoints/last/config.json
rm -r kept
# a decoder predicts classes from the last token
code 0 "$LEVIN" train --model.kind=gpt2 --task.kind=classify "${bert[@]:1}" --data.path=train.tsv --trainer.max_steps=20 --run_dir=gpt2
says GPT2ForSequenceClassification gpt2/checkpoints/last/config.json
code 0 "$LEVIN" evaluate gpt2 --data.path=test.tsv --json
json 'd["samples"] == 40'
code 1 "$LEVIN" generate gpt2 --prompt-ids=1,2
says "this gpt2 classifies and does not generate text" err
# such a model whose head levin does not have, under any name
code 0 "$LEVIN" export gpt2 decoder
sed -i 's/GPT2ForSequenceClassification/GPT2ForTokenClassification/' decoder/config.json
LC_ALL=C sed -i 's/"score.weight"/"other.weight"/' decoder/model.safetensors
code 0 "$LEVIN" train --model.init=decoder --data.path=train.tsv --trainer.max_steps=1 --run_dir=kept
says "decoder/config.json: GPT2ForTokenClassification has a head that levin does not have: the model is loaded without it" err
says "the head of 'decoder' (GPT2LMHeadModel) is replaced by a new one, GPT2ForSequenceClassification" err
rm -r kept decoder
code 1 "$LEVIN" evaluate gpt2 --tasks=none.yaml
says "tasks are scored by the probabilities of tokens, which this gpt2 does not predict" err
code 1 "$LEVIN" evaluate tsv --tasks=none.yaml
says "which this bert does not predict; give a language model" err

# a decoder's own untied language-model head is not used
mkdir few
head -30 "$vocab/vocab.txt" >few/vocab.txt
for family in neox mistral; do
    code 0 "$LEVIN" train --model.init="$LEVIN_SOURCE/tests/golden/$family" --task.kind=classify --data.path=train.tsv --data.tokenizer=few \
        --trainer.batch_size=16 --trainer.max_steps=2 --run_dir=decoder-$family --quiet --lora.rank=2
    says ForSequenceClassification decoder-$family/checkpoints/last/config.json
    # parameters that were trained with the adapters are saved with them, as in PEFT's format, and loaded from there
    says '"modules_to_save": ["score"]' decoder-$family/checkpoints/last/adapter/adapter_config.json
    says '"task_type": "SEQ_CLS"' decoder-$family/checkpoints/last/adapter/adapter_config.json
    code 0 "$LEVIN" train --model.init="$LEVIN_SOURCE/tests/golden/$family" --task.kind=classify --data.path=train.tsv --data.tokenizer=few \
        --trainer.batch_size=16 --trainer.max_steps=1 --optimizer.lr=1e-30 --run_dir=again --quiet --lora.rank=2 \
        --lora.init=decoder-$family/checkpoints/last/adapter
    same_file decoder-$family/checkpoints/last/adapter/adapter_model.safetensors again/checkpoints/last/adapter/adapter_model.safetensors
    sed -i 's/"use_dora": false/"alpha_pattern": {"q_proj": 4}/' decoder-$family/checkpoints/last/adapter/adapter_config.json
    code 1 "$LEVIN" train --model.init="$LEVIN_SOURCE/tests/golden/$family" --task.kind=classify --data.path=train.tsv --data.tokenizer=few \
        --run_dir=no --quiet --lora.rank=2 --lora.init=decoder-$family/checkpoints/last/adapter
    says "alpha_pattern is not supported: merge the adapters with PEFT" err
    rm -r again
done
# a decoder without that head, as transformers' AutoModel writes it, gives the same; it predicts tokens with a new head alone
for family in neox mistral; do
    cp -rL "$LEVIN_SOURCE/tests/golden/$family" bare-$family
    chmod -R u+w bare-$family
    python3 - bare-$family/model.safetensors <<'P'
import json, struct, sys
b = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", b[:8])
header, data, kept = json.loads(b[8:8 + n]), b"", {}
for name, t in header.items():
    if name in ("lm_head.weight", "embed_out.weight", "__metadata__"): continue
    t["data_offsets"], part = [len(data), len(data) + t["data_offsets"][1] - t["data_offsets"][0]], b[8 + n:][slice(*t["data_offsets"])]
    kept[name], data = t, data + part
assert len(kept) < len(header)
h = json.dumps(kept).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(h)) + h + data)
P
    code 0 "$LEVIN" train --model.init=bare-$family --task.kind=classify --data.path=train.tsv --data.tokenizer=few \
        --trainer.batch_size=16 --trainer.max_steps=2 --run_dir=bared-$family --quiet --lora.rank=2
    same_file decoder-$family/checkpoints/last/adapter/adapter_model.safetensors bared-$family/checkpoints/last/adapter/adapter_model.safetensors
    code 0 "$LEVIN" predict bared-$family --text "a b c"
    code 0 "$LEVIN" export bared-$family merged-$family
    tokens=(--model.init=bare-$family --data.path="$LEVIN_SOURCE/tests/golden/$family/tokens.bin" --data.kind=tokens --trainer.max_steps=1 --quiet)
    code 1 "$LEVIN" train "${tokens[@]}" --run_dir=no
    one_error
    says "the head that predicts tokens: this model can be trained on texts with labels" err
    code 0 "$LEVIN" train "${tokens[@]}" --task.fresh_head=true --run_dir=new-$family
    for command in "export bare-$family no" "generate bare-$family --prompt-ids=1,2"; do
        code 1 "$LEVIN" $command
        says "'bare-$family' has no tensor '" err
    done
done
# masked language modeling, then classes: the head is replaced by a new one, with a message
code 0 "$LEVIN" train "${bert[@]}" --data.path=train.tsv --task.kind=mlm --task.whole_words=true --trainer.max_steps=30 --run_dir=mlm
says BertForMaskedLM mlm/checkpoints/last/config.json
code 0 "$LEVIN" evaluate mlm --data.path=test.tsv --json
json 'd["perplexity"] > 1 and 0 < d["tokens"] < 40 * 48'
code 2 "$LEVIN" evaluate mlm --data.path=test.tsv --task.kind=classify
says "is a BertForMaskedLM, which has no head for task.kind=classify" err
code 0 "$LEVIN" train --model.init=mlm --task.kind=classify --data.path=train.tsv --trainer.batch_size=16 --trainer.max_steps=4 --run_dir=fine --verbose
says "is replaced by a new one, BertForSequenceClassification" err
# a resumed run has the bits of an undisturbed one, although its linear layers are transposed in files; adapters are trained with the head
half=("${bert[@]}" --data.path=train.tsv --trainer.max_epochs=2)
code 0 "$LEVIN" train "${half[@]}" --run_dir=whole
code 0 "$LEVIN" train "${half[@]}" --run_dir=half --trainer.max_epochs=1
code 0 "$LEVIN" train half --resume --trainer.max_epochs=2 --quiet
same_weights whole half
code 0 "$LEVIN" train --model.init=mlm --task.kind=classify --data.path=train.tsv --lora.rank=2 --optimizer.lr=1e-2 --trainer.batch_size=16 \
    --trainer.max_steps=12 --run_dir=lora --quiet
code 0 "$LEVIN" export lora merged
python3 - <<'PY'
import struct, json
def tensors(path):
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    return {k: b[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in json.loads(b[8:8 + n]).items() if k != "__metadata__"}
before, after = (tensors(f"{x}/model.safetensors") for x in ("mlm/checkpoints/last", "merged"))
moved = {k for k in before.keys() & after.keys() if before[k] != after[k]}
assert moved == {f"bert.encoder.layer.0.attention.self.{x}.weight" for x in ("query", "value")}, moved
assert any(after["classifier.bias"]) # it began with zeros
PY
# another number of classes must be requested
sed 's/\t1$/\t2/' train.tsv >three.tsv
code 1 "$LEVIN" train --model.init=tsv --data.path=three.tsv --trainer.max_steps=1 --run_dir=no --quiet
says "three.tsv:3: the label is 2; the model knows 0 to 1" err
code 0 "$LEVIN" train --model.init=tsv --data.path=three.tsv --trainer.max_steps=1 --run_dir=three --quiet --task.fresh_head=true
says '"2": "LABEL_2"' three/checkpoints/last/config.json

# bad rows: refused with file, line and what was found, or skipped and counted
printf '1\t\t0\n2\tgood\tyes\n' >>test.tsv
code 1 "$LEVIN" evaluate tsv --data.path=test.tsv
one_error
says "test.tsv:42: the text is empty; correct it, or skip such rows with data.skip_bad_rows=true" err
code 0 "$LEVIN" evaluate tsv --data.path=test.tsv --data.skip_bad_rows=true --json
json 'd["samples"] == 40 and d["skipped"] == 2'
code 2 "$LEVIN" train --data.path=train.tsv --model.init="$LEVIN_SOURCE/tests/golden/llama" --run_dir=no --quiet
says "has no tokenizer: give data.tokenizer" err
# no `levin train --tokenizer`: the model has learned the tokens of another one
says "\`levin tokenizer train --kind=wordpiece --input=train.tsv --field=COLUMN --out=FOLDER\` makes one" err
code 2 "$LEVIN" train --model.kind=bert --data.kind=mnist --run_dir=no --quiet
says "use another model or other data" err
# refusals: no space for text, more tokens than positions, the label as text, keys of other data kinds
refused() { code 2 "$LEVIN" train "${bert[@]}" --data.path=train.tsv --run_dir=no "${@:2}"; one_error; says "$1" err; }
refused "the tokenizer adds 2 special tokens to a text; set data.max_length to at least 3" --data.max_length=1
refused "data.max_length is 49, and the model has 48 positions" --data.max_length=49
refused "the column 'label' is named twice" --data.text_column=label
refused "task.mask_fraction (0.5) is a key of task.kind=mlm" --task.mask_fraction=0.5
refused "task.whole_words is a key of task.kind=mlm" --task.whole_words=true
refused "data.val_fraction (0.3) holds back rows" --data.val_path=test.tsv --data.val_fraction=0.3
refused "data.max_length (9) is a key of data.kind=labelled" --data.kind=tokens --data.tokenizer= --data.max_length=9
code 1 "$LEVIN" train "${bert[@]}" --data.path=train.tsv --run_dir=no --data.test_path=nothing.tsv
says "data.test_path: there is no 'nothing.tsv'" err
# labels with gaps are reported
code 0 "$LEVIN" train "${bert[@]}" --data.path=three.tsv --trainer.max_steps=1 --run_dir=gaps
says "three.tsv': no row has the label 1 of the classes 0 to 2" err
# a model of pairs refuses single texts
awk -F'\t' -v OFS='\t' 'NR == 1 { $4 = "other" } NR > 1 { $4 = "you" } 1' train.tsv >pairs.tsv
code 0 "$LEVIN" train "${bert[@]}" --data.path=pairs.tsv --data.pair_column=other --trainer.max_steps=1 --run_dir=pairs
code 0 "$LEVIN" predict pairs --text="this was good"
says "the model learned from pairs (data.pair_column is 'other'), and these are single texts" err
code 0 "$LEVIN" predict pairs --input=pairs.tsv
silent_about warning err
# Truncated texts and special tokens in texts are counted, in training and prediction.
words=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-words
awk -F'\t' -v OFS='\t' 'NR > 1 && NR % 4 == 0 { $2 = $2 " [SEP] the" } 1' train.tsv >special.tsv
head -41 test.tsv >forty.tsv
special=("${bert[@]}" --data.tokenizer="$words" --data.max_length=20 --data.path=special.tsv --data.val_path=forty.tsv
    --trainer.max_steps=1 --quiet=false)
code 0 "$LEVIN" train "${special[@]}" --run_dir=special
says "special.tsv: 50 of 200 rows contain the text of special tokens, such as [SEP]" err
grep -qE 'special.tsv: [0-9]+ of 200 rows are longer than 20 tokens and were truncated' err || fail "no count of truncated rows"
grep -qE 'forty.tsv: [0-9]+ of 40 rows are longer than 20 tokens' err || fail "no count of truncated rows of the validation data"
code 0 "$LEVIN" predict special --text="the [SEP] man" --text="$(seq -s ' ' 60)"
says "1 of 2 rows contain the text of special tokens" err
says "1 of 2 rows are longer than 20 tokens" err
code 0 "$LEVIN" train "${special[@]}" --data.allow_special=true --run_dir=allowed
silent_about "special tokens" err
code 0 "$LEVIN" predict allowed --text="[CLS] the man"
silent_about "special tokens" err
says "1 of 1 rows begin with a token that the tokenizer also adds" err
# without task.kind a decoder learns the classes of a table, because a table has no other labels
gpt=(--model.kind=gpt2 --model.n_layer=1 --model.n_head=2 --model.n_embd=32 --model.block_size=48 --quiet)
head -41 test.tsv >fresh.tsv
code 0 "$LEVIN" train train.tsv "${gpt[@]}" --data.tokenizer="$vocab" --data.test_path=fresh.tsv --trainer.max_steps=2 --run_dir=gpt
grep -q '"architectures": *\["GPT2ForSequenceClassification"\]' gpt/checkpoints/last/config.json || fail "no classes were learned"
code 0 "$LEVIN" evaluate gpt --data.split=test
says "over 40 samples, test of 'fresh.tsv'" out
code 2 "$LEVIN" train train.tsv "${gpt[@]}" --data.tokenizer="$vocab" --task.kind=lm --run_dir=no
says "task.kind=lm learns from 'labels', and data.kind=labelled has none: give --task.kind=classify, or other data" err
# with a tokenizer, a plain text is read as data.kind=documents
cp "$LEVIN_SOURCE/README.md" text.txt
code 0 "$LEVIN" train "${bert[@]}" --data.path=text.txt --task.kind=mlm --trainer.max_steps=1 --run_dir=documents
check grep -q 'kind: documents' documents/settings.yaml
# without model_type the architecture names the family
code 0 "$LEVIN" export documents untyped
cp untyped/config.json typed.json
sed -i '/"model_type"/d' untyped/config.json
code 0 "$LEVIN" export untyped kept
same_file typed.json kept/config.json
sed -i 's/"BertForMaskedLM"/"Bert"/' untyped/config.json
code 1 "$LEVIN" export untyped none
says "'model_type' is missing: add the family of the model, one of nanogpt, gpt2, " err
# a model of text has no classes
code 0 "$LEVIN" train --trainer.fast_dev_run text.txt "${gpt[@]}"
code 0 "$LEVIN" train text.txt "${gpt[@]}" --trainer.max_steps=1 --run_dir=chars
code 2 "$LEVIN" predict chars --text=good
says "has no classes to predict: it is a GPT2LMHeadModel; train it on labelled texts first" err
