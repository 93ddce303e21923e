# label: long
# More training on an OpenCL device (see opencl.sh): adapters, frozen parameters, recomputed activations, many
# micro-batches, bf16; the losses of each are those of the cpu backend.
. "$LEVIN_SOURCE/tests/cli/common.bash"
export XDG_CACHE_HOME=$PWD/cache
make_text
sizes=(--data.kind=chars --data.path=text.txt --model.kind=nanogpt --model.n_layer=2 --model.n_head=2 --model.n_embd=16
    --model.block_size=16 --trainer.batch_size=4 --trainer.max_steps=3 --trainer.limit_val_batches=2)
opencl_here || { echo "skipped: no device with OpenCL is here (tools/setup.sh --dev installs PoCL)"; exit 77; }
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --run_dir=first
both() { # both NAME MOST OPTIONS: losses on the cpu and on the device are no further apart than MOST of them
    local name=$1 most=$2
    shift 2
    for a in cpu opencl; do
        code 0 "$LEVIN" train "${sizes[@]}" "$@" --trainer.accelerator=$a --run_dir="$name.$a"
    done
    compare "$name" "$most"
}
compare() {
    python3 - "$1" "$2" <<'P'
import json, sys
a, b = ([json.loads(x) for x in open(f"{sys.argv[1]}.{d}/metrics.jsonl")] for d in ("cpu", "opencl"))
pairs = [(x[k], y[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x]
worst = max(abs(x - y) / abs(x) for x, y in pairs)
assert len(a) == len(b) and len(pairs) > 5 and worst < float(sys.argv[2]), (sys.argv[1], worst)
P
}

both recompute 1e-5 --trainer.recompute=blocks --model.dropout=0.1
both cheap 1e-5 --trainer.recompute=cheap
both frozen 1e-5 --model.freeze='wte,wpe,h.0'

both adapters 1e-5 --model.init=first --lora.rank=4 --lora.alpha=8
both many 1e-5 --trainer.batch_size=24 --trainer.micro_batch_size=1
both mixed 2e-2 --trainer.precision=bf16-mixed
both true 5e-2 --trainer.precision=bf16-true
# fp16 and bf16 are types in memory: no cl_khr_fp16 is needed, which PoCL on most processors does not have
code 0 "$LEVIN" train "${sizes[@]}" --trainer.precision=16-mixed --trainer.accelerator=opencl --run_dir=half.opencl
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cpu --run_dir=half.cpu
compare half 2e-2

# frozen parameters do not change on the device either; a checkpoint of adapters is as small as these
python3 - <<'P'
import json, struct
def read(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    return {k: data[slice(*v["data_offsets"])] for k, v in head.items() if k != "__metadata__"}
a, b = (read(f"frozen.{d}/checkpoints/last/model.safetensors") for d in ("cpu", "opencl"))
same = {k for k in a if a[k] == b[k]}
assert any(".h.0." in k for k in same) and not any(".h.1.attn.c_attn.weight" in k for k in same), same
P
