# Conversations and texts in a store: their kind is guessed, errors name the address, and with data.cache one of several hosts
# encodes them; each host is a process with its own cache here.
# label: slow
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
s3_server
root=s3root/bucket
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
echo '{"eos_token": "<|endoftext|>", "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"}' >t/tokenizer_config.json
make_text
code 0 "$LEVIN" train --data.kind=documents --data.path=text.txt --data.tokenizer=t --model.kind=gpt2 --model.n_layer=1 --model.n_head=2 \
    --model.n_embd=16 --model.block_size=64 --trainer.batch_size=4 --trainer.max_steps=1 --trainer.limit_val_batches=1 --run_dir=base
python3 - <<'P'
import json
for name, first, n in ("rows.jsonl", 0, 40), ("more.jsonl", 40, 40), ("many.jsonl", 0, 60000):
    with open(name, "w") as f:
        for i in range(first, first + n):
            print(json.dumps({"messages": [{"role": "user", "content": f"say {i}"}, {"role": "assistant", "content": f"yes, {i * i} " * (1 + i % 7)}]}), file=f)
P
mkdir $root/talks
cp rows.jsonl more.jsonl $root/talks
cp rows.jsonl many.jsonl $root
run() { # run RUN [keys]
    local run=$1
    shift
    "$LEVIN" train --model.init=base --run_dir="$run" --trainer.max_steps=2 --trainer.batch_size=4 --trainer.limit_val_batches=2 --logger.curve=false "$@"
}

# a file, a folder; the same bits as from local files
run here --data.path=rows.jsonl 2>err
run there --data.path=s3://bucket/rows.jsonl 2>err
says "'s3://bucket/rows.jsonl' is read as data.kind=chat" err
says "'s3://bucket/rows.jsonl': 40 conversations" err
same_weights here there
mkdir talks && cp rows.jsonl more.jsonl talks
run here2 --data.kind=chat --data.path=talks 2>err
run there2 --data.kind=chat --data.path=s3://bucket/talks 2>err
says "'s3://bucket/talks': 80 conversations" err
same_weights here2 there2
code 0 "$LEVIN" evaluate there --json --data.path=s3://bucket/rows.jsonl
mkdir texts $root/texts && : >$root/texts/d.png && cp text.txt texts/a.txt && head -c 2000 text.txt >texts/b.txt && cp texts/* $root/texts
run here3 --data.kind=documents --data.path=texts --trainer.batch_size=2 2>err
run there3 --data.kind=documents --data.path=s3://bucket/texts --trainer.batch_size=2 2>err
says "'s3://bucket/texts': 2 documents" err
same_weights here3 there3
# errors name the address
(cat rows.jsonl && echo '{"messages": 3}') >$root/talks/rows.jsonl
code 1 run bad --data.kind=chat --data.path=s3://bucket/talks
says "s3://bucket/talks/rows.jsonl:41: " err

# two hosts that start together: one encodes
hosts() { # hosts CACHE [keys]: both run; their messages in one.err and two.err
    local place=$1 i pids=()
    shift
    for i in one two; do
        LEVIN_CACHE=$PWD/cache.$i run run.$i --overwrite "--data.cache=$place" "$@" 2>$i.err &
        pids+=($!)
    done
    wait "${pids[0]}" && wait "${pids[1]}" || fail "$(cat one.err two.err)"
}
made() { cat one.err two.err | grep -c "the encoded data are those of '$1/[0-9a-f]*/encoded'" || true; }
hosts s3://bucket/cache --data.path=many.jsonl
check [ "$(made s3://bucket/cache)" = 1 ]
same_weights run.one run.two
check [ "$(find $root/cache -type f ! -name '.lease*' | wc -l)" = 1 ]
# later hosts download, and make a damaged file again
rm -r cache.one cache.two
hosts s3://bucket/cache --data.path=many.jsonl
check [ "$(made s3://bucket/cache)" = 2 ]
file=$(find $root/cache -name encoded)
code 0 cp_ rows.jsonl "s3://bucket/${file#"$root"/}"
rm -r cache.one cache.two
hosts s3://bucket/cache --data.path=many.jsonl
says "'s3://bucket/cache/" <(cat one.err two.err)
says "is damaged: the data are encoded again" <(cat one.err two.err)
same_weights run.one run.two
rm -r cache.one
LEVIN_CACHE=$PWD/cache.one run run.one --overwrite --data.cache=s3://bucket/cache --data.path=many.jsonl 2>one.err
check [ "$(grep -c "the encoded data are those of" one.err)" = 1 ]
# a folder that both reach
rm -r cache.one cache.two
hosts "$PWD/shared" --data.path=many.jsonl
check [ "$(made "$PWD/shared")" = 1 ]
# texts; the host that encodes is killed, and the other one takes over
for i in $(seq 100); do cat text.txt; done >$root/texts/c.txt
texts=(--data.kind=documents --data.path=s3://bucket/texts --trainer.batch_size=2)
rm -r cache.one cache.two
hosts s3://bucket/texts-cache "${texts[@]}"
check [ "$(made s3://bucket/texts-cache)" = 1 ]
same_weights run.one run.two
says "skipped: 's3://bucket/texts/d.png', which is no text by its name" one.err
says "skipped: 's3://bucket/texts/d.png', which is no text by its name" two.err
rm -r cache.one cache.two $root/texts-cache
LEVIN_CACHE=$PWD/cache.one "$LEVIN" train --model.init=base --run_dir=run.killed --trainer.max_steps=2 "${texts[@]}" --data.cache=s3://bucket/texts-cache 2>one.err &
first=$!
soon eval 'ls cache.one/encoded-new/*.??????' # the first host encodes
kill -STOP $first
LEVIN_CACHE=$PWD/cache.two run run.two --overwrite "${texts[@]}" --data.cache=s3://bucket/texts-cache 2>two.err &
second=$!
soon eval 'ls cache.two/encoded-new/*.lock' # the second host waits, or will wait
kill -KILL $first
wait $first 2>/dev/null || true
wait $second || fail "$(cat two.err)"
check [ "$(find $root/texts-cache -name encoded | wc -l)" = 1 ]
same_weights run.one run.two
# stores that cannot be written
LEVIN_CACHE=$PWD/cache.three code 1 run none --data.path=rows.jsonl --data.cache=hf://org/name
says "while using data.cache" err
LEVIN_CACHE=$PWD/cache.three code 1 run none --data.path=rows.jsonl --data.cache=rows.jsonl
says "'rows.jsonl' exists already, but it is not a directory" err
code 2 run none --data.kind=chars --data.path=text.txt --data.cache=shared
says "data.cache" err
