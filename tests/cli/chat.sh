# levin chat and levin generate --chat: a conversation from a pipe, its commands, what is left out of a full context, Ctrl-C, and
# the sampling that generation_config.json names. What the prompts hold is tested by tests/unit/chat/test_chat.c.
. "$LEVIN_SOURCE/tests/cli/common.bash"
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
echo '{"eos_token": "<|endoftext|>", "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"}' >t/tokenizer_config.json
make_text
small=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --trainer.batch_size=4)
base() { # base KIND: a model of 128 positions
    code 0 "$LEVIN" train --data.kind=documents --data.path=text.txt --data.tokenizer=t --model.kind=$1 "${small[@]}" \
        --model.block_size=128 --trainer.max_steps=20 --trainer.limit_val_batches=1 --run_dir=$1
}
base llama
base gpt2
chat() { "$LEVIN" chat llama --max-new-tokens=8 "$@"; }

# one message per line; two answers; with --json the conversation; the same answers from generate --chat
printf 'hello you\n\nand now?\n' >lines
code 0 chat <lines
mv out answers
says "sampling: the most probable token (temperature 0); the model has no generation_config.json" err
check [ "$(wc -l <answers)" -ge 2 ]
code 0 chat --json <lines
json '[m["role"] for m in d["messages"]] == ["user", "assistant"] * 2 and d["messages"][2]["content"] == "and now?"'
mv out talk
python3 - <<'P'
import json
m = json.load(open("talk"))["messages"]
assert open("answers").read() == m[1]["content"] + "\n" + m[3]["content"] + "\n", m
with open("rows.jsonl", "w") as f:
    for n in 1, 3:
        print(json.dumps({"messages": m[:n]}), file=f)
P
code 0 "$LEVIN" generate llama --chat=rows.jsonl --max-new-tokens=8 --json
python3 - <<'P'
import json
m, d = json.load(open("talk"))["messages"], json.load(open("out"))["samples"]
assert [s["text"] for s in d] == [m[1]["content"], m[3]["content"]], (m, d)
P
code 0 chat --stats <lines
check [ "$(grep -c 'first token after' err)" = 2 ]
LC_ALL=C grep -q '[^[:print:][:space:]]' answers && LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]' answers && fail "a control character"

# commands
printf '/system be brief\nhello\n/save talks.jsonl\n/reset\nhow?\n//not a command\n/save talks.jsonl\n/quit\nno\n' >lines
code 0 chat <lines
python3 - <<'P'
import json
a, b = [json.loads(l)["messages"] for l in open("talks.jsonl")]
assert [m["role"] for m in a] == ["system", "user", "assistant"] and a[0]["content"] == "be brief", a
assert [m["content"] for m in b if m["role"] == "user"] == ["how?", "/not a command"] and b[0]["role"] == "system", b
P
code 0 "$LEVIN" tokenize --chat=talks.jsonl --tokenizer=llama --json
printf '/sve x\n' >lines
code 2 chat <lines
says "'/sve x' is not a command" err

