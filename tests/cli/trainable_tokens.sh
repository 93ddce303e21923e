# lora.trainable_tokens: rows of the embedding that are trained with adapters; new tokens of data.add_tokens; training gives the
# same bits on 3 ranks and after a resume; commands that use the result; refused values. Equality with PEFT: adapters_peft.sh.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
mkdir t
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" t
echo '{"eos_token": "<|endoftext|>", "bos_token": "<|begin_of_text|>"}' >t/tokenizer_config.json
echo '{% for m in messages %}<|turn|>{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|turn|>assistant: {% endif %}' >turns.jinja
make_text
code 0 "$LEVIN" train --data.kind=documents --data.path=text.txt --data.tokenizer=t --model.kind=gpt2 --model.n_layer=2 --model.n_head=2 \
    --model.n_embd=16 --model.block_size=64 --trainer.batch_size=6 --trainer.max_steps=1 --trainer.limit_val_batches=1 --run_dir=base
for i in $(seq 40); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"say $i\"}, {\"role\": \"assistant\", \"content\": \"yes, $((i * i))\"}]}"
done >rows.jsonl
tokens=(rows.jsonl --model.init=base --data.template=turns.jinja --data.add_tokens="['<|turn|>', '[CALL]']" --trainer.batch_size=6 --optimizer.lr=1e-2
    --lora.rank=2 --lora.trainable_tokens="['[CALL]', '<|turn|>', '<|endoftext|>', 7]" --trainer.deterministic --trainer.threads=1)
