# label: slow
# levin evaluate --tasks: log-likelihoods equal the token losses of the whole texts, with and without a prefix that answers share;
# tokens that items share; quantized models; few-shot examples and Python's random numbers; long items; CORE bundles; the same values on several ranks; files and options that
# are refused. tools/compare_tasks.py compares with lm-evaluation-harness and nanochat.
. "$LEVIN_SOURCE/tests/cli/common.bash"
export OMP_NUM_THREADS=1
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
echo '{"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|endoftext|>"}}' >t/tokenizer_config.json
make_text
train() { # train KIND OPTION...: a run of that name
    local kind=$1
    shift
    code 0 "$LEVIN" train --data.kind=documents --data.path=text.txt --data.tokenizer=t --model.kind=$kind --model.n_layer=2 \
        --model.n_head=2 --model.n_embd=32 --model.block_size=128 --trainer.batch_size=4 --trainer.max_steps=60 \
        --trainer.limit_val_batches=1 --run_dir=$kind "$@"
}
train gpt2
train llama
train mistral --model.sliding_window=20 # hidden tokens do not count in a window
train nanochat                          # and are not the token before the first one of an answer
data() { printf 'dataset_path: json\ndataset_kwargs: {data_files: {test: %s}}\ntest_split: test\n' "$1"; }
metrics='metric_list: [{metric: acc}, {metric: acc_norm, aggregation: mean, higher_is_better: true}]'