# a full context: the oldest turns are left out, whole; a message that is too long is refused
for i in $(seq 12); do echo "the model and the text $i"; done >lines
code 0 chat <lines
says "left out: the context has 128 tokens)" err
python3 -c 'print("word " * 200)' >lines
code 2 chat <lines
says "and the model's context has 128: shorten it" err
# ... in a terminal the conversation continues, with all that was said before
code 0 python3 - "$LEVIN" <<'P'
import os, pty, subprocess, sys
master, slave = pty.openpty()
p = subprocess.Popen([sys.argv[1], "chat", "llama", "--max-new-tokens=4"], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
shown = b""
while not shown.endswith(b"\n> "): # the prompt is shown before anything is typed
    shown += os.read(p.stderr.fileno(), 1)
for line in "the first", "word " * 200, "/save kept.jsonl", "/save", "/quit":
    os.write(master, line.encode() + b"\n")
out, err = p.communicate(timeout=600)
assert p.returncode == 0 and b": shorten it" in err and b"/save needs the name of a file" in err, (p.returncode, err)
P
python3 - <<'P'
import json
m = json.load(open("kept.jsonl"))["messages"]
assert [x["role"] for x in m] == ["user", "assistant"] and m[0]["content"] == "the first", m
P

# a conversation that exceeds the caches twice (2,048 tokens, then twice the need): cached tokens are not run again, and
# the answers equal those with caches that are large from the start
long() { # long KIND [keys]: a model of 8,192 positions
    local kind=$1
    shift
    code 0 "$LEVIN" train --data.kind=documents --data.path=text.txt --data.tokenizer=t --model.kind=$kind "${small[@]:0:3}" --trainer.batch_size=1 \
        --model.block_size=8192 --trainer.max_steps=2 --trainer.limit_val_batches=1 --run_dir=long-$kind --overwrite "$@"
    for i in $(seq 12); do echo "$i $(printf 'the next step of rank %s. ' $(seq 1 40))"; done >lines
    code 0 "$LEVIN" chat long-$kind --max-new-tokens=6 --stats --json <lines
    mv out talk
    mv err stats
    python3 -c 'import json
m = json.load(open("talk"))["messages"]
with open("long.jsonl", "w") as f:
    for n in 7, 15, 23: print(json.dumps({"messages": m[:n]}), file=f)'
    code 0 "$LEVIN" generate long-$kind --chat=long.jsonl --max-new-tokens=6 --json
    python3 - "$kind" <<'P'
import json, re, sys
m, d = json.load(open("talk"))["messages"], json.load(open("out"))["samples"]
assert [s["text"] for s in d] == [m[n]["content"] for n in (7, 15, 23)], (m, d)
stats = [[int(x) for x in y] for y in re.findall(r"prompt of (\d+) tokens, (\d+) of them new", open("stats").read())]
assert len(stats) == 12 and stats[0][0] == stats[0][1] and 2048 < stats[7][0] and 5000 < stats[-1][0], stats
for before, now in zip(stats, stats[1:]): # of the last prompt a token or two may continue differently with the answer
    new = now[0] - before[0] + 2
    assert sys.argv[1] == "mistral" or now[1] <= new, stats
P
}
long llama
long gpt2
long mistral --model.sliding_window=64

# generation_config.json, and options that replace its values
cp -rL llama/checkpoints/last model
rm -rf model/state model/manifest.json
echo '{"do_sample": true, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.3, "eos_token_id": 3}' >model/generation_config.json
echo hello >lines
code 0 "$LEVIN" chat model --max-new-tokens=4 <lines
says "sampling: temperature 0.6, top_k 50, top_p 0.9, repetition_penalty 1.3" err
code 0 "$LEVIN" chat model --max-new-tokens=4 --temperature=2 --top-k=3 <lines
says "sampling: temperature 2, top_k 3, top_p 0.9, repetition_penalty 1.3" err
code 0 "$LEVIN" generate model --chat=rows.jsonl --max-new-tokens=4 --repetition-penalty=1
says "sampling: temperature 0.6, top_k 50, top_p 0.9, repetition_penalty 1" err
echo '{"do_sample": false, "temperature": 0.6, "min_p": 0.1, "num_beams": 1, "typical_p": 1.0, "stop_strings": ["x"]}' >model/generation_config.json
code 0 "$LEVIN" chat model --max-new-tokens=4 <lines
says "temperature 0), as generation_config.json says" err
says "levin ignores min_p, stop_strings; transformers would choose other tokens" err
for config in '{"temperature": 0.6, "top_p": 0.9}' '{"do_sample": null, "top_k": 5}'; do # do_sample is false, as in transformers
    echo "$config" >model/generation_config.json
    code 0 "$LEVIN" chat model --max-new-tokens=4 <lines
    says "temperature 0); temperature, top_k and top_p in generation_config.json are not used, because it has no do_sample" err
done
echo '{"eos_token_id": 3}' >model/generation_config.json
code 0 "$LEVIN" chat model --max-new-tokens=4 <lines
says "temperature 0); generation_config.json has no do_sample" err
echo '{"do_sample": true, "top_p": 0}' >model/generation_config.json # keeps one token, as in transformers
code 0 "$LEVIN" chat model --max-new-tokens=4 <lines
says "temperature 0), as top_p 0 of generation_config.json says" err
echo '{"do_sample": true, "top_p": 7}' >model/generation_config.json
code 2 "$LEVIN" chat model <lines
says "top_p is 7" err
code 2 "$LEVIN" generate llama --prompt=the --repetition-penalty=1e-39 --max-new-tokens=3
says "repetition_penalty is 1e-39; it must be 0 (off, as 1) or from 0.001 to 1e6" err
# with a strong penalty no token occurs twice
code 0 "$LEVIN" generate llama --prompt=the --temperature=0 --repetition-penalty=1000000 --max-new-tokens=30 --json
json 'len(set(d["samples"][0]["ids"])) == 30'

# Ctrl-C stops an answer, and the conversation continues
python3 - "$LEVIN" <<'P'
import signal, subprocess, sys
p = subprocess.Popen([sys.argv[1], "chat", "gpt2", "--max-new-tokens=100000000"], stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
p.stdin.write(b"hello\n")
p.stdin.flush()
assert p.stdout.read(1)
p.send_signal(signal.SIGINT)
out, err = p.communicate(b"/reset\n/quit\n", timeout=600)
assert p.returncode == 0 and b"(stopped)" in err and b"(a new conversation)" in err, (p.returncode, err)
P
# with messages in a file it ends the command
printf 'hello\nagain\n' >messages
python3 - "$LEVIN" <<'P'
import signal, subprocess, sys
p = subprocess.Popen([sys.argv[1], "chat", "gpt2", "--max-new-tokens=100000000"], stdin=open("messages"), stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
assert p.stdout.read(1)
p.send_signal(signal.SIGINT)
out, err = p.communicate(timeout=600)
assert p.returncode == 75 and err.count(b"(stopped)") == 1 and b"stopped on request before the end" in err, (p.returncode, err)
P

# refused
code 2 "$LEVIN" chat llama --system=$'a\xff' <lines
says "--system is not UTF-8" err
printf '/system a\xff\nhello\n' >messages
code 1 "$LEVIN" chat llama <messages
says "the system message is not UTF-8" err
code 2 "$LEVIN" generate llama --template=chatml
says "--template has an effect only with --chat" err
code 2 "$LEVIN" generate llama --chat=rows.jsonl --prompt=x
says "--prompt, --prompt-ids, --prompts and --chat each give the prompts; use only one of them" err
cp talks.jsonl answered.jsonl
code 1 "$LEVIN" generate llama --chat=answered.jsonl
says "answered.jsonl:1: message 3, the last one, is an answer already" err
sed -i 's/, "chat_template.*/}/' model/tokenizer_config.json
rm model/generation_config.json
code 2 "$LEVIN" chat model <lines
says "has no chat template; name one" err
code 0 "$LEVIN" chat model --template=alpaca --max-new-tokens=3 <lines