code 0 "$LEVIN" train "${tokens[@]}" --run_dir=one --trainer.max_steps=4
silent_about "are not trained" err
at=one/checkpoints/last
code 0 "$LEVIN" export one merged
cat >look.py <<'P'
import json, struct, sys
from array import array
def read(path, name):
    data = open(path, "rb").read()
    n, = struct.unpack("<Q", data[:8])
    t = json.loads(data[8:8 + n])[name]
    x = array("f", data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
    return [x[i:i + t["shape"][1]] for i in range(0, len(x), t["shape"][1])]
P
python3 - <<'P'
from look import *
old, new = (read(f + "/model.safetensors", "transformer.wte.weight") for f in ("base/checkpoints/last", "merged"))
rows = read("one/checkpoints/last/adapter/adapter_model.safetensors", "base_model.model.transformer.wte.token_adapter.trainable_tokens_delta")
ids = json.load(open("one/checkpoints/last/adapter/adapter_config.json"))["trainable_token_indices"]
assert len(new) == len(old) + 2 and ids == sorted(ids) and ids == [0, 7, len(old), len(old) + 1], ids
assert all(new[i] == old[i] for i in range(len(old)) if i not in ids), "another row changed"
assert [new[i] for i in ids] == rows and all(new[i] != old[i] for i in ids[:2]) and rows[2] != rows[3]
P
# the same on 3 ranks, in parts, after a kill, with merged checkpoints
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- train "${tokens[@]}" --run_dir=three --trainer.max_steps=4
same_weights one three
for strategy in zero1 fsdp; do
    ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 2 -- train "${tokens[@]}" --run_dir=$strategy --trainer.max_steps=4 --trainer.strategy=$strategy
    same_file {one,$strategy}/checkpoints/last/adapter/adapter_model.safetensors
done
code 0 "$LEVIN" train "${tokens[@]}" --run_dir=parts --trainer.max_steps=2
code 0 "$LEVIN" train parts --resume --trainer.max_steps=4
same_weights one parts
code 0 "$LEVIN" train "${tokens[@]}" --run_dir=whole --trainer.max_steps=2 --lora.merge_checkpoints
code 0 "$LEVIN" train whole --resume --trainer.max_steps=4
same_file merged/model.safetensors whole/checkpoints/last/model.safetensors
same_file {one,whole}/checkpoints/last/adapter/adapter_model.safetensors
"$LEVIN" train "${tokens[@]}" --run_dir=killed --trainer.max_steps=100000 --checkpoint.every_n_steps=4 >out 2>err &
pid=$!
wait_rows killed 6
kill -KILL $pid
wait $pid || true
step=$(newest killed)
code 0 "$LEVIN" train killed --resume --trainer.max_steps=$((step + 2))
code 0 "$LEVIN" train "${tokens[@]}" --run_dir=long --trainer.max_steps=$((step + 2))
same_file {killed,long}/checkpoints/last/adapter/adapter_model.safetensors
# every command uses these rows
for model in one one/checkpoints/last merged; do
    code 0 "$LEVIN" evaluate $model --data.path=rows.jsonl --data.split=all --trainer.batch_size=4 --trainer.micro_batch_size=4 --json
    value loss >>losses
    echo '{"messages": [{"role": "user", "content": "say 3"}]}' >question.jsonl
    code 0 "$LEVIN" generate $model --chat=question.jsonl --max-new-tokens=4
    cksum <out >>texts
done
check [ "$(sort -u losses | wc -l)" = 1 -a "$(sort -u texts | wc -l)" = 1 ]
# a second run starts from the rows of lora.init; precisions; recomputed blocks
code 0 "$LEVIN" train rows.jsonl --model.init=base --data.template=turns.jinja --data.add_tokens="['<|turn|>', '[CALL]']" --lora.init=$at/adapter \
    --run_dir=next --trainer.max_steps=1 --optimizer.kind=sgd --optimizer.lr=1e-30
same_file {one,next}/checkpoints/last/adapter/adapter_model.safetensors
code 0 "$LEVIN" train next --resume --trainer.max_steps=2
for precision in bf16-mixed bf16-true; do
    code 0 "$LEVIN" train "${tokens[@]}" --run_dir=$precision --trainer.max_steps=2 --trainer.precision=$precision
done
code 0 "$LEVIN" train "${tokens[@]}" --run_dir=blocks --trainer.max_steps=4 --trainer.recompute=blocks
same_file {one,blocks}/checkpoints/last/adapter/adapter_model.safetensors

# --- bad values ---
refused() { # SENTENCE [keys]
    local sentence=$1
    shift
    code 2 "$LEVIN" train rows.jsonl --model.init=base --run_dir=no --trainer.max_steps=1 "$@"
    one_error
    says "$sentence" err
    check [ ! -e no ]
}
refused "has no effect while lora.rank is 0" --lora.trainable_tokens=7
refused "lora.trainable_tokens: '<x>' is not a token of the model 'base" --lora.rank=2 --lora.trainable_tokens='<x>' --data.template=turns.jinja
refused "and no token 503" --lora.rank=2 --lora.trainable_tokens=503 --data.template=turns.jinja
refused "lora.trainable_tokens names '7' twice" --lora.rank=2 --lora.trainable_tokens='7, 8, 7' --data.template=turns.jinja
code 2 "$LEVIN" train rows.jsonl --model.init=base --run_dir=other --lora.init=$at/adapter --lora.trainable_tokens=7 --data.template=turns.jinja \
    --data.add_tokens="['<|turn|>', '[CALL]']"
one_error
says "has trained rows of other tokens (trainable_token_indices in its adapter_config.json) than lora.trainable_tokens names; leave that out" err
code 2 "$LEVIN" train one --resume --trainer.max_steps=6 --lora.trainable_tokens=7
one_error
says "lora.trainable_tokens is 7 here but was [CALL], <|turn|>, <|endoftext|>, 7" err
cp -r $at/adapter bad
chmod -R u+w bad
for indices in '[7, 7]' '[-1]' '["a"]' '{"wte": [7], "lm_head": [8]}' '[9000000]'; do
    INDICES=$indices python3 -c 'import json, os
c = json.load(open("bad/adapter_config.json"))
c["trainable_token_indices"] = json.loads(os.environ["INDICES"])
json.dump(c, open("bad/adapter_config.json", "w"))'
    code 1 "$LEVIN" export bad no
    one_error
    check [ ! -e no ]
done
# a vocabulary without a trained token; the tokenizer is that of the base
code 2 "$LEVIN" export $at/adapter no --vocab-size=503
one_error
says "has trained rows of the token 504 (trainable_token_indices), and the model has 503 tokens" err
check [ ! -e no ]
