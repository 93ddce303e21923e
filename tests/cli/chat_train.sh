# data.kind=chat: conversations that are guessed from a file, encoded with a template, trained on their answers; what is left
# out is named; evaluation, resuming, packing, 1 and 3 ranks; and what is refused.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
export LEVIN_CACHE=$PWD/first # not the user's cache, which may have these rows
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
echo '{"eos_token": "<|endoftext|>", "bos_token": "<|begin_of_text|>", "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"}' >t/tokenizer_config.json
make_text
small=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=64 --trainer.batch_size=4)
code 0 "$LEVIN" train --data.kind=documents --data.path=text.txt --data.tokenizer=t --model.kind=gpt2 "${small[@]}" \
    --trainer.max_steps=1 --trainer.limit_val_batches=1 --run_dir=base
for i in $(seq 40); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"yes, $((i * i))\"}, {\"role\": \"user\", \"content\": \"and?\"}, {\"role\": \"assistant\", \"content\": \"no\"}]}"
done >rows.jsonl

# the recipes, with this model
for recipe in smollm2-135m-chat llama-3.2-1b-lora qwen3-0.6b-lora; do
    code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/$recipe.yaml" --model.init=base --model.block_size=64 --data.path=rows.jsonl \
        --trainer.max_steps=1 --trainer.precision=32-true
    check [ -e "runs/$recipe/checkpoints/last" ]
done

# without a model there is no template
code 2 "$LEVIN" train rows.jsonl --run_dir=new
says "data.kind=chat has no tokenizer: give model.init=MODEL" err

# guessed from the rows; small rates; whole conversations validate
code 0 "$LEVIN" train rows.jsonl --model.init=base --run_dir=tuned --trainer.max_steps=4
says "'rows.jsonl' is read as data.kind=chat" err
says "'rows.jsonl': 40 conversations, " err
says "data: 36 training samples, 4 for validation" err
check grep -q 'lr: 5e-05' tuned/settings.yaml
code 0 "$LEVIN" train rows.jsonl --model.init=base --lora.rank=2 --run_dir=tuned-adapters --trainer.max_steps=1
check grep -q 'lr: 0.0002' tuned-adapters/settings.yaml
code 0 "$LEVIN" evaluate tuned --json
code 0 "$LEVIN" evaluate tuned --data.path=rows.jsonl --data.split=all --json
# the tokens that are scored are those that tokenize --chat labels
mv out scored
"$LEVIN" tokenize --chat=rows.jsonl --tokenizer=t --json >labels
python3 - <<'P'
import json
labels = sum(i >= 0 for l in open("labels") for i in json.loads(l)["labels"][1:])
assert json.load(open("scored"))["tokens"] == labels, (json.load(open("scored")), labels)
P
# resumed: the same bits; a list, a folder and an archive of the same rows too
short=(--model.init=base --trainer.batch_size=4 --optimizer.lr=1e-3)
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --run_dir=whole --trainer.max_steps=4
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --run_dir=two --trainer.max_steps=2
code 0 "$LEVIN" train two --resume --trainer.max_steps=4
same_weights whole two
(echo '['; sed '$!s/$/,/' rows.jsonl; echo ']') >rows.json
mkdir folder
cp rows.jsonl folder
for name in info infos dict; do printf '{\n"default":\n{"splits": {}}\n}\n' >folder/dataset_$name.json; done # descriptions of data sets are no rows
gzip -k rows.jsonl
for data in rows.json folder folder rows.jsonl.gz; do # the second time from the cache
    code 0 "$LEVIN" train $data "${short[@]}" --run_dir=same --overwrite --trainer.max_steps=4
    same_weights whole same
    [ $data != folder ] || says "'folder': 3 files are not read: conversations are in .jsonl, .json and .parquet files" err
    silent_about "left out" err
done

