# data.add_tokens: the tokenizer and the model get more tokens; their first rows, ids and files; training, which is the same on 3 ranks and in
# parts; what follows it (evaluation, generation, export, another training); other kinds of data; bad values.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
echo '{"eos_token": "<|endoftext|>", "bos_token": "<|begin_of_text|>"}' >t/tokenizer_config.json
echo '{% for m in messages %}<|turn|>{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|turn|>assistant: {% endif %}' >turns.jinja
make_text
small=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=64 --trainer.batch_size=6)
code 0 "$LEVIN" train --data.kind=documents --data.path=text.txt --data.tokenizer=t --model.kind=gpt2 "${small[@]}" \
    --trainer.max_steps=1 --trainer.limit_val_batches=1 --run_dir=base
for i in $(seq 40); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i <|turn|>\"}, {\"role\": \"assistant\", \"content\": \"yes, $((i * i))\"}]}"
done >rows.jsonl
cat >look.py <<'P'
import json, struct, sys
from array import array
def rows(folder):
    data = open(folder + "/model.safetensors", "rb").read()
    n, = struct.unpack("<Q", data[:8])
    t = json.loads(data[8:8 + n])["transformer.wte.weight"]
    x = array("f", data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
    C = t["shape"][1]
    return [x[i:i + C] for i in range(0, len(x), C)]
P

# --- two tokens: their ids, rows and files ---
new=(--model.init=base --data.template=turns.jinja --trainer.batch_size=6 --optimizer.lr=1e-3)
tokens="['<|turn|>', \"[CALL]\"]"
code 0 "$LEVIN" train rows.jsonl "${new[@]}" --data.add_tokens="$tokens" --run_dir=first --trainer.max_steps=1 --optimizer.kind=sgd --optimizer.lr=1e-30
says "data.add_tokens: new special tokens of the tokenizer 'base/checkpoints/step-1': 2, from the id 503 on" err
at=first/checkpoints/last
python3 - <<'P'
from look import *
old, new = rows("base/checkpoints/last"), rows("first/checkpoints/last")
assert len(new) == len(old) + 2 == json.load(open("first/checkpoints/last/config.json"))["vocab_size"]
assert new[:len(old)] == old and new[-1] == new[-2]
for c in range(len(old[0])): assert abs(new[-1][c] - sum(r[c] for r in old) / len(old)) < 1e-7
before, after = (json.load(open(f + "/tokenizer.json")) for f in ("t", "first/checkpoints/last"))
more = after["added_tokens"][len(before["added_tokens"]):]
assert [(a["id"], a["content"], a["special"]) for a in more] == [(len(old), "<|turn|>", True), (len(old) + 1, "[CALL]", True)]
after["added_tokens"] = before["added_tokens"]
assert before == after
P
says 'add_tokens: ["<|turn|>", "[CALL]"]' first/settings.yaml
code 0 "$LEVIN" tokenize --chat=rows.jsonl --tokenizer=$at --json
python3 - <<'P'
from look import *
turn = len(rows("base/checkpoints/last"))
for line in open("out"): # the template's are tokens, that of the message is text
    line = json.loads(line)
    assert line["text"].count("<|turn|>") == 3 and line["ids"].count(turn) == 2 and turn not in line["labels"], line
P
size=$(python3 -c 'import json; print(json.load(open("base/checkpoints/last/config.json"))["vocab_size"])')
printf '[CALL]<|turn|>' | "$LEVIN" tokenize --tokenizer=$at >ids
check [ "$(tr ',' ' ' <ids)" = "$((size + 1)) $size" ]

# --- training: in parts, on 3 ranks, with a recipe ---
cat >recipe.yaml <<'Y'
model: {init: base}
data: {path: rows.jsonl, kind: chat, template: turns.jinja, add_tokens: ['<|turn|>', '[CALL]']}
trainer: {batch_size: 6, max_steps: 4, deterministic: true}
optimizer: {lr: 1e-3}
Y
code 0 "$LEVIN" train recipe.yaml --run_dir=whole
code 0 "$LEVIN" train recipe.yaml --run_dir=parts --trainer.max_steps=2
code 0 "$LEVIN" train parts --resume --trainer.max_steps=4
same_weights whole parts
same_file {whole,parts}/checkpoints/last/tokenizer.json
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- train recipe.yaml --run_dir=three
same_weights whole three
code 2 "$LEVIN" train parts --resume --trainer.max_steps=6 --data.add_tokens='<|turn|>'
one_error
says "data.add_tokens is <|turn|> here but was <|turn|>, [CALL] in the run" err

# --- what follows: the tokens belong to the model ---
code 0 "$LEVIN" evaluate whole --json
echo '{"messages": [{"role": "user", "content": "say 3"}]}' >question.jsonl
code 0 "$LEVIN" generate whole --chat=question.jsonl --max-new-tokens=4
echo hello | code 0 "$LEVIN" chat whole --max-new-tokens=4
code 0 "$LEVIN" export whole model
same_file {model,whole/checkpoints/last}/tokenizer.json
code 0 "$LEVIN" train rows.jsonl --model.init=model --run_dir=second --trainer.max_steps=1
same_file {model,second/checkpoints/last}/tokenizer.json
code 2 "$LEVIN" train rows.jsonl --model.init=model --run_dir=no --data.add_tokens='[x], <|turn|>'
says "must be names separated by commas" err
code 2 "$LEVIN" train rows.jsonl --model.init=model --run_dir=no --data.add_tokens='<|turn|>'
one_error
says "data.add_tokens: '<|turn|>' is a token of 'model' already, with the id " err
# rows that the model has in addition to its tokens are used
code 0 "$LEVIN" export base padded --vocab-size=1000
code 0 "$LEVIN" train rows.jsonl "${new[@]}" --model.init=padded --data.add_tokens="$tokens" --run_dir=rows --trainer.max_steps=1
check grep -q '"vocab_size": 1000' rows/checkpoints/last/config.json
# adapters: the base has fewer rows than the model
code 0 "$LEVIN" train rows.jsonl "${new[@]}" --data.add_tokens="$tokens" --lora.rank=2 --run_dir=adapters --trainer.max_steps=2
says "the embeddings of data.add_tokens (<|turn|>, [CALL]) are not trained: with lora.rank only adapters are, and the tokens that lora.trainable_tokens names" err
code 0 "$LEVIN" train adapters --resume --trainer.max_steps=3
code 0 "$LEVIN" evaluate adapters --json
code 0 "$LEVIN" export adapters merged
code 0 "$LEVIN" evaluate merged --data.path=rows.jsonl --json

# --- other kinds of data; files of a tokenizer without tokenizer.json ---
head -400 text.txt | sed 's/^/[CALL] /' >calls.txt
code 0 "$LEVIN" train --data.kind=documents --data.path=calls.txt --model.init=base --data.add_tokens="['[CALL]']" --data.allow_special \
    --trainer.max_steps=1 --run_dir=documents
sed -i 's/}$/, "added_tokens_decoder": {}}/' t/tokenizer_config.json # from which some classes of transformers add tokens
code 0 "$LEVIN" train --data.kind=documents --data.path=calls.txt --data.tokenizer=t --model.kind=gpt2 "${small[@]}" --data.add_tokens="['[CALL]']" \
    --data.allow_special --trainer.max_steps=1 --run_dir=fresh
for file in tokenizer.json tokenizer_config.json; do check grep -q '\[CALL\]' fresh/checkpoints/last/$file; done
code 0 "$LEVIN" evaluate fresh --json
awk 'BEGIN { print "text\tlabel" } NR <= 40 { print $1 " [E1]", (NR % 2 ? "loss" : "step") "\t" NR % 2 }' text.txt >rows.tsv
code 0 "$LEVIN" tokenizer train --kind=wordpiece --input=text.txt --vocab-size=200 --out=words
mkdir vocab
python3 -c 'import json
v = json.load(open("words/tokenizer.json"))["model"]["vocab"]
open("vocab/vocab.txt", "w").write("".join(t + "\n" for t in sorted(v, key=v.get)))'
for folder in words vocab; do
    code 0 "$LEVIN" train --model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --data.path=rows.tsv \
        --data.tokenizer=$folder --data.add_tokens="'[E1]'" --data.allow_special --trainer.batch_size=8 --trainer.max_steps=2 --run_dir=class-$folder
    printf '[E1]' | "$LEVIN" tokenize --tokenizer=class-$folder/checkpoints/last >ids
    check grep -qw "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["vocab_size"] - 1)' class-$folder/checkpoints/last/config.json)" ids
    check grep -q '\[E1\]' class-$folder/checkpoints/last/{tokenizer.json,tokenizer_config.json} -s
    code 0 "$LEVIN" evaluate class-$folder --json
done
# a loaded model with a new head
code 0 "$LEVIN" train rows.tsv --model.init=base --data.add_tokens="'[E1]'" --data.allow_special --trainer.batch_size=6 --trainer.max_steps=1 --run_dir=headed \
    --optimizer.kind=sgd --optimizer.lr=1e-30
python3 - <<'P'
from look import *
old, new = rows("base/checkpoints/last"), rows("headed/checkpoints/last")
assert new[:-1] == old and all(abs(new[-1][c] - sum(r[c] for r in old) / len(old)) < 1e-7 for c in range(len(old[0])))
P
code 0 "$LEVIN" train rows.tsv --model.init=class-words --task.fresh_head=true --model.vocab_size=300 --trainer.max_steps=1 --run_dir=wide
check grep -q '"vocab_size": 300' wide/checkpoints/last/config.json
code 0 "$LEVIN" evaluate wide --json

# --- bad values ---
refused() { # SENTENCE [keys]
    local sentence=$1
    shift
    code 2 "$LEVIN" train --run_dir=no --trainer.max_steps=1 "$@"
    one_error
    says "$sentence" err
    check [ ! -e no ]
}
chat=(rows.jsonl --model.init=base --data.template=turns.jinja)
refused "data.add_tokens: '<|endoftext|>' is a token of " "${chat[@]}" --data.add_tokens='<|endoftext|>'
refused "data.add_tokens: 'a' is a token of " "${chat[@]}" --data.add_tokens='a'
refused "data.add_tokens names '<x>' twice" "${chat[@]}" --data.add_tokens='<x>,<x>'
refused "data.add_tokens must be names separated by commas" "${chat[@]}" --data.add_tokens="['a b']"
refused "data.add_tokens (<x>) is a key of data.kind=labelled, documents or chat" --data.kind=chars --data.path=text.txt --data.add_tokens='<x>'
refused "data.add_tokens (<x>) has no effect while data.allow_special is false" --data.kind=documents --data.path=text.txt --model.init=base --data.add_tokens='<x>'
refused "would cut tokens" "${chat[@]}" --data.add_tokens='<x>' --model.vocab_size="$size"
code 2 "$LEVIN" evaluate whole --data.add_tokens='<x>'
one_error
says "data.add_tokens (<x>) adds tokens to a model that is trained, and this command trains none: leave it out" err
rm model/tokenizer*
refused "which has none: add the files of its tokenizer" --model.init=model --data.kind=chat --data.path=rows.jsonl --data.add_tokens='<x>'
