# model.quantize: adapters on a base in nf4 or int8: the results of a base with the rounded weights, in every precision; resuming,
# 1 and 3 ranks, zero1 and zero2; evaluation and generation of the run and of its base; export; memory in `levin plan`; what is refused.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
export HF_HUB_OFFLINE=1
code 0 train small --trainer.max_steps=8 --optimizer.lr=1e-2
code 0 "$LEVIN" export small plain
tiny=(--model.init=plain --data.path=text.txt --trainer.batch_size=6 --trainer.limit_val_batches=4 --trainer.val_check_interval=2
    --checkpoint.every_n_steps=2 --trainer.deterministic=true --trainer.threads=1 --lora.rank=4 --lora.targets=all-linear
    --optimizer.lr=1e-2 --trainer.max_steps=4)
loss() { grep -o '"loss": [^,]*' "$1/metrics.jsonl"; }

for type in nf4 int8; do
    for precision in 32-true bf16-mixed bf16-true; do
        code 0 train $type-$precision --model.quantize=$type --trainer.precision=$precision
    done
    run=$type-32-true
    code 0 train plain-base
    check [ "$(loss $run)" != "$(loss plain-base)" ]
    rm -r plain-base
    arguments three --model.quantize=$type
    ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
    same_weights $run three
    for strategy in zero1 zero2; do
        arguments three-$strategy --model.quantize=$type --trainer.strategy=$strategy
        ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- "${all[@]}"
        same_file {$run,three-$strategy}/checkpoints/last/adapter/adapter_model.safetensors
        rm -r three-$strategy
    done
    code 0 train parts --model.quantize=$type --trainer.max_steps=2
    code 0 train parts --model.quantize=$type --trainer.max_steps=4 --resume
    same_run $run parts
    code 0 train threads --model.quantize=$type --trainer.threads=2
    same_weights $run threads
    rm -r three parts threads

    # a run is evaluated as it was trained; with model.quantize=none its adapters are merged into the weights of the base's files
    same=(--data.path=text.txt --trainer.limit_test_batches=2 --trainer.batch_size=4 --trainer.micro_batch_size=4 --json)
    code 0 "$LEVIN" evaluate $run "${same[@]}"
    as_trained=$(value loss)
    code 0 "$LEVIN" evaluate $run "${same[@]}" --model.quantize=none
    merged=$(value loss)
    code 0 "$LEVIN" export $run merged-$type
    code 0 "$LEVIN" evaluate merged-$type "${same[@]}"
    check [ "$(value loss)" = "$merged" ]
    check [ "$as_trained" != "$merged" ]
    code 0 "$LEVIN" evaluate $run/checkpoints/best/adapter "${same[@]}" --model.quantize=$type
    check [ "$(value loss)" = "$as_trained" ]
    code 0 "$LEVIN" evaluate plain "${same[@]}"
    wide=$(value loss)
    code 0 "$LEVIN" evaluate plain "${same[@]}" --model.quantize=$type
    python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert a != b and abs(a - b) < 0.1, (a, b)' "$wide" "$(value loss)"
    for model in $run plain; do
        code 0 "$LEVIN" generate $model --prompt="int " --max-new-tokens=8 --temperature=0 --model.quantize=$type
    done
done

# a base that another program has quantized to int8, as bitsandbytes' LLM.int8() in a folder of transformers: the same bits
code 0 "$LEVIN" train --run_dir=llama --data.path=text.txt --model.kind=llama --model.n_layer=2 --model.n_head=2 --model.n_embd=32 \
    --model.intermediate_size=64 --model.block_size=32 --trainer.max_steps=2 --trainer.batch_size=4
code 0 "$LEVIN" export llama llama-plain
cp -r llama-plain llama-int8
python3 - llama-int8 <<'P'
import array, json, struct, sys
path = sys.argv[1] + "/model.safetensors"
data = open(path, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head, out, at, parts = json.loads(data[8 : 8 + n]), {}, 0, []
single = lambda x: struct.unpack("f", struct.pack("f", x))[0]
def put(name, dtype, shape, values):
    global at
    out[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(values)]}
    parts.append(values)
    at += len(values)