# --- the cache of encoded conversations: made once, made again if it is damaged; without it they stay in memory ---
export LEVIN_CACHE=$PWD/cache
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --run_dir=same --overwrite --trainer.max_steps=4
check [ "$(ls cache/encoded | wc -l)" = 1 ]
made=$(stat -c %i cache/encoded/*)
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --run_dir=same --overwrite --trainer.max_steps=4
same_weights whole same
check [ "$(stat -c %i cache/encoded/*)" = "$made" ]
printf 'x' | dd of="$(ls cache/encoded/*)" bs=1 seek=200 conv=notrunc 2>/dev/null
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --run_dir=same --overwrite --trainer.max_steps=4
same_weights whole same
check [ "$(stat -c %i cache/encoded/*)" != "$made" ]
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --data.train_on=all --run_dir=same --overwrite --trainer.max_steps=4
check [ "$(ls cache/encoded | wc -l)" = 2 ]
# LEVIN_CACHE_SIZE: the least recently used files are removed, but none of this run; leftovers of a killed process after a day
used=$(stat -c %n $(ls -d cache/encoded/* | sort) | head -1)
bytes=$(du -bc cache/encoded/* | tail -1 | cut -f1)
touch -d '1 hour ago' cache/encoded/*
touch -d '2 hours ago' "$used"
touch cache/encoded-new/recent.abc
touch -d '2 days ago' cache/encoded-new/old.abc
LEVIN_CACHE_SIZE=$((bytes + 100)) code 0 "$LEVIN" train rows.jsonl "${short[@]}" --data.train_on=last_answer --run_dir=same --overwrite
check [ ! -e "$used" ]
check [ "$(ls cache/encoded | wc -l)" = 2 ]
check [ "$(ls cache/encoded-new)" = recent.abc ]
LEVIN_CACHE_SIZE=1000 code 1 "$LEVIN" train rows.jsonl "${short[@]}" --data.template=alpaca --run_dir=same --overwrite
one_error
says "more than LEVIN_CACHE_SIZE leaves in " err
check [ "$(ls cache/encoded-new)" = recent.abc ]
touch no-folder
LEVIN_CACHE=$PWD/no-folder code 0 "$LEVIN" train rows.jsonl "${short[@]}" --run_dir=same --overwrite --trainer.max_steps=4
says "the encoded data stay in memory" err
same_weights whole same

# adapters of all linear layers
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --lora.rank=2 --lora.targets=all-linear --run_dir=lora-all --trainer.max_steps=2
code 0 "$LEVIN" train rows.jsonl "${short[@]}" --lora.rank=2 --run_dir=lora-named --trainer.max_steps=2 \
    --lora.targets="attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj"
same_weights lora-all lora-named

# a template that is given becomes a part of the model
code 0 "$LEVIN" train rows.jsonl --model.init=base --data.template=alpaca --run_dir=alpaca --trainer.max_steps=1
check grep -q '### Response' alpaca/checkpoints/last/chat_template.jinja
code 0 "$LEVIN" tokenize --chat=rows.jsonl --tokenizer=alpaca --json
says '### Response' out
check [ ! -e tuned/checkpoints/last/chat_template.jinja ]
# rows of ids need none
code 0 "$LEVIN" export base plain
rm plain/tokenizer_config.json
"$LEVIN" tokenize --chat=rows.jsonl --tokenizer=t --json | sed 's/.*"ids"/{"input_ids"/' >ids.jsonl
code 0 "$LEVIN" train ids.jsonl --model.init=plain --run_dir=of-ids --trainer.max_steps=1
check [ ! -e of-ids/checkpoints/last/chat_template.jinja ]
code 0 "$LEVIN" evaluate of-ids
code 2 "$LEVIN" train rows.jsonl --model.init=plain --run_dir=no-template
says "'plain' has no chat template; name one" err

# a template for conversations with tools, which a given one replaces too
mkdir with-tools
cp -r base/checkpoints/last/. with-tools
mkdir with-tools/additional_chat_templates
echo '{% for t in tools %}tool {{ t.name }} {% endfor %}{% for m in messages %}{{ m.role }}= {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant= {% endif %}' >with-tools/additional_chat_templates/tool_use.jinja
head -4 rows.jsonl | sed 's/^{/{"tools": [{"name": "sum"}], /' >tools.jsonl
code 0 "$LEVIN" tokenize --chat=rows.jsonl --tokenizer=with-tools --json
says 'user: say 1' out
code 0 "$LEVIN" tokenize --chat=tools.jsonl --tokenizer=with-tools --json
says 'tool sum user= say 1' out
code 0 "$LEVIN" train tools.jsonl --model.init=with-tools --run_dir=tools --trainer.max_steps=1
same_file {with-tools,tools/checkpoints/last}/additional_chat_templates/tool_use.jinja
for cached in no yes; do
    code 0 "$LEVIN" train tools.jsonl --model.init=with-tools --data.template=alpaca --run_dir=tools --overwrite --trainer.max_steps=1
    says "'tools.jsonl': the template 'alpaca' does not write the tools, tool calls or some messages of 4 conversations, so the model does not read them" err
done
code 0 "$LEVIN" tokenize --chat=tools.jsonl --tokenizer=tools --json
says '### Response' out

# a template whose tokens the tokenizer lacks
code 0 "$LEVIN" train rows.jsonl --model.init=base --data.template=chatml --run_dir=chatml --trainer.max_steps=1
says "the template 'chatml' writes '<|im_end|>' after an answer, which is not a special token of the tokenizer" err
code 0 "$LEVIN" train alpaca --resume --trainer.max_steps=2
check grep -q '### Response' alpaca/checkpoints/step-2/chat_template.jinja
# one that it has becomes an end token of the model, for programs that do not ask the template; of adapters too
mkdir ends
cp -r base/checkpoints/last/. ends
echo '{"temperature": 0.6, "eos_token_id": 1}' >ends/generation_config.json
for lora in 0 2; do
    code 0 "$LEVIN" train rows.jsonl --model.init=ends --data.template=chatml --data.add_tokens='<|im_start|>,<|im_end|>' --run_dir=ended \
        --lora.rank=$lora --trainer.max_steps=1 --overwrite
    says "answers end with '<|im_end|>', which is added to eos_token_id" err
    rm -rf out-ended
    code 0 "$LEVIN" export ended out-ended
    python3 - ended/checkpoints/last out-ended <<'P'
import json, sys
old = json.load(open("ends/config.json"))["eos_token_id"]
for folder in sys.argv[1:]:
    added = json.load(open(folder + "/tokenizer.json"))["added_tokens"]
    end, = (a["id"] for a in added if a["content"] == "<|im_end|>")
    assert json.load(open(folder + "/config.json"))["eos_token_id"] == [end, old], folder
    assert json.load(open(folder + "/generation_config.json")) == {"temperature": 0.6, "eos_token_id": [end, 1]}, folder
P
    cp ended/checkpoints/last/config.json before.json
    code 0 "$LEVIN" train ended --resume --trainer.max_steps=2
    same_file before.json ended/checkpoints/last/config.json
done
code 0 "$LEVIN" train rows.jsonl --model.init=out-ended --run_dir=ended --trainer.max_steps=1 --overwrite
silent_about "answers end with" err
same_file {out-ended,ended/checkpoints/last}/generation_config.json

# --- packed; 1 and 3 ranks ---
chat=(--data.kind=chat --data.path=rows.jsonl --model.init=base --trainer.batch_size=6 --trainer.max_steps=3)
for pack in false true; do
    code 0 "$LEVIN" train "${chat[@]}" --data.pack=$pack --trainer.deterministic --run_dir=one-$pack
    ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- train "${chat[@]}" --data.pack=$pack --trainer.deterministic --run_dir=three-$pack
    same_file one-$pack/checkpoints/last/model.safetensors three-$pack/checkpoints/last/model.safetensors
done
code 0 "$LEVIN" train "${chat[@]}" --data.pack --run_dir=packed
says "data.pack: 36 documents of 'rows.jsonl' in " err

# --- what is left out is counted and named ---
{
    head -5 rows.jsonl
    echo '{"messages": [{"role": "user", "content": "x"}]}'
    echo '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x", "train": false}]}'
    python3 -c 'print("{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"y\"}]}" % ("word " * 90))'
    python3 -c 'print("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}" % ("word " * 90))'
} >some.jsonl
some=(--model.init=base --run_dir=some --overwrite --trainer.max_steps=1 --data.val_fraction=0)
code 0 "$LEVIN" train some.jsonl "${some[@]}"
says "'some.jsonl': 3 of 9 conversations are left out" err
says "left out: some.jsonl:6: it has no answer that is trained" err
says "left out: some.jsonl:7: it has no answer that is trained" err
says "left out: some.jsonl:8: no answer begins within the first 64 of " err
says "1 of them are longer than 64 tokens and were truncated" err
code 0 "$LEVIN" train some.jsonl "${some[@]}" --data.overlong=drop
says "4 of 9 conversations are left out" err
code 0 "$LEVIN" train some.jsonl "${some[@]}" --data.pack --data.overlong=split
says "split into parts" err

# roles that may be misspelled, and empty answers
{
    head -5 rows.jsonl
    echo '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}, {"role": "Assistant", "content": "x"}]}'
    echo '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]}'
    echo '{"system": "y", "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]}'
} >roles.jsonl
for again in 1 2; do # the second time from the cache
    code 0 "$LEVIN" train roles.jsonl "${some[@]}"
    says "warning: 'roles.jsonl': 1 conversation has messages with other roles, as 'Assistant': only messages with the role assistant are answers" err
    says "warning: 'roles.jsonl': 1 answer is empty, so the model learns to answer nothing: leave such rows out" err
    says "warning: 'roles.jsonl': 1 conversation has a 'system' or 'system_prompt' that differs from the system message, which levin uses" err
done
sed 's/"assistant"/"bot"/g' rows.jsonl >bots.jsonl
code 1 "$LEVIN" train bots.jsonl "${some[@]}"
says "it has no answer that is trained (answers have the role assistant, and some message 'bot')" err
code 0 "$LEVIN" train rows.jsonl "${some[@]}"
silent_about "messages with other roles" err
silent_about "so the model learns to answer nothing" err
# Dolly's names of columns; others are renamed
for i in 1 2 3 4 5 6; do echo "{\"instruction\": \"do $i\", \"context\": \"\", \"response\": \"word $i\", \"category\": \"x\"}"; done >dolly.jsonl
code 0 "$LEVIN" train dolly.jsonl "${some[@]}"
says "'dolly.jsonl': 6 conversations" err
sed 's/"instruction"/"question"/; s/"response"/"answer"/' dolly.jsonl >asked.jsonl
code 1 "$LEVIN" train asked.jsonl --model.init=base --run_dir=asked
says "to train on answers, make conversations of them: jq -c '{prompt: .question, completion: .answer}'" err

refused() { # CODE SENTENCE FILE [keys]
    local wanted=$1 sentence=$2
    shift 2
    rm -rf refused
    code "$wanted" "$LEVIN" train "$@" --model.init=base --run_dir=refused --trainer.max_steps=1
    one_error
    says "$sentence" err
    check [ ! -e refused/checkpoints ]
}
sed -n 6,8p some.jsonl >lost.jsonl
head -1 rows.jsonl >>lost.jsonl
refused 1 "3 of the 4 conversations of 'lost.jsonl' would be left out, more than half; the first: lost.jsonl:1: " lost.jsonl
code 0 "$LEVIN" train lost.jsonl "${some[@]}" --data.skip_bad_rows
sed -n 6,8p some.jsonl >none.jsonl
refused 1 "none of the 3 conversations of 'none.jsonl' can be used" none.jsonl --data.skip_bad_rows
refused 1 "some.jsonl:8: the conversation has " some.jsonl --data.overlong=refuse
{ head -4 rows.jsonl && echo '{"messages": [{"role": "user"}], "score": -Infinity}'; } >bad.jsonl
refused 1 "bad.jsonl:5: message 1 has no content; correct it, or skip such rows with data.skip_bad_rows=true" bad.jsonl
code 0 "$LEVIN" train bad.jsonl "${some[@]}" --data.skip_bad_rows
says "left out: bad.jsonl:5: message 1 has no content" err
{ head -4 rows.jsonl && echo '{"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]}'; } >twice.jsonl
refused 1 "twice.jsonl:5: 'mistral', line 1, message 2: the template refuses the conversation: in the template mistral user and assistant alternate" twice.jsonl --data.template=mistral
{ head -4 rows.jsonl && echo '{"prompt": "x", "completion": "y"}'; } >mixed.jsonl
refused 1 "mixed.jsonl:5: the row has prompt + completion, but line 1 has messages; a file has one form of rows" mixed.jsonl
refused 2 "data.pack fills rows of model.block_size tokens" rows.jsonl --data.pack --data.max_length=32
refused 2 "data.overlong=split cuts conversations into rows of data.pack" rows.jsonl --data.overlong=split
refused 2 "is neither a file nor a built-in template" rows.jsonl --data.template=chatm
# resuming with other data, another template or other labels
for key in train_on=all template=alpaca pack=true; do
    code 2 "$LEVIN" train two --resume --trainer.max_steps=6 --data.$key
    one_error
    says "data.${key%%=*}" err
done
code 2 "$LEVIN" train --data.kind=chars --data.path=text.txt --data.train_on=all --run_dir=no
says "data.train_on (all) is a key of data.kind=chat" err
sed -i 's/say 7"/say seven"/' rows.jsonl
code 2 "$LEVIN" train two --resume --trainer.max_steps=6
one_error
# the settings of a run have the kind of the model that it loaded
check grep -q '^  kind: gpt2$' two/settings.yaml
# a chat template sees all special tokens of a tokenizer, or the tokenizer is refused
cp -r t many
python3 - <<'P'
import json
config = json.load(open("many/tokenizer_config.json"))
config.update({f"extra{i}_token": f"<{i}>" for i in range(40)})
config["chat_template"] = "{{ extra39_token }}" + config["chat_template"]
json.dump(config, open("many/tokenizer_config.json", "w"))
P
code 0 "$LEVIN" train rows.jsonl --data.tokenizer=many --model.kind=gpt2 "${small[@]}" --trainer.max_steps=1 --run_dir=many-tokens
sed -i 's/"extra0_token": "<0>"/&'"$(printf ', "more%d_token": "x"' $(seq 40))"'/' many/tokenizer_config.json
code 1 "$LEVIN" train rows.jsonl --data.tokenizer=many --model.kind=gpt2 "${small[@]}" --run_dir=no
says "the tokenizer 'many' names more than 64 special tokens" err
