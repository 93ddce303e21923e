# Every recipe loads, can be planned and benchmarked without its data, and its settings load back.
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"

for recipe in "$LEVIN_SOURCE"/recipes/*.yaml; do
    name=$(basename "$recipe" .yaml)
    code 0 "$LEVIN" train "$recipe" --show-settings --json
    json "d['settings']['name']['value'] == '$name' and d['settings']['run_dir']['value'] == 'runs/$name'"
    code 0 "$LEVIN" train "$recipe" --show-settings
    says "$recipe:" out
    short=--model.block_size=16
    case $name in mnist-*) short= ;; esac
    code 0 "$LEVIN" plan "$recipe" --json --trainer.batch_size_per_device=0 --trainer.micro_batch_size=0 \
        --device=h100-80g $short # independent of this machine's free memory
    json 'd["parameters"] > 1000 and d["memory"]["total"] > d["arena_bytes"] > 0 and d["time"]["step_s"] > 0'
    case $name in pythia-*b | transformer-*) ;; *) json 'd["fits"]' ;; esac # larger models need larger machines, or several machines
done
check [ ! -e runs ]

# The published jobs, value by value.
is() { # is RECIPE KEY=VALUE...
    local recipe=$1 pair
    shift
    code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/$recipe.yaml" --show-settings --json
    for pair in "$@"; do json "str(d['settings']['${pair%%=*}']['value']) == '${pair#*=}'"; done
}
is gpt2-finetune model.init=gpt2 trainer.batch_size=64 trainer.val_check_interval=5 trainer.gradient_clip_val=1 \
    trainer.precision=bf16-mixed optimizer.weight_decay=0.1 optimizer.betas='[0.9, 0.95]' optimizer.lr=3e-05 \
    schedule.kind=cosine checkpoint.top_k=1 sample.prompt='It is interesting ' sample.max_new_tokens=100 \
    sample.temperature=0.6 sample.top_k=200
is gpt2-from-scratch model.kind=nanogpt model.n_layer=12 model.n_embd=768 model.block_size=1024 model.vocab_size=50304 \
    model.bias=False trainer.batch_size=480 trainer.max_steps=600000 optimizer.lr=0.0006 schedule.warmup_steps=2000 \
    schedule.decay_steps=600000 schedule.min_lr=6e-05 optimizer.weight_decay=0.1 trainer.precision=bf16-mixed
for size in pythia-{70m,160m,410m,1b,1.4b,2.8b,6.9b,12b} transformer-{100b,175b}; do
    is $size model.kind=neox model.size=$size model.block_size=2048 trainer.batch_size_per_device=125 \
        trainer.micro_batch_size=5 trainer.max_steps=600000 optimizer.lr=0.0006 optimizer.weight_decay=0.1 \
        optimizer.betas='[0.9, 0.95]' schedule.warmup_steps=2000 schedule.decay_steps=600000 schedule.min_lr=6e-05 \
        trainer.val_check_interval=1000 trainer.limit_val_batches=100 checkpoint.every_n_steps=1000
done
is llama-124m model.kind=llama model.n_layer=12 model.n_embd=768 model.tied=True model.intermediate_size=2048
is smollm2-135m-chat model.init=smollm2-135m-instruct data.kind=chat data.pack=True model.block_size=1024
is llama-3.2-1b-lora model.init=llama-3.2-1b-instruct data.kind=chat lora.rank=16 lora.targets=all-linear trainer.recompute=blocks
is qwen3-0.6b-lora model.init=qwen3-0.6b data.kind=chat lora.rank=16 lora.targets=all-linear trainer.recompute=blocks
for recipe in qwen3-8b-qlora llama-3.1-8b-qlora; do
    is $recipe model.quantize=nf4 data.kind=chat lora.rank=16 trainer.precision=bf16-true trainer.recompute=blocks
done
is gpt2-eval model.init=gpt2 trainer.batch_size=8 trainer.limit_val_batches=500

# They run with a tiny model and other data instead of GPT-2 and OpenWebText.
mkdir texts # always the same texts, because their contents decide which of them are for validation
for i in $(seq 40); do seq $i 7 3000 >texts/$i.txt; done
code 0 "$LEVIN" prepare text --input=texts --out=tokens --tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2" --val-fraction=0.3
code 0 "$LEVIN" train --run_dir=base --data.kind=tokens --data.path=tokens --model.kind=gpt2 --model.n_layer=1 --model.n_head=2 \
    --model.n_embd=32 --model.block_size=32 --trainer.max_steps=30 --trainer.limit_val_batches=2 --optimizer.lr=1e-2 --quiet
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/gpt2-finetune.yaml" --model.init=base --data.path=tokens --trainer.max_steps=10 \
    --sample.every_n_steps=10 --json
json 'd["step"] == 10 and d["best_val_loss"] <= d["val_loss"]'
cp out trained
says "It is interesting" err
evaluate() { code 0 "$LEVIN" evaluate "$LEVIN_SOURCE/recipes/gpt2-eval.yaml" --data.path=tokens --json "$@"; }
evaluate --model.init=base
json 'd["tokens"] > 8 * 32 and d["loss"] > 0'
all=$(value tokens)
evaluate --model.init=base --trainer.limit_val_batches=2
json 'd["tokens"] == 2 * 8 * 32'
evaluate --model.init=runs/gpt2-finetune
[ "$(value tokens)" = "$all" ] || fail "other tokens"
rm -r runs
code 1 env HF_HOME="$PWD/nothing" HF_HUB_OFFLINE=1 "$LEVIN" evaluate "$LEVIN_SOURCE/recipes/gpt2-eval.yaml" --data.path=tokens
says "gpt2" err
code 2 "$LEVIN" evaluate "$LEVIN_SOURCE/recipes/shakespeare-char.yaml"
says "does not say which model" err

# The numbers of parameters are those of the papers and their programs.
parameters() { # parameters WANTED KEYS...
    local wanted=$1
    shift
    code 0 "$LEVIN" plan --json --trainer.batch_size=1 "$@"
    json "d['parameters'] == $wanted"
}
parameters 124439808 --model.kind=gpt2 --model.size=gpt2 --model.vocab_size=50257 --model.block_size=1024
mkdir gpt2 && cp "$LEVIN_SOURCE"/tests/golden/tokenizers/tiny-gpt2/* gpt2 # a tokenizer of that name is not a model
parameters 124439808 --model.init=gpt2 # by its name alone
rm -r gpt2
parameters 774030080 --model.init=gpt2-large
parameters 1557611200 --model.init=openai-community/gpt2-xl
parameters 354823168 --model.kind=gpt2 --model.size=gpt2-medium --model.vocab_size=50257 --model.block_size=1024
parameters 4958736 --model.kind=mingpt --model.size=gpt-nano --model.vocab_size=50257 --model.block_size=1024 # 2,546,400 and its head

while read -r kind size wanted; do parameters $wanted --model.kind=$kind --model.size=$size; done <<'E'
neox pythia-70m 70426624
neox pythia-160m 162322944
neox pythia-410m 405334016
neox pythia-1b 1011781632
neox pythia-1.4b 1414647808
neox pythia-2.8b 2775208960
neox pythia-6.9b 6857302016
neox pythia-12b 11846072320
neox transformer-100b 100901744640
neox transformer-175b 175197806592
llama llama-124m 123587328
llama tinyllama-1.1b 1100048384
llama llama-3.2-1b 1235814400
llama llama-2-7b 6738415616
llama llama-3-8b 8030261248
qwen3 qwen3-0.6b 596049920
qwen3 qwen3-1.7b 1720574976
qwen3 qwen3-4b 4022468096
qwen3 qwen3-8b 8190735360
E
parameters 6857302016 --model.init=pythia-6.9b # as it was published
parameters 1235814400 --model.init=meta-llama/Llama-3.2-1B --model.block_size=2048
parameters 596049920 --model.init=Qwen/Qwen3-0.6B --model.block_size=2048
# rows for data.add_tokens, where the tokenizer's tokens do not leave enough
texts=(--data.kind=documents --data.path=none.txt --data.allow_special=true)
parameters "134515008 + 2 * 576" --model.init=smollm2-135m-instruct --model.block_size=2048 --data.add_tokens='[<a>, <b>]' "${texts[@]}"
parameters 596049920 --model.init=qwen3-0.6b --model.block_size=2048 --data.add_tokens='[<a>, <b>]' "${texts[@]}"
parameters "134515008 + 64 * 576" --model.init=smollm2-135m-instruct --model.block_size=2048 --model.vocab_size=49216 --data.add_tokens='[<a>]' "${texts[@]}"
# heads of any size: 2 layers of q and o (64 x 4 x 24), k and v (64 x 2 x 24), MLP (3 x 64 x 96), norms; embedding, last norm
for kind in llama mistral qwen2 qwen3 gemma2 gemma3; do
    case $kind in qwen2) more=8*24 ;; qwen3 | gemma3) more=2*24 ;; *) more=0 ;; esac
    case $kind in gemma*) norms=4 ;; *) norms=2 ;; esac
    parameters "2 * (2 * 64 * 4 * 24 + 2 * 64 * 2 * 24 + 3 * 64 * 96 + $norms * 64 + $more) + 100 * 64 + 64" --model.kind=$kind \
        --model.n_layer=2 --model.n_head=4 --model.n_kv_head=2 --model.n_embd=64 --model.head_dim=24 --model.intermediate_size=96 \
        --model.vocab_size=100 --model.tied=true --model.block_size=32
done
code 2 "$LEVIN" plan --model.kind=llama --model.n_embd=62 --model.n_head=4 --trainer.batch_size=1
says "model.head_dim (head_dim in a config.json) does not set the number of channels of a head; set it, or use 60" err
code 2 "$LEVIN" plan --model.kind=gpt2 --model.head_dim=24 --trainer.batch_size=1
says "model.head_dim: gpt2 has no such key" err
texts=(--data.kind=labelled --data.path=none.tsv)
parameters 109483778 --model.init=bert-base "${texts[@]}"
parameters 335143938 --model.init=bert-large "${texts[@]}"
parameters 108920066 --model.init=kcbert-base "${texts[@]}"
parameters 334392322 --model.init=kcbert-large "${texts[@]}"
is nsmc-kcbert-large model.init=kcbert-large data.max_length=150 data.skip_bad_rows=True \
    optimizer.lr=5e-06 trainer.seed=42 trainer.batch_size=64

code 0 "$LEVIN" bench "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --steps=2 --trainer.batch_size=2 --json
json '0 < d["best_s"] <= d["median_s"] and d["tokens_per_s"] > 0 and d["utilization"] > 0 and d["peak_bytes"] > 1e6 and d["matmul_gflops"] > 0'
says "the data are not there: vocab_size 65 is assumed" err
code 0 "$LEVIN" bench --model.kind=bert --model.n_layer=1 "${texts[@]}" --steps=1 --trainer.batch_size=2
code 0 "$LEVIN" bench --steps=1 --model.n_layer=1 --model.n_embd=24 --trainer.batch_size=1 --optimizer.lr=1e-4 --schedule.kind=exponential
says "peak memory" out

code 0 "$LEVIN" plan "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --schedule --json
json 'len(d["lr"]) == 2000 and abs(d["lr"][0] - 1e-3 / 101) < 1e-12 and abs(d["lr"][100] - 1e-3) < 1e-12 and max(d["lr"]) <= 1e-3 and 1e-4 <= d["lr"][1999] < 1.01e-4'
rates() { # rates KIND FORMULA: of 8 steps, 2 of them warm-up, by the formula in r from 0 to 1
    code 0 "$LEVIN" plan "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --schedule --json --schedule.kind="$1" --schedule.warmup_steps=2 \
        --trainer.max_steps=8 --schedule.decay_steps=7 --optimizer.lr=1e-2 --schedule.min_lr=1e-4
    json "len(d['lr']) == 8 and all(abs(x / y - 1) < 1e-12 for x, y in zip(d['lr'], [1e-2 / 3, 2e-2 / 3] + [$2 for r in (0, 0.2, 0.4, 0.6, 0.8, 1)]))"
}
rates linear "1e-2 - r * 9.9e-3"
rates exponential "1e-2 * 0.01 ** r"
# Hugging Face's warmup_stable_decay, after levin's warm-up, whose first rate is not 0: 20 steps, 3
# (0.15 of them) of warm-up, then as many as are left before the decay.
wsd() { # wsd TYPE FACTOR [key=value...]: a decay of 6 steps by the factor in r
    local type=$1 factor=$2
    shift 2
    code 0 "$LEVIN" plan "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --schedule --json --schedule.kind=wsd --schedule.warmup_steps=0.15 \
        --trainer.max_steps=20 --schedule.decay_steps=19 --optimizer.lr=1e-2 --schedule.min_lr=1e-3 --schedule.wsd_decay_type="$type" "$@"
    python3 - "$factor" <<'END'
import json, math, sys
warmup, stable, decay, lr, ratio = 3, 10, 6, 1e-2, 0.1
def rate(step):
    if step < warmup:
        return lr * (step + 1) / (warmup + 1)
    if step < warmup + stable:
        return lr
    if step < warmup + stable + decay:
        r = (step - warmup - stable) / decay
        return lr * (eval(sys.argv[1]) * (1 - ratio) + ratio)
    return lr * ratio
got = json.load(open("out"))["lr"]
assert len(got) == 20 and all(abs(x / rate(i) - 1) < 1e-12 for i, x in enumerate(got)), got
END
}
wsd cosine "0.5 * (1 + math.cos(math.pi * r))" --schedule.wsd_decay_steps=6
wsd linear "1 - r" --schedule.wsd_decay_steps=0.3
wsd 1-sqrt "1 - math.sqrt(r)" --schedule.wsd_decay_steps=0.3
code 2 "$LEVIN" plan --schedule --trainer.max_epochs=2
says "the number of steps is not known" err