for name, t in head.items():
    if name == "__metadata__":
        continue
    a, b = t["data_offsets"]
    values = data[8 + n + a : 8 + n + b]
    if not name.endswith("_proj.weight"):
        put(name, t["dtype"], t["shape"], values)
        continue
    rows, columns = t["shape"]
    x, q, most = array.array("f", values), array.array("b"), array.array("f")
    for r in range(rows):
        row = x[r * columns : (r + 1) * columns]
        most.append(max(map(abs, row)))
        scale = single(127 / most[r])
        q.extend(round(single(v * scale)) for v in row)
    put(name, "I8", t["shape"], q.tobytes())
    put(name[: -len("weight")] + "SCB", "F32", [rows], most.tobytes())
    put(name + "_format", "U8", [], b"\0")
head = json.dumps(out).encode()
open(path, "wb").write(struct.pack("<Q", len(head)) + head + b"".join(parts))
config = json.load(open(sys.argv[1] + "/config.json"))
config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
P
code 0 train from-int8 --model.init=llama-int8
says "has packed tensors (14 of type int8); 14 linear layers stay in their blocks" err
code 0 train from-plain --model.init=llama-plain --model.quantize=int8
same_file from-{int8,plain}/checkpoints/last/adapter/adapter_model.safetensors
code 2 "$LEVIN" train --run_dir=no --model.init=llama-int8 --data.path=text.txt --lora.rank=4 --model.quantize=nf4
says "is quantized already, to int8: leave model.quantize out" err

# a number that is not finite is found while the base is quantized
cp -r llama-plain broken
python3 - <<'P'
import json, struct
with open("broken/model.safetensors", "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    f.seek(8 + n + 4 * 1000 + json.loads(f.read(n))["model.layers.1.self_attn.k_proj.weight"]["data_offsets"][0])
    f.write(struct.pack("<f", float("nan")))
P
for type in nf4 int8; do
    code 1 train no --model.init=broken --model.quantize=$type
    one_error
    says "'model.layers.1.self_attn.k_proj.weight' holds a number that is not finite, at 1000" err
done

# killed at any moment, it ends with the bits of an undisturbed run
start killed --trainer.max_steps=2000 --checkpoint.every_n_steps=4 --model.quantize=nf4
wait_rows killed 5
kill -KILL $pid
wait $pid || true
step=$(newest killed)
code 0 train killed --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4 --model.quantize=nf4 --resume
code 0 train whole --trainer.max_steps=$((step + 4)) --checkpoint.every_n_steps=4 --model.quantize=nf4
same_file {killed,whole}/checkpoints/step-$((step + 4))/adapter/adapter_model.safetensors

# memory: 4.13 bits instead of 32 for each weight of a linear layer
parameters() { code 0 "$LEVIN" plan --model.init=gpt2 --data.path=text.txt --lora.rank=4 "$@" && sed -n 's/^ *parameters *\([0-9,]*\) .*/\1/p' out | tr -d ,; }
whole=$(parameters) nf4=$(parameters --model.quantize=nf4) int8=$(parameters --model.quantize=int8)
check [ $((whole - nf4)) -gt $((84934656 * 275 / 80)) -a $((whole - int8)) -gt $((84934656 * 2396 / 800)) ] # of 84,934,656 weights

# --- refused ---
refused() { # refused WORDS KEY...
    local words=$1
    shift
    code 2 "$LEVIN" train --run_dir=no --model.init=plain --data.path=text.txt "$@"
    one_error
    says "$words" err
}
refused "model.quantize nf4 is for weights that are not trained, and without lora.rank all are" --model.quantize=nf4
refused "lora.merge_checkpoints=true would merge adapters into weights that model.quantize int8 has rounded" --model.quantize=int8 \
    --lora.rank=4 --lora.merge_checkpoints
refused "and those of model.quantize nf4 are whole on each rank; set trainer.strategy to ddp" --model.quantize=nf4 --lora.rank=4 \
    --trainer.strategy=fsdp
refused "model.quantize" --model.quantize=nf3 --lora.rank=4
refused "levin quantizes to nf4 and int8" --model.quantize=fp4 --lora.rank=4
code 2 train nf4-32-true --resume --trainer.max_steps=8 --model.quantize=int8
one_error
says "model.quantize is int8 here but was nf4 in the run" err
code 2 "$LEVIN" train --run_dir=no --load_in_4bit=true
says "levin calls it --model.quantize" err