# --- tasks of three kinds ---
python3 - <<'P'
import json, random
words = [w for w in open("text.txt").read().split() if w.isalpha()]
r = random.Random(3)
some = lambda n: " ".join(r.choice(words) for _ in range(n))
def write(name, rows):
    with open(name, "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
write("choice.jsonl", [{"q": some(r.choice([2, 30, 40, 70, 90])), "a": [some(r.randrange(1, 12)) for _ in range(r.choice([2, 3, 5]))], "gold": i % 2}
                       for i in range(21)])
write("blank.jsonl", [{"s": some(r.randrange(2, 30)) + " _ " + some(r.randrange(1, 9)), "o": [some(1), some(2)], "n": str(1 + i % 2)} for i in range(9)])
write("last.jsonl", [{"text": some(r.randrange(2, 40)), "extra": None} for i in range(10)] + [{"text": "one two"}])
write("page.jsonl", [{"page": some(n)} for n in (3, 200)])
P
{ data choice.jsonl; echo 'task: choice'; echo 'output_type: multiple_choice'; echo "$metrics"
    printf 'doc_to_text: "Q: {{q}}\\nA: "\ndoc_to_choice: a\ndoc_to_target: gold\n'; } >choice.yaml
{ data blank.jsonl; printf 'task: blank\noutput_type: multiple_choice\ndoc_to_text: "{{n|int - 1}}"\n'
    printf 'doc_to_choice: "{{[s.split(%c_%c)[0] + o[0], s.split(%c_%c)[0] + o[1]]}}"\n' "'" "'" "'" "'"
    printf 'doc_to_target: "{{s.split(%c_%c)[1].strip()}}"\n' "'" "'"; } >blank.yaml
{ data last.jsonl; printf 'task: last\noutput_type: loglikelihood\ndoc_to_text: "{{text.split(%c %c)[:-1]|join(%c %c)}}"\n' "'" "'" "'" "'"
    printf 'doc_to_target: "{{%c %c+text.split(%c %c)[-1]}}"\n' "'" "'" "'" "'"; } >last.yaml
{ data page.jsonl; printf 'task: page\noutput_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: "{{page}}"\n'; } >page.yaml
tasks=(--tasks=choice.yaml --tasks=blank.yaml --tasks=last.yaml --tasks=page.yaml)
cat >losses.py <<'P'
"""losses.py MODEL FILE N OPTION...: the log-likelihoods of N items in FILE, of --items, equal the token losses of the same tokens in a
window each."""
import array, json, math, os, subprocess, sys
model, items, n = sys.argv[1], [json.loads(x) for x in open(sys.argv[2])], int(sys.argv[3])
def levin(*args, text=None):
    return json.loads(subprocess.run([os.environ["LEVIN"], *args, "--json"], input=text, stdout=subprocess.PIPE, check=True, text=True).stdout)
def ids(text):
    return levin("tokenize", "--tokenizer=t", text=text)["ids"]
def split(context, answer): # lm-evaluation-harness: spaces at the end of the context belong to the answer
    if not context:
        return [500], ids(answer)
    first = ids(context.rstrip())
    return first, ids(context + answer)[len(first):]
def requests(name, d):
    if name == "shared":
        return [split(f"{before}Q: {d['q']}\nA:", f" {a}") for a in d["a"]]
    if name == "choice":
        return [split(f"Q: {d['q']}\nA: ", f" {a}") for a in d["a"]]
    if name == "blank":
        left, right = d["s"].split("_")
        return [split(left + o, f" {right.strip()}") for o in d["o"]]
    words = d["text"].split(" ")
    return [split(" ".join(words[:-1]), " " + words[-1])]
before = open("before").read() if os.path.exists("before") else ""
checked = 0
for item in items:
    if item["task"] == "page" or (item["item"] % 4 and item["line"] < 11):
        continue
    d = [json.loads(x) for x in open(item["task"].replace("shared", "shots") + ".jsonl")][item["line"] - 1]
    want = []
    for context, answer in requests(item["task"], d)[:2]:
        tokens = (context + answer)[-129:]
        array.array("H", tokens).tofile(open("one.bin", "wb"))
        losses = levin("evaluate", model, "--data.kind=tokens", "--data.path=one.bin", "--data.split=all", "--token-losses",
                       *sys.argv[4:])["token_losses"][0]
        want.append(-sum(losses[:len(tokens) - 1][-len(answer):]))
    got = item["log_likelihoods"]
    assert all(math.isclose(a, b, rel_tol=1e-4, abs_tol=2e-3) for a, b in zip(want, got)), (item, want)
    if "choice" in item:
        assert got[item["choice"]] == max(got) and item["correct"] == (item["choice"] == (d["gold"] if "gold" in d else int(d["n"]) - 1)), item
    if item["task"] == "choice":
        norm = [x / len(a) for x, a in zip(got, d["a"])]
        assert norm[item["choice_norm"]] == max(norm), item
    checked += 1
assert checked == n, checked
P
for kind in gpt2 llama mistral nanochat; do
    code 0 "$LEVIN" evaluate $kind "${tasks[@]}" --items=$kind.items --json
    json '[t["task"] for t in d["tasks"]] == ["choice", "blank", "last", "page"] and d["tasks"][0]["items"] == 21'
    json 'd["tasks"][0]["truncated"] > 0 and d["tasks"][1]["truncated"] == d["tasks"][2]["truncated"] == 0'
    json 'd["tasks"][2]["perplexity"] > 1 and d["tasks"][3]["bits_per_byte"] > 0 and math.isclose(math.log2(d["tasks"][3]["byte_perplexity"]), d["tasks"][3]["bits_per_byte"])'
    check [ "$(wc -l <$kind.items)" = 43 ]
    python3 losses.py $kind $kind.items 21
done
python3 - <<'P'
import json
items = [json.loads(x) for x in open("gpt2.items")]
assert [len(i["log_likelihoods"]) for i in items[-2:]] == [1, 5], items[-2:] # windows of 128 tokens
P
code 0 "$LEVIN" evaluate gpt2 "${tasks[@]}" --limit=5
says "of 5 items do not fit into the context; their first tokens were left out" out
check [ "$(grep -c 'acc' out)" = 5 ]
for n in 2 3; do # items are divided among ranks; the bits are the same
    code 0 "$LEVIN" launch --launcher=levin --prefix=false -n $n -- evaluate gpt2 "${tasks[@]}" --items=ranks.items
    same_file ranks.items gpt2.items
done
code 0 "$LEVIN" launch --launcher=levin --prefix=false -n 3 -- evaluate gpt2 "${tasks[@]}" --items=ranks.items --trainer.strategy=fsdp
same_file ranks.items gpt2.items

# --- examples: the same prompts written out, with the choices of Python's random ---
python3 - <<'P'
import json, random
rows = [json.loads(x) for x in open("choice.jsonl")]
rows = [{**row, "q": " ".join(row["q"].split()[:4]), "a": [" ".join(a.split()[:2]) for a in row["a"]]} for row in rows]
once, rows = rows, rows + rows[:6] * 3
r, out = random.Random(1234), []
for row in rows:
    drawn = [x for x in r.sample(rows, 3) if x != row][:2]
    if len(drawn) < 2: drawn = r.sample([x for x in rows if x != row], 2)
    text = "".join(f"Q: {x['q']}\nA: {x['a'][x['gold']]}\n\n" for x in drawn)
    out.append({**row, "q": f"Answer.\n\n{text}Q: {row['q']}\nA:"})
for name, all in ("shots", once), ("copies", rows), ("written", out):
    open(name + ".jsonl", "w").writelines(json.dumps(row) + "\n" for row in all)
P
sed 's/choice.jsonl/copies.jsonl/; s/^task:.*/task: shots/; s/^doc_to_text.*/doc_to_text: "Q: {{q}}\\nA:"/' choice.yaml >shots.yaml
printf 'description: "Answer.\\n\\n"\nnum_fewshot: 2\nfewshot_split: test\n' >>shots.yaml
sed 's/choice.jsonl/written.jsonl/; s/^task:.*/task: written/; s/^doc_to_text.*/doc_to_text: q/' choice.yaml >written.yaml
code 0 "$LEVIN" evaluate llama --tasks=shots.yaml --tasks=written.yaml --items=items
python3 - <<'P'
import json, math
items = [json.loads(x) for x in open("items")]
assert len(items) == 78 and items[0]["task"] == "shots" and items[39]["task"] == "written"
for a, b in zip(items[:39], items[39:]):
    assert all(math.isclose(x, y, rel_tol=1e-5) for x, y in zip(a["log_likelihoods"], b["log_likelihoods"], strict=True)), (a, b)
P

# --- a common text before all items: it is computed once for the items of a row ---
echo -n "$(head -c 150 text.txt | tr -c 'a-zA-Z' ' ' | tr -s ' ')" >before
sed "s/copies.jsonl/shots.jsonl/; s/^task:.*/task: shared/; s/^num_fewshot.*/num_fewshot: 0/; s/^description:.*/description: '$(cat before)'/" shots.yaml >shared.yaml
for kind in gpt2 mistral nanochat llama; do
    code 0 "$LEVIN" evaluate $kind --tasks=shared.yaml --items=shared.items
    silent_about "do not fit" out
    read -r tokens run < <(tr -d , <out | sed -n 's/.* items with \([0-9]*\) tokens.* which \([0-9]*\) were.*/\1 \2/p')
    check [ $((run * 3)) -lt "$tokens" ]
    python3 losses.py $kind shared.items 14
done

code 0 "$LEVIN" evaluate llama --tasks=shared.yaml --num-fewshot=2 --limit=1 --json
json 'd["tasks"][0]["num_fewshot"] == 0'
says "shared.yaml: 'num_fewshot: 0' is kept, so items have no examples; remove this key to use 2" err

# --- a quantized model: the values of its own logits, which are not those of the model ---
for q in nf4 int8; do
    code 0 "$LEVIN" evaluate llama --tasks=shared.yaml --items=$q.items --model.quantize=$q
    python3 losses.py llama $q.items 14 --model.quantize=$q
    if cmp -s $q.items shared.items; then fail "$q: the values of the model without it"; fi
done

echo 'include: shots.yaml' >first.yaml
printf 'fewshot_config: {sampler: first_n, samples: [{q: one, a: [x, y], gold: 1}], doc_to_text: "{{q}} is"}\nfewshot_split: null\n' >>first.yaml
code 0 "$LEVIN" evaluate llama --tasks=first.yaml --num-fewshot=1
code 2 "$LEVIN" evaluate llama --tasks=first.yaml
says "too few items" err

# process_docs makes columns of data files, not of samples
echo '{"activity_label": "Owls", "ctx_a": "the owl", "ctx_b": "went", "endings": ["to sea", "home"], "label": "1"}' >hellaswag.jsonl
{ data hellaswag.jsonl; printf 'task: hellaswag\noutput_type: multiple_choice\nprocess_docs: !function utils.process_docs\n'
    printf 'doc_to_text: "{{query}}"\ndoc_to_choice: choices\ndoc_to_target: "{{gold}}"\nnum_fewshot: 1\n'
    echo 'fewshot_config: {samples: [{query: one, choices: [x, y], gold: 1}]}'; } >owls.yaml
code 0 "$LEVIN" evaluate llama --tasks=owls.yaml

# --- a CORE bundle ---
mkdir -p core/eval_data/reading
python3 - <<'P'
import json
rows = [json.loads(x) for x in open("shots.jsonl")]
short = lambda name, all: open(f"core/eval_data/{name}", "w").writelines(json.dumps(row) + "\n" for row in all)
short("reading/mc.jsonl", [{"query": r["q"], "choices": r["a"], "gold": r["gold"]} for r in rows])
short("schema.jsonl", [{"context_options": [f"{r['q']} {a}" for a in r["a"]], "continuation": "and to", "gold": r["gold"]} for r in rows])
short("lm.jsonl", [{"context": r["q"] + "  ", "continuation": r["a"][0]} for r in rows])
P
cat >core/core.yaml <<'Y'
icl_tasks:
- {label: choices, dataset_uri: reading/mc.jsonl, num_fewshot: [2], icl_task_type: multiple_choice, continuation_delimiter: "\nAnswer: "}
- {label: twist, dataset_uri: schema.jsonl, num_fewshot: [0], icl_task_type: schema}
- {label: words, dataset_uri: lm.jsonl, num_fewshot: [1], icl_task_type: language_modeling, has_categories: true}
Y
printf 'Eval Task,Task Category,Random baseline,Description\nchoices,"a, b",25,x\ntwist,c,50.0,"y"\nwords,d,0,z\n' >core/eval_meta_data.csv
code 0 "$LEVIN" evaluate gpt2 --tasks=core --json --items=core.items
json 'math.isclose(d["core"], sum(t["centered"] for t in d["tasks"]) / 3) and d["tasks"][0]["baseline"] == 0.25'
json 'all(math.isclose(t["centered"], (t["acc"] - t["baseline"]) / (1 - t["baseline"])) for t in d["tasks"])'
python3 - <<'P'
import json, random
order = list(range(21))
random.Random(1337).shuffle(order)
items = [json.loads(x) for x in open("core.items")]
assert [i["line"] - 1 for i in items[:21]] == order, items[:21]
P
code 0 "$LEVIN" evaluate gpt2 --tasks=core --limit=4
says "the mean of 3 centered accuracies" out

# An answer with which all others begin has no token to run. " x" has two tokens here, so both texts have 2L + 2, and L + 1 are run.
mkdir -p begin/eval_data
echo '{"query": "one two", "choices": ["x", "x x"], "gold": 1}' >begin/eval_data/begin.jsonl
{ echo icl_tasks:; echo '- {label: begin, dataset_uri: begin.jsonl, num_fewshot: [0], icl_task_type: multiple_choice}'; } >begin/core.yaml
sed -n '1p; s/^twist/begin/p' core/eval_meta_data.csv >begin/eval_meta_data.csv
code 0 "$LEVIN" evaluate gpt2 --tasks=begin --items=begin.items
read -r tokens run < <(tr -d , <out | sed -n 's/.* items* with \([0-9]*\) tokens.* which \([0-9]*\) were.*/\1 \2/p')
check [ $((2 * run)) = "$tokens" ]
sed -i '1s/Random baseline/Chance/' begin/eval_meta_data.csv
code 1 "$LEVIN" evaluate gpt2 --tasks=begin
says "has no column 'Random baseline'; its columns are Eval Task, Task Category, Chance, Description; rename the right one" err

# --- what is refused, with file and line ---
refused() { # refused MESSAGE [EXIT] [OPTIONS]: bad.yaml
    local wanted=$1 exit=${2:-2}
    shift $(($# < 2 ? $# : 2))
    code "$exit" "$LEVIN" evaluate gpt2 --tasks=bad.yaml "$@"
    one_error
    says "$wanted" err
}
with() { sed "$1" choice.yaml >bad.yaml; }
row() { cp choice.yaml bad.yaml; sed -i 's/choice.jsonl/bad.jsonl/' bad.yaml; { head -1 choice.jsonl; echo "$1"; } >bad.jsonl; }
with 's/^output_type.*/output_type: generate_until/'; refused "bad.yaml:5: the output_type is 'generate_until'" 1
with 's/^output_type.*/doc_to_txt: x/'; refused "bad.yaml:5: 'doc_to_txt' is not a key"
with 's/^output_type.*/filter_list: [x]/'; refused "bad.yaml:5: 'filter_list' is not supported" 1
with 's/metric: acc}/metric: f1}/'; refused "bad.yaml:6: the metric 'f1' is not supported" 1
with 's/aggregation: mean/aggregation: median/'; refused "is aggregated by 'mean' here, not by 'median'" 1
with 's/choice.jsonl/none.jsonl/'; refused "bad.yaml:2: there is no file 'none.jsonl'"
with 's/dataset_path: json/dataset_path: Rowan\/hellaswag/'; refused "write 'dataset_path: json'" 1
with 's/^test_split.*/test_split: dev/'; refused "bad.yaml:3: 'test_split' is the split 'dev', and data_files (line 2) has no file for it"
with 's/{{q}}/{{q/'; refused "bad.yaml:7: doc_to_text" 1
with 's/{{q}}/{{question}}/'; refused "'question' is undefined" 1
says "while making the item choice.jsonl:1" err
with 's/^doc_to_choice.*/doc_to_choice: "{{q}}"/'; refused "which is not a list as Python writes it"
with 's/^doc_to_choice.*/doc_to_choice: !function utils.choices/'; refused "'!function utils.choices', a function in Python" 1
for value in '[a]' '{a: b}' '[]'; do # a list or map where a text belongs
    with "s/aggregation: mean/aggregation: $value/"; refused "bad.yaml:6: 'aggregation' must be a text"
    for key in description fewshot_split; do
        { cat choice.yaml; echo "$key: $value"; } >bad.yaml; refused "bad.yaml:10: '$key' must be a text"
    done
    { cat choice.yaml; echo "fewshot_config: {split: $value}"; } >bad.yaml; refused "bad.yaml:10: 'split' must be a text"
done
{ cat choice.yaml; echo 'fewshot_config: [a]'; } >bad.yaml; refused "bad.yaml:10: 'fewshot_config' must be a map"
with 's/choice.jsonl/[]/'; refused "bad.yaml:2: the split 'test' has no files"
row '{"q": "one", "a": ["x", ""], "gold": 0}'; refused "bad.jsonl:2: answer 2 is empty"
row '{"q": "one", "a": ["x"], "gold": 0}'; refused "bad.jsonl:2: the item has 1 answers"
row '{"q": "one", "a": ["x", "y"], "gold": 2}'; refused "bad.jsonl:2: the correct answer is neither"
row '{"q": "one", "a": ["x", "y"], "gold": '; refused "bad.jsonl:2: "
row "{\"q\": \"one\", \"a\": [\"x\", \"$(head -c 3000 text.txt | tr -cd 'a-z ')\"], \"gold\": 0}"
refused "and the model reads 128: shorten it, or leave the item out"
code 2 "$LEVIN" evaluate gpt2 --limit=3
says "--limit has no effect without --tasks" err
code 2 "$LEVIN" evaluate gpt2 --tasks=choice.yaml --data.path=text.txt
says "--data.path has no effect with --tasks" err
code 2 "$LEVIN" evaluate gpt2 --tasks=choice.yaml --logits --json
says "--logits belongs to an evaluation on data" err
code 2 "$LEVIN" evaluate gpt2 --tasks=t
says "the folder 't' has no core.yaml" err
code 2 "$LEVIN" evaluate gpt2 --tasks=none.yaml
says "'none.yaml' does not exist" err
sed -i 's/^twist.*//' core/eval_meta_data.csv
code 2 "$LEVIN" evaluate gpt2 --tasks=core
says "'core/eval_meta_data.csv' has no row for the task 'twist'" err
rm core/eval_data/lm.jsonl
sed -i '/twist/d' core/core.yaml
code 2 "$LEVIN" evaluate gpt2 --tasks=core
says "core/core.yaml:3: the data of task 'words' are missing" err
