# levin tokenize --chat: an object per conversation, in order for any number of threads; damaged rows, mixed forms, options
# without effect. What the objects hold is tested by tests/unit/chat/test_chat.c.
. "$LEVIN_SOURCE/tests/cli/common.bash"
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
# as published files have it: a number of more than 64 bits
echo '{"eos_token": "E", "chat_template": "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}",
    "model_max_length": 1000000000000000019884624838656}' >t/tokenizer_config.json
each() { # each EXPRESSION: holds for the list d of the objects in out
    python3 -c 'import json,sys
d=[json.loads(l) for l in open("out")]; assert eval(sys.argv[1]), (sys.argv[1], d)' "$1"
}

for i in $(seq 3000); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"q$i\"}, {\"role\": \"assistant\", \"content\": \"a$i\"}]}"
done >rows.jsonl
code 0 "$LEVIN" tokenize --chat=rows.jsonl --tokenizer=t --template=chatml --json
each 'len(d) == 3000 and all(o["line"] == i + 1 and f"a{i + 1}<" in o["text"] for i, o in enumerate(d))'
each 'all(len(o["ids"]) == len(o["labels"]) and {-100} < set(o["labels"]) for o in d)'
mv out all
OMP_NUM_THREADS=1 "$LEVIN" tokenize --chat=rows.jsonl --tokenizer=t --template=chatml --json >one
same_file one all
"$LEVIN" tokenize --chat=- --tokenizer=t --template=chatml --json <rows.jsonl >input
same_file input all
(echo '['; sed '$!s/$/,/' rows.jsonl; echo ']') >rows.json
"$LEVIN" tokenize --chat=rows.json --tokenizer=t --template=chatml --json >list
same_file list all

# Parquet
echo '{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_calls | tojson if m.tool_calls }}; {% endfor %}' >plain.jinja
for kind in jsonl parquet; do
    cp "$LEVIN_SOURCE/tests/golden/parquet/chat.$kind" chat.$kind
    "$LEVIN" tokenize --chat=chat.$kind --tokenizer=t --template=plain.jinja --train-on=all --json | sed "s/chat.$kind/chat/" >chat-$kind
done
check [ "$(wc -l <chat-parquet)" = 12 ]
check [ "$(grep -c error chat-parquet)" = 0 ]
same_file chat-parquet chat-jsonl

# the model's template; the prompt for an answer is unknown
head -2 rows.jsonl >two.jsonl
code 0 "$LEVIN" tokenize --chat=two.jsonl --tokenizer=t --train-on=all --json
each 'd[0]["text"] == "[user] q1E[assistant] a1E" and d[0]["labels"] == d[0]["ids"]'

# a row that cannot be used is an object with its error, the others are printed
{
    head -1 rows.jsonl
    echo '{"messages": ['
    echo
    echo '{"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]}'
    printf '{"messages": [{"role": "user", "content": "\xff"}]}\n'
    echo '[1]'
    tail -1 rows.jsonl
} >bad.jsonl
code 1 "$LEVIN" tokenize --chat=bad.jsonl --tokenizer=t --template=chatml --json
one_error
says "4 of 6 conversations cannot be used; the first: bad.jsonl:2: " err
each '[o["line"] for o in d] == [1, 2, 4, 5, 6, 7] and ["error" in o for o in d] == [False, True, True, True, True, False]'
each '"bad.jsonl:4: the row has conversations, but line 1 has messages; a file has one form of rows" == d[2]["error"]'

# options without effect, and what is missing
code 2 "$LEVIN" tokenize --chat=two.jsonl --tokenizer=t --template=chatml
says "add --json" err
code 2 "$LEVIN" tokenize --tokenizer=t --template=chatml </dev/null
says "--template has an effect only with --chat" err
code 2 "$LEVIN" tokenize --chat=two.jsonl --tokenizer=t --train-on=answer --json
says "--train-on must be answers, last_answer or all, not 'answer'" err
code 2 "$LEVIN" tokenize --chat=two.jsonl --tokenizer=t --allow-special=E --json
says "only the template writes special tokens" err
code 2 "$LEVIN" tokenize --chat=two.jsonl --tokenizer=t --decode=1 --json
says "exclude each other" err
rm t/tokenizer_config.json
code 2 "$LEVIN" tokenize --chat=two.jsonl --tokenizer=t --json
says "has no chat template; name one" err
echo '{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}' >ids.jsonl # needs none
code 0 "$LEVIN" tokenize --chat=ids.jsonl --tokenizer=t --json
each 'd[0]["labels"] == [-100, 2, 3]'
: >empty.jsonl
code 1 "$LEVIN" tokenize --chat=empty.jsonl --tokenizer=t --template=chatml --json
says "has no conversations" err
json '"has no conversations" in d["error"]' # the object of --json, if no row was printed
code 1 "$LEVIN" tokenize --chat=nowhere.jsonl --tokenizer=t --template=chatml --json
json '"nowhere.jsonl" in d["error"]'

# the role human is ShareGPT's word for user, unless the template knows it
echo '{"messages": [{"role": "human", "content": "q"}, {"role": "assistant", "content": "a"}]}' >human.jsonl
echo '{% for m in messages %}{% if m.role == "human" %}H:{{ m.content }} {% elif m.role == "assistant" %}A:{{ m.content }}{% endif %}{% endfor %}' >human.jinja
for template in human.jinja chatml; do
    code 0 "$LEVIN" tokenize --chat=human.jsonl --json --tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3" --template=$template
    [ $template = chatml ] && wanted='<|im_start|>user\nq' || wanted='"text":"H:q A:a"'
    says "$wanted" out
done
