# Tokens for unknown text are counted in data and prompts: few are reported, many are worth one warning with what to do.
. "$LEVIN_SOURCE/tests/cli/common.bash"
vocab=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
small=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=64 --trainer.batch_size=4 --trainer.max_steps=1)
python3 - <<'PY'
import json
known = "the a of to and in was it for on with as be at by I this had not are but from or have an they"
with open("few.csv", "w") as few, open("many.csv", "w") as many, open("talks.jsonl", "w") as talks:
    print("text,label", file=few)
    print("text,label", file=many)
    for i in range(40):
        print(known + (" \U0001f600" if i == 0 else "") + f",{i % 2}", file=few)
        print(f"각하 the,{i % 2}", file=many)
        print(json.dumps({"messages": [{"role": "user", "content": "각하"}, {"role": "assistant", "content": "각하 " * 9}]}), file=talks)
open("many.txt", "w").write("각하 the\n" * 500)
PY
warned() { # warned TEXT: once
    check [ "$(grep -c 'are \[UNK\]' err)" = 1 ]
    grep '^warning: ' err >warning || fail "no warning in $(cat err)"
    says "$1" warning
    says "because the tokenizer does not know the text: choose a model or a tokenizer made for such texts" warning
    says "convert them to NFC" warning
}
code 0 "$LEVIN" train few.csv --data.tokenizer="$vocab" "${small[@]}" --run_dir=few
says "few.csv: 1 of 1,201 tokens is [UNK], which stands for unknown text" err
lacks "warning: few.csv" err
code 0 "$LEVIN" train many.csv --data.tokenizer="$vocab" "${small[@]}" --run_dir=many
warned "many.csv: 40 of 80 tokens (50 %) are [UNK]"
code 0 "$LEVIN" evaluate few --data.path=many.csv
warned "many.csv: 40 of 80 tokens (50 %) are [UNK]"
code 0 "$LEVIN" predict few --text=각하
warned "the given texts: 5 % of the tokens or more are [UNK]"
code 0 "$LEVIN" predict few --text="the 😀 of to and in was it for on with as be at by I this had not are but from or have an they"
silent_about "because the tokenizer does not know the text" err
code 0 "$LEVIN" train many.csv --task.kind=mlm --data.tokenizer="$vocab" "${small[@]}" --run_dir=mlm
warned "many.csv: 40 of 80 tokens (50 %) are [UNK]"
for again in 1 2; do # the second time from the cache
    code 0 "$LEVIN" train many.txt --data.kind=documents --data.tokenizer="$vocab" --model.kind=gpt2 "${small[@]}" --run_dir=texts$again
    warned "many.txt: 500 of 1,000 tokens (50 %) are [UNK]"
done
code 0 "$LEVIN" generate texts1 --prompt=각하 --max-new-tokens=1
warned "the prompt: 5 % of the tokens or more are [UNK]"
code 0 "$LEVIN" train talks.jsonl --model.init=texts1 --data.template=chatml --trainer.max_steps=1 --run_dir=talks
warned "talks.jsonl: 4"
sed 's/.*/{"text": "&"}/' many.txt >many.jsonl
for input in many.txt many.jsonl; do
    kind=${input#*.}
    code 0 "$LEVIN" prepare "${kind/txt/text}" --input=$input --tokenizer="$vocab" --out=$kind --json
    warned "the texts: 500 of 1,000 tokens (50 %) are [UNK]"
    says '"unknown_tokens":500' out
done
