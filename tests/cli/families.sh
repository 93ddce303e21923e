# Every family of language models with every use of a model: adapters, frozen parameters, bf16, recomputation,
# deterministic sums, ranks that shard the optimizer state, resuming, exporting, generating, classifying.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
code 0 "$LEVIN" tokenizer train --kind=wordpiece --input=text.txt --vocab-size=200 --out=vocab
# lines with their class: which of two words ends them, the last token but [SEP]
awk 'BEGIN { print "text\tlabel" } { if (NR > 96) exit; print $1, (NR % 2 ? "loss" : "step") "\t" NR % 2 }' text.txt >rows.tsv
near() { python3 -c 'import sys; a, b, most = map(float, sys.argv[1:]); assert abs(a - b) < most, (a, b)' "$@"; } # near A B MOST
loss() { # loss MODEL [keys]: over the validation part
    code 0 "$LEVIN" evaluate "$1" "${data[@]}" --trainer.batch_size=16 --json "${@:2}"
    value loss
}
changed() { # changed MODEL MODEL: the names of tensors that differ
    python3 - "$@" <<'P'
import json, struct, sys
def tensors(path):
    with open(path + "/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {k: data[slice(*v["data_offsets"])] for k, v in header.items() if k != "__metadata__"}
a, b = map(tensors, sys.argv[1:])
assert a.keys() == b.keys()
print(*sorted(k for k in a if a[k] != b[k]), sep="\n")
P
}

peft() { # peft CLASS: PEFT on transformers computes what the merged model does
    code 0 "$LEVIN" export trained peft-base
    python3 - $1 <<'P' || fail "PEFT reads other adapters"
import sys, torch, transformers, peft
load = lambda path: getattr(transformers, sys.argv[1]).from_pretrained(path).eval()
ids = torch.arange(16).view(1, 16) % 7
with torch.no_grad():
    base, merged = load("peft-base")(ids).logits, load("merged")(ids).logits
    adapted = peft.PeftModel.from_pretrained(load("peft-base"), "run-lora/checkpoints/last/adapter")(ids).logits
assert (merged - base).abs().max() > 1e-3 and (adapted - merged).abs().max() < 1e-4, (adapted - merged).abs().max()
P
    rm -r peft-base
}
classes() { # classes KIND [keys]: a head for classes learns, is written and read back, also with adapters; such a model generates no text
    local kind=$1
    shift
    code 0 "$LEVIN" train --run_dir=classes --model.kind=$kind --model.n_layer=1 --model.n_head=2 --model.n_embd=32 \
        --model.block_size=16 --task.kind=classify --data.path=rows.tsv --data.tokenizer=vocab --trainer.batch_size=16 \
        --trainer.max_steps=80 --trainer.limit_val_batches=0 --optimizer.lr=5e-3 --quiet "$@"
    [[ $kind != *roberta ]] || says "padding is not token 1 of the tokenizer" err
    # AMX gives different bits for few and for many rows, so both predict with the same batch size
    code 0 "$LEVIN" predict classes --input=rows.tsv --trainer.batch_size=16 --json
    cp out told
    python3 - <<'P' || fail "$kind: it has not learned the classes"
import json
label = [int(row.split("\t")[1]) for row in open("rows.tsv").read().splitlines()[1:]]
found = [p["label"] for p in json.load(open("out"))["predictions"]]
assert len(found) == len(label) and sum(a == b for a, b in zip(found, label)) > 0.9 * len(label)
P
    code 1 "$LEVIN" generate classes --prompt="the "
    one_error
    says "does not generate text" err
    code 0 "$LEVIN" export classes heads
    code 0 "$LEVIN" predict heads --input=rows.tsv --trainer.batch_size=16 --json
    same_file told out
    code 0 "$LEVIN" train --run_dir=tuned --model.init=heads --data.path=rows.tsv --lora.rank=2 --optimizer.lr=1e-9 \
        --trainer.batch_size=16 --trainer.max_steps=2 --trainer.limit_val_batches=0 --quiet
    check [ -f tuned/checkpoints/last/adapter/adapter_model.safetensors ]
    code 0 "$LEVIN" predict tuned --input=rows.tsv --json
    python3 -c 'import json, sys
a, b = (json.load(open(x))["predictions"] for x in sys.argv[1:])
assert [p["label"] for p in a] == [p["label"] for p in b]' told out || fail "$kind: adapters that learn nothing change classes"
    # the adapters' folder alone is the same model, to levin and to PEFT
    cp out told
    code 0 "$LEVIN" predict tuned/checkpoints/last/adapter --input=rows.tsv --json
    same_file told out
    if [[ $kind = *bert* ]] && python3 -c 'import torch, transformers, peft' 2>/dev/null; then
        python3 - <<'P' || fail "$kind: PEFT reads other adapters with classes"
import json, peft, torch, transformers
base = transformers.AutoModelForSequenceClassification.from_pretrained("heads")
model = peft.PeftModel.from_pretrained(base, "tuned/checkpoints/last/adapter").eval()
told = json.load(open("told"))["predictions"]
tokenizer = transformers.AutoTokenizer.from_pretrained("heads")
rows = [row.split("\t")[0] for row in open("rows.tsv").read().splitlines()[1:]]
with torch.no_grad():
    found = [model(**tokenizer(row, return_tensors="pt")).logits.argmax().item() for row in rows]
assert found == [p["label"] for p in told], (found, told)
P
    fi
    rm -r classes heads tuned
}
walk() { # walk KIND ADAPTED FROZEN-PATTERNS [keys]: what default adapters change; what may stay as it is
    local kind=$1 adapted=$2 frozen=$3 prompt
    shift 3
    rm -rf base run other hf back # each family starts from scratch
    data=(--data.path=text.txt)
    [[ $kind != *bert* ]] || data=(--data.path=words --task.kind=mlm)
    local keys=(--model.kind=$kind --model.n_layer=2 --model.n_head=4 --model.n_embd=32 --model.dropout=0.1 --optimizer.lr=5e-3
        --trainer.micro_batch_size=2 --trainer.deterministic=true --trainer.threads=1 "${data[@]}" "$@")
    code 0 train base "${keys[@]}"
    cp -rL base/checkpoints/last trained
    # a resumed run has the bits of an undisturbed one; threads and recomputed blocks change no bit
    code 0 train run "${keys[@]/threads=1/threads=2}" --trainer.max_steps=4 --trainer.recompute=blocks
    code 0 train run "${keys[@]/threads=1/threads=2}" --trainer.recompute=blocks --resume
    same_weights base run
    rm -r run
    arguments run "${keys[@]}" --trainer.strategy=zero1
    code 0 "$LEVIN" launch --launcher=levin -n 2 -- "${all[@]}"
    same_weights base run
    # number types
    code 0 "$LEVIN" train --run_dir=half --model.init=trained "${data[@]}" --trainer.precision=bf16-mixed \
        --trainer.max_steps=2 --optimizer.lr=1e-9 --trainer.limit_val_batches=4 --json
    near "$(value val_loss)" "$(value start_val_loss)" 1e-4
    local half
    half=$(value val_loss)
    rm -r half
    code 0 "$LEVIN" train --run_dir=half --model.init=trained "${data[@]}" --trainer.max_steps=1 --optimizer.lr=1e-9 \
        --trainer.limit_val_batches=4 --json
    near "$half" "$(value val_loss)" 2e-2
    rm -r half
    code 0 "$LEVIN" train --run_dir=half --model.init=trained "${data[@]}" --trainer.precision=bf16-true \
        --trainer.max_steps=2 --trainer.limit_val_batches=4 --optimizer.lr=1e-5 --json
    near "$half" "$(value val_loss)" 5e-2
    rm -r half
    local type
    for type in bf16-mixed bf16-true; do # and a resumed run has the bits of an undisturbed one
        rm -rf run half
        code 0 train half "${keys[@]}" --trainer.precision=$type
        code 0 train run "${keys[@]}" --trainer.precision=$type --trainer.max_steps=4
        code 0 train run "${keys[@]}" --trainer.precision=$type --resume
        same_weights half run
    done
    rm -r half
    # adapters with the family's default targets; merging them changes their linear layers, and no other parameter
    tune=(--model.init=trained "${data[@]}" --trainer.max_steps=4 --optimizer.lr=1e-2 --trainer.limit_val_batches=2)
    code 0 "$LEVIN" train --run_dir=run-lora "${tune[@]}" --lora.rank=2
    code 0 "$LEVIN" export run-lora merged
    check [ "$(changed trained merged | awk -F. '{ print $(NF - 1) }' | sort -u | paste -sd' ')" = "$adapted" ]
    # in PEFT's format; a training that starts from them
    code 0 "$LEVIN" train --run_dir=again --model.init=trained "${data[@]}" --trainer.max_steps=1 --optimizer.kind=sgd \
        --optimizer.lr=1e-30 --trainer.limit_val_batches=2 --lora.rank=2 --lora.init=run-lora/checkpoints/last/adapter
    same_file run-lora/checkpoints/last/adapter/adapter_config.json again/checkpoints/last/adapter/adapter_config.json
    same_file run-lora/checkpoints/last/adapter/adapter_model.safetensors again/checkpoints/last/adapter/adapter_model.safetensors
    code 2 "$LEVIN" train --run_dir=never "${tune[@]}" --lora.rank=3 --lora.init=run-lora/checkpoints/last/adapter
    says "its adapters have the rank 2, and lora.rank is 3; set lora.rank: 2" err
    if [ $kind != nanochat ] && python3 -c 'import torch, transformers, peft' 2>/dev/null; then
        if [[ $kind = *bert* ]]; then peft AutoModelForMaskedLM; else peft AutoModelForCausalLM; fi
    else
        echo "left out: the adapters of $kind in PEFT"
    fi
    rm -r again
    # frozen parts
    code 0 "$LEVIN" train --run_dir=run-frozen "${tune[@]}" "--model.freeze=$frozen"
    changed trained run-frozen/checkpoints/last >names
    python3 - "$frozen" <<'P' || fail "$kind: frozen parameters were trained, or none was"
import fnmatch, sys
names, patterns = open("names").read().split(), sys.argv[1].strip("[]").replace('"', "").split(", ")
frozen = [(n, p) for n in names for p in patterns if fnmatch.fnmatchcase(f".{n}.", f"*.{p}.*")]
assert names and not frozen, (names, frozen)
P
    # exported unchanged
    code 0 "$LEVIN" export trained hf
    same_file trained/model.safetensors hf/model.safetensors
    near "$(loss trained)" "$(loss hf)" 1e-7
    # greedy generation from a prompt, and from this prompt with the first tokens of the answer
    if [[ $kind = *bert* ]]; then
        code 1 "$LEVIN" generate hf --prompt="the "
        check [ ! -s out ]
        says "a $kind does not generate text" err
    else
        code 0 "$LEVIN" generate hf --prompt="the " --max-new-tokens=8 --temperature=0 --json
        json 'len(d["samples"][0]["ids"]) == 8'
        cp out whole
        prompt=$(python3 -c 'import json; print("the " + json.load(open("whole"))["samples"][0]["text"][:4] + "|")')
        code 0 "$LEVIN" generate hf --prompt="${prompt%|}" --max-new-tokens=4 --temperature=0 --json
        json 'd["samples"][0]["ids"] == json.load(open("whole"))["samples"][0]["ids"][4:]'
    fi
    rm -rf trained merged run-lora run-frozen
    [[ $kind = nanochat* ]] || classes $kind "$@" # nanochat has no head for classes
}
walk gpt2 c_attn '[wte, h.0, "h.*.mlp"]'
walk neox query_key_value '[embed_in, layers.0, "layers.*.mlp"]' --model.rotary_pct=0.5
walk llama 'q_proj v_proj' '[embed_tokens, layers.0, "layers.*.mlp"]' --model.n_kv_head=2
walk mistral 'q_proj v_proj' '[embed_tokens, layers.0, "layers.*.mlp"]' --model.n_kv_head=1 --model.sliding_window=6
walk qwen2 'q_proj v_proj' '[embed_tokens, layers.0, "layers.*.mlp"]' --model.n_kv_head=2 --model.sliding_window=6 \
    --model.max_window_layers=1
walk qwen3 'q_proj v_proj' '[embed_tokens, layers.0, "layers.*.mlp"]' --model.tied=true
for kind in gemma2 gemma3; do
    walk $kind 'q_proj v_proj' '[embed_tokens, layers.0, "layers.*.mlp"]' --model.n_kv_head=2 --model.sliding_window=6
done
walk nanochat-2025 'q_proj v_proj' '[embed_tokens, layers.0, "layers.*.mlp"]' --model.n_kv_head=2
walk nanochat 'c_q c_v' '[wte, h.0, "h.*.mlp"]' --model.n_kv_head=2
# masked words, for a model that predicts them
code 0 "$LEVIN" prepare text.txt --tokenizer=vocab --out=words
for kind in bert roberta xlm-roberta; do walk $kind 'query value' '[embeddings, layer.0, "layer.*.output"]'; done
