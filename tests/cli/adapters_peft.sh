# Adapters with the options of PEFT, lora.dropout and lora.use_rslora: PEFT's own folders and its results for them (tests/golden/peft);
# training, which is the same on 3 ranks, after a kill, and in parts; bad values.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
export HF_HUB_OFFLINE=1

# --- folders of PEFT: the merged model and a step of training ---
cp -r "$LEVIN_SOURCE/tests/golden/llama" base
cp -r "$LEVIN_SOURCE/tests/golden/peft" peft
chmod -R u+w base peft
cat >compare.py <<'P'
import json, struct, sys
from array import array
def read(path):
    data = open(path, "rb").read()
    n, = struct.unpack("<Q", data[:8])
    types = {"F32": "f", "BF16": "H"}
    return {k: (t["shape"], array(types[t["dtype"]], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]))
            for k, t in json.loads(data[8:8 + n]).items() if k != "__metadata__"}
wanted, got, prefix = read(sys.argv[1]), read(sys.argv[2]), sys.argv[3]
wanted = {k[len(prefix):]: t for k, t in wanted.items() if k.startswith(prefix)}
assert wanted and (prefix != "step." or wanted.keys() == got.keys()), (wanted.keys(), got.keys())
for k, (shape, x) in wanted.items():
    if k == "lm_head.weight" and k not in got: continue # tied
    if "trainable_tokens_delta" in k: # levin writes the ids in rising order
        ids = json.load(open(sys.argv[1].replace("expected.safetensors", "adapter_config.json")))["trainable_token_indices"]
        C = shape[1]
        assert json.load(open(sys.argv[2].replace("model.safetensors", "config.json")))["trainable_token_indices"] == sorted(ids)
        x = array("f", (v for i in sorted(ids) for v in x[ids.index(i) * C:(ids.index(i) + 1) * C]))
    far = max(abs(a - b) for a, b in zip(x, got[k][1]))
    assert got[k][0] == shape and far < 2e-6, (k, shape, got[k][0], far)
P
for kind in rslora tokens; do
    code 0 "$LEVIN" export peft/$kind merged-$kind
    python3 compare.py peft/$kind/expected.safetensors merged-$kind/model.safetensors merged.
    code 0 "$LEVIN" train --run_dir=step-$kind --model.init=base --lora.init=peft/$kind --lora.dropout=0 --data.kind=tokens \
        --data.path=base/tokens.bin --data.val_path=base/tokens.bin --data.sampling=sequential --trainer.batch_size=4 --trainer.max_steps=1 \
        --optimizer.kind=sgd --optimizer.betas=0,0 --optimizer.weight_decay=0 --optimizer.lr=0.5 --schedule.kind=constant \
        --schedule.warmup_steps=0 --trainer.gradient_clip_val=0
    python3 compare.py peft/$kind/expected.safetensors step-$kind/checkpoints/last/adapter/adapter_model.safetensors step.
done
says "use_rslora: true" step-rslora/settings.yaml
code 0 "$LEVIN" train --run_dir=took --model.init=base --lora.init=peft/rslora --data.kind=tokens --data.path=base/tokens.bin \
    --data.val_path=base/tokens.bin --trainer.batch_size=4 --trainer.max_steps=1
says "dropout: 0.25" took/settings.yaml
for value in 'use_rslora.: true' 'lora_dropout.: 0.25' 'lora_alpha.: 6'; do check grep -q "$value" took/checkpoints/last/adapter/adapter_config.json; done
sed 's/"lora_dropout": 0.25/"lora_dropout": 1.0/' peft/rslora/adapter_config.json >changed
cp changed peft/rslora/adapter_config.json
code 1 "$LEVIN" export peft/rslora no
one_error
says "adapter_config.json: lora_dropout is 1, expected at least 0 and less than 1" err

# --- training ---
code 0 train small --trainer.max_steps=8 --optimizer.lr=1e-2
code 0 "$LEVIN" export small plain
tiny=(--model.init=plain --data.path=text.txt --trainer.batch_size=6 --trainer.limit_val_batches=4 --trainer.val_check_interval=2
    --checkpoint.every_n_steps=2 --trainer.deterministic=true --trainer.threads=1 --lora.rank=4 --lora.alpha=8 --optimizer.lr=1e-2
    --lora.dropout=0.3 --lora.use_rslora=true --trainer.max_steps=6)
code 0 train one
code 0 train without --lora.dropout=0
first_loss() { grep -om1 '"loss": [^,]*' "$1/metrics.jsonl"; } # first_loss RUN
first=$(first_loss one)
check [ "$first" = "$(first_loss without)" ] # B is 0
cmp -s {one,without}/checkpoints/last/adapter/adapter_model.safetensors && fail "lora.dropout has no effect"
code 0 train plain-scale --lora.use_rslora=false --lora.alpha=16 # 8 / sqrt(4) = 16 / 4
same_file {one,plain-scale}/checkpoints/last/adapter/adapter_model.safetensors
arguments three
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
same_weights one three
code 0 train parts --trainer.max_steps=2
code 0 train parts --trainer.max_steps=6 --resume
same_run one parts
start killed --trainer.max_steps=2000 --checkpoint.every_n_steps=4
wait_rows killed 5
kill -KILL $pid
wait $pid || true
step=$(newest killed)
code 0 train killed --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4 --resume
code 0 train whole --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4
same_file {killed,whole}/checkpoints/step-$((step + 4))/adapter/adapter_model.safetensors
# evaluation and generation have the merged model, without dropout
code 0 "$LEVIN" export one merged
for model in one one/checkpoints/last/adapter merged; do
    code 0 "$LEVIN" evaluate $model --data.path=text.txt --trainer.limit_test_batches=2 --trainer.batch_size=4 --trainer.micro_batch_size=4 --json
    value loss >>losses
    code 0 "$LEVIN" generate $model --prompt="int " --max-new-tokens=8 --temperature=0
    cksum <out >>texts
done
check [ "$(sort -u losses | wc -l)" = 1 -a "$(sort -u texts | wc -l)" = 1 ]
code 0 "$LEVIN" plan --model.init=plain --data.path=text.txt --lora.rank=4 --lora.dropout=0.3 --program
says "dropout" out

# --- resuming and bad values ---
code 2 train one --resume --trainer.max_steps=8 --lora.use_rslora=false
one_error
says "lora.use_rslora is false here but was true in the run" err
code 0 train one --resume --trainer.max_steps=8 --lora.dropout=0.1 # as model.dropout, it may change
says '"lora_dropout": 0.1' one/checkpoints/last/adapter/adapter_config.json
code 2 "$LEVIN" train --run_dir=no --model.init=plain --data.path=text.txt --lora.init=one/checkpoints/last/adapter --lora.use_rslora=false
one_error
says "its use_rslora is true, and lora.use_rslora is false; set lora.use_rslora: true, or leave it out" err
for value in -0.1 1 1.0 nan x; do
    code 2 train no --lora.dropout=$value
    one_error
    says "lora.dropout" err
done
for key in lora.dropout=0.1 lora.use_rslora=true; do
    code 2 "$LEVIN" train --run_dir=no --model.init=plain --data.path=text.txt --$key
    one_error
    says "has no effect while lora.rank is 0: set that too, or leave it out" err
done
code 2 "$LEVIN" train --run_dir=no --model.init=plain --data.path=text.txt --lora_dropout=0.1
says "lora.dropout" err
check [ ! -e no ]
