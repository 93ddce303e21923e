# data.kind=chat, resumed: a run that is killed at random moments ends with the bits of an undisturbed one, on 1 and 3 ranks,
# packed and not; it does not resume with other conversations, another template, tokenizer or data.train_on, and it does
# with the same ones in other places.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
export LEVIN_CACHE=$PWD/cache
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
template='{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}'
config() { echo "{\"eos_token\": \"<|endoftext|>\", \"bos_token\": \"<|begin_of_text|>\", \"chat_template\": \"$1\"}"; }
config "$template" >t/tokenizer_config.json
python3 - <<'P'
import json, random
r = random.Random(3)
def text(n):
    return " ".join(r.choice(["return", "3.14", "int x;", "for (", "yes", "the next value"]) for _ in range(r.randrange(1, n)))
with open("rows.jsonl", "w") as f:
    for i in range(90):
        turns = [(("user", text(6)), ("assistant", text(9))) for _ in range(r.randrange(1, 4))]
        messages = [{"role": role, "content": content} for turn in turns for role, content in turn]
        print(json.dumps({"messages": messages}), file=f)
P
keys=(--data.kind=chat --data.path=rows.jsonl --data.tokenizer=t --model.kind=llama --model.n_layer=2 --model.n_head=2
    --model.n_embd=32 --model.block_size=256 --model.dropout=0.1 --trainer.batch_size=6 --trainer.micro_batch_size=1
    --trainer.threads=1 --trainer.val_check_interval=4 --trainer.limit_val_batches=2 --optimizer.lr=1e-2)
on() { # on RANKS [keys]: the array `command`, which runs levin train
    command=("$LEVIN" train "${keys[@]}" "${@:2}")
    if [ "$1" -gt 1 ]; then command=("$LEVIN" launch --launcher=levin -n "$1" -- "${command[@]:1}"); fi
}
train_on() { on "$@" && code 0 "${command[@]}"; }
last() { readlink killed/checkpoints/last || true; }

kill_and_resume() { # kill_and_resume RANKS [keys]: killed and alone
    local n=$1 i before end
    shift
    rm -rf killed alone
    for i in 1 2 3 4; do
        before=$(last)
        on "$n" "$@" --run_dir=killed --resume --trainer.max_steps=1000000 --checkpoint.every_n_steps=2
        "${command[@]}" >out 2>err &
        pid=$!
        while kill -0 $pid 2>/dev/null && [ "$(last)" = "$before" ]; do sleep 0.005; done
        sleep "0.0$((RANDOM % 40 + 10))"
        lost=$pid
        if [ "$n" -gt 1 ]; then lost=$(pgrep -P $pid | sort -R | head -1); fi # one rank, and the launcher ends the others
        kill -KILL "$lost" || fail "the run ended before kill $i: $(cat err)"
        ended
        check [ "$got" != 0 ]
    done
    end=$(($(newest killed) / 4 * 4 + 8))
    train_on "$n" "$@" --run_dir=killed --resume --trainer.max_steps=$end --checkpoint.every_n_steps=2
    train_on "$n" "$@" --run_dir=alone --trainer.max_steps=$end --checkpoint.every_n_steps=1000
    same_run alone killed
}
for n in 1 3; do
    for pack in false true; do kill_and_resume $n --data.pack=$pack; done
done
# with trainer.deterministic the number of ranks may change, too
kill_and_resume 3 --data.pack --trainer.deterministic
train_on 1 --data.pack --trainer.deterministic --run_dir=one --trainer.max_steps="$(newest alone)" --checkpoint.every_n_steps=1000
same_run alone one

# --- what must be the same ---
train_on 1 --run_dir=run --trainer.max_steps=2
refused() { # refused SENTENCE [keys]
    local sentence=$1
    shift
    code 2 "$LEVIN" train run --resume --trainer.max_steps=4 "$@"
    one_error
    says "$sentence" err
}
reason="was trained on other data than 'rows.jsonl' contains now, or with another tokenizer or chat template, or by a levin that reads the files differently, and continuing would mix them; set data.path back, use the levin that began the run, or start a new run, which may begin with the weights of this one (--model.init="
kept() { mkdir -p kept && cp -r t rows.jsonl kept; } # restore puts them back
restore() { rm -rf t rows.jsonl && cp -r kept/t kept/rows.jsonl .; }
kept
config "$template{# a note #}" >t/tokenizer_config.json
refused "$reason"
config "${template/assistant: /assistant:}" >t/tokenizer_config.json # the texts are the same, the prompt for an answer is another
refused "$reason"
restore
python3 -c 'import json
d = json.load(open("t/tokenizer.json"))
d["added_tokens"][-1]["content"] += "x" # not used
json.dump(d, open("t/tokenizer.json", "w"))'
refused "$reason"
restore
sed -i '17s/user/user /' rows.jsonl
refused "data" # a role of another name: other conversations
restore
for key in train_on=all template=alpaca pack=true; do refused "data.${key%%=*}" --data.$key; done
# a file of a template
echo "$template" >my.jinja
train_on 1 --run_dir=filed --trainer.max_steps=2 --data.template=my.jinja
echo "$template{# a note #}" >my.jinja
code 2 "$LEVIN" train filed --resume --trainer.max_steps=4
one_error
says "or with another tokenizer or chat template" err
# a run that continues in another folder finds all paths where it was started
echo "$template" >my.jinja
echo yes >prompt.txt
mkdir -p away
for data in rows.jsonl "$PWD/rows.jsonl"; do
    rm -rf filed
    train_on 1 --run_dir=filed --trainer.max_steps=2 --data.path="$data" --data.template=my.jinja --sample.prompt=FILE:prompt.txt \
        --sample.every_n_steps=2 --sample.max_new_tokens=2
    (cd away && code 0 "$LEVIN" train ../filed --resume --trainer.max_steps=4 && silent_about "warning:" err)
    (cd away && code 0 "$LEVIN" evaluate ../filed)
done
(cd away && code 0 "$LEVIN" train ../filed/settings.yaml --run_dir=no '--data.mix=[{path: ../rows.jsonl, weight: 1}]' --show-batch)
# the template of the model that is tuned
cp -rL run/checkpoints/last base
rm -r base/state
code 0 "$LEVIN" train rows.jsonl --model.init=base --run_dir=tuned --trainer.max_steps=2 --trainer.batch_size=4
config "$template{# a note #}" >base/tokenizer_config.json
code 2 "$LEVIN" train tuned --resume --trainer.max_steps=4
one_error
says "or with another tokenizer or chat template" err

# the same conversations, template and tokenizer in other places and forms
mkdir elsewhere
mv t rows.jsonl elsewhere
code 0 "$LEVIN" train run --resume --trainer.max_steps=4 --data.path=elsewhere/rows.jsonl --data.tokenizer=elsewhere/t
restore
train_on 1 --run_dir=whole --trainer.max_steps=4
same_weights run whole
