# random_runs.sh - runs with random keys: on any number of ranks, under any strategy, and stopped and resumed on other ranks, each has
# the bits of the run of one rank. LEVIN_SEEDS=N: of N random sets of keys instead of 32, the first LEVIN_SEED (0).
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
head -c 20000 text.txt >short.txt
python3 - <<'P'
import json, random
draw, words = random.Random(5), open("short.txt").read().split()
def some(most):
    first = draw.randrange(len(words) - most)
    return " ".join(words[first : first + draw.randint(1, most)]).replace('"', "")
with open("classes.tsv", "w") as classes, open("numbers.tsv", "w") as numbers, open("talks.jsonl", "w") as talks, open("texts.jsonl", "w") as texts:
    for out in classes, numbers:
        print("text\tlabel", file=out)
    for _ in range(90):
        print(some(12), draw.randrange(3), sep="\t", file=classes)
        print(some(12), round(draw.gauss(0, 1), 3), sep="\t", file=numbers)
        turns = [{"role": role, "content": some(6)} for _ in range(draw.randint(1, 3)) for role in ("user", "assistant")]
        print(json.dumps({"messages": turns}), file=talks)
        print(json.dumps({"text": some(40)}), file=texts)
P
code 0 "$LEVIN" tokenizer train --input=short.txt --vocab-size=400 --out=tokenizer
code 0 "$LEVIN" prepare texts.jsonl --tokenizer=tokenizer --out=tokens
random_keys() { # random_keys SEED: a line of keys, and a line with a number of ranks and their keys
    python3 - "$1" <<'P'
import random, sys
draw = random.Random(int(sys.argv[1]))
one = draw.choice
tokenizer = "--data.tokenizer=tokenizer"
data, kinds = one([
    (["--data.path=short.txt"], "nanogpt gpt2 mingpt neox llama mistral qwen2 qwen3 gemma2 gemma3 nanochat"),
    (["--data.path=tokens"], "gpt2 llama neox qwen3 gemma2"),
    (["--data.path=tokens", "--data.pack=true"], "gpt2 llama neox qwen2 gemma3"),
    (["--data.path=texts.jsonl", "--data.kind=documents", tokenizer], "gpt2 llama"),
    (["--data.path=classes.tsv", tokenizer], "bert roberta gpt2 llama neox"),
    (["--data.path=numbers.tsv", tokenizer, "--task.kind=regress"], "bert xlm-roberta gpt2 llama"),
    (["--data.path=talks.jsonl", tokenizer, "--data.template=chatml", one(["--data.pack=true", "--data.pack=false"])], "gpt2 llama qwen2 gemma2")])
kind, heads = one(kinds.split()), one([1, 2, 4])
keys = data + [f"--model.kind={kind}", f"--model.block_size={96 if 'talks' in data[0] else one([16, 17, 48])}"]
if kind == "nanochat":
    keys += [f"--model.depth={one([2, 4])}"]
else:
    keys += [f"--model.n_layer={one([1, 2, 3])}", f"--model.n_head={heads}", f"--model.n_embd={heads * one([8, 16, 24])}"]
if kind in ("nanogpt", "gpt2", "mingpt", "bert", "roberta", "xlm-roberta"):
    keys += [f"--model.dropout={one([0, 0.1, 0.5])}"]
if kind in ("llama", "mistral", "qwen2", "qwen3", "gemma2") and heads > 1:
    keys += [f"--model.n_kv_head={one([1, heads])}"]
optimizer = one(["adamw", "adamw", "adam", "sgd", "lion", "muon"])
keys += [f"--optimizer.kind={optimizer}", f"--optimizer.lr={one(['1e-3', '1e-2'])}"]
if optimizer in ("adamw", "adam", "lion"):
    keys += [f"--optimizer.state={one(['fp32', 'bf16'])}", "--optimizer.betas=[0.9,0.95]"]
keys += [f"--trainer.precision={one(['32-true', 'bf16-mixed', 'bf16-mixed', 'bf16-true'])}", f"--trainer.recompute={one(['auto', 'cheap', 'blocks'])}",
         f"--trainer.gradient_clip_val={one([0, 0.1, 1])}", f"--trainer.max_steps={one([5, 8])}", f"--trainer.val_check_interval={one([2, 3])}",
         f"--trainer.limit_val_batches={one([2, '1.0'])}", f"--checkpoint.every_n_steps={one([0, 2])}", f"--trainer.seed={draw.randrange(1000)}"]
ranks, strategy = one([2, 2, 3, 4]), one(["ddp", "zero1", "zero2", "fsdp", "fsdp", "auto"])
group = ["--trainer.fsdp_size=2"] if ranks == 4 and strategy == "fsdp" else []
print(*keys, "--trainer.batch_size=12", "--trainer.micro_batch_size=1", "--trainer.deterministic=true", "--trainer.threads=1")
print(ranks, f"--trainer.strategy={strategy}", *group)
P
}
continued=0
RANDOM=${LEVIN_SEED:-0} # for the moments of signals
for seed in $(seq "${LEVIN_SEED:-0}" $((${LEVIN_SEED:-0} + ${LEVIN_SEEDS:-32} - 1))); do
    mapfile -t lines < <(random_keys "$seed")
    read -ra keys <<<"${lines[0]}"
    read -ra ranks <<<"${lines[1]}"
    echo "seed $seed: ${lines[0]}; on ranks: ${lines[1]}" >&2
    rm -rf one ranks stopped
    timed "$LEVIN" train --run_dir=one "${keys[@]}"
    alone=$took
    timed "$LEVIN" launch --launcher=levin -n "${ranks[0]}" -- train --run_dir=ranks "${keys[@]}" "${ranks[@]:1}"
    together=$took
    same_run one ranks
    # stopped on ranks, killed alone, and stopped on ranks again, at random moments
    for i in 1 2 3; do
        on=("$LEVIN" launch --launcher=levin -n "${ranks[0]}" --) signal=TERM took=$together got=0
        [ $i != 2 ] || { on=("$LEVIN") signal=KILL took=$alone; }
        random_moment
        timeout -s $signal "$moment" "${on[@]}" train --run_dir=stopped "${keys[@]}" "${ranks[@]:1}" --resume >out 2>err || got=$?
        case $got in
        0 | 124 | 137) ;; # finished, or stopped by `timeout`
        *) cat out err && fail "resumed on ${on[*]}: exit $got" ;;
        esac
        if has "continuing after step" err; then continued=$((continued + 1)); fi
    done
    code 0 "$LEVIN" train --run_dir=stopped "${keys[@]}" --resume
    if has "continuing after step" err; then continued=$((continued + 1)); fi
    same_run one stopped
done
echo "$continued resumes after a checkpoint"
check [ $continued -ge $((${LEVIN_SEEDS:-32} / 8)) ]
