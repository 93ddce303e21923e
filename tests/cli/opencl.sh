# trainer.accelerator opencl, on a CPU with an OpenCL driver if there is no GPU: training agrees with the cpu backend,
# generates, evaluates, resumes with the same bits, trains adapters; two ranks on the device give the bits of one, in
# fp16, too; kernels come from the cache, and a damaged one is recompiled.
# label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
export XDG_CACHE_HOME=$PWD/cache
make_text
sizes=(--data.kind=chars --data.path=text.txt --model.kind=nanogpt --model.n_layer=1 --model.n_head=2 --model.n_embd=16
    --model.block_size=16 --model.dropout=0.1 --trainer.batch_size=4 --trainer.micro_batch_size=2
    --trainer.deterministic=true --trainer.limit_val_batches=2 --checkpoint.every_n_steps=2 --checkpoint.top_k=9)
opencl_here || { echo "skipped: no device with OpenCL is here (tools/setup.sh --dev installs PoCL)"; exit 77; }
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=1 --run_dir=first

# --- against the cpu ---
for a in cpu opencl; do
    code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=$a --trainer.max_steps=4 --run_dir=$a
done
python3 - <<'P'
import json
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in ("cpu", "opencl"))
assert len(a) == len(b)
worst = max(abs(x[k] - y[k]) / abs(x[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x)
assert worst < 1e-5, worst
P

# --- a second run, with cached kernels, one of which is damaged ---
kernels=("$XDG_CACHE_HOME"/levin/kernels/*)
check test "${#kernels[@]}" -gt 5
printf 'damaged' | dd of="${kernels[0]}" bs=1 seek=$(($(stat -c %s "${kernels[0]}") - 9)) conv=notrunc 2>/dev/null
damaged=$(cksum <"${kernels[0]}")
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=2 --run_dir=parts
check test "$(cksum <"${kernels[0]}")" != "$damaged"
for f in model state/optimizer; do # saved during the next step, and while no step runs
    same_file opencl/checkpoints/step-2/$f.safetensors parts/checkpoints/step-2/$f.safetensors
done
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=4 --run_dir=parts --resume
same_weights opencl parts

# --- two ranks on the device ---
code 0 "$LEVIN" launch --nproc-per-node 2 -- train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=4 \
    --trainer.share_devices=true --run_dir=two
same_file two/checkpoints/step-4/model.safetensors opencl/checkpoints/step-4/model.safetensors

# --- fp16: close to fp32, the same bits and the same scale after resuming and on two ranks ---
half=("${sizes[@]}" --trainer.accelerator=opencl --trainer.precision=16-mixed)
code 0 "$LEVIN" train "${half[@]}" --trainer.max_steps=4 --run_dir=half
code 0 "$LEVIN" train "${half[@]}" --trainer.max_steps=2 --run_dir=half-parts
code 0 "$LEVIN" train "${half[@]}" --trainer.max_steps=4 --run_dir=half-parts --resume
same_weights half half-parts
code 0 "$LEVIN" launch --nproc-per-node 2 -- train "${half[@]}" --trainer.max_steps=4 --trainer.share_devices=true \
    --run_dir=half-two
same_file half-two/checkpoints/step-4/model.safetensors half/checkpoints/step-4/model.safetensors
code 0 "$LEVIN" launch --nproc-per-node 2 -- train "${half[@]}" --trainer.max_steps=4 --trainer.share_devices=true \
    --trainer.strategy=zero1 --run_dir=half-zero
same_file half-zero/checkpoints/step-4/model.safetensors half/checkpoints/step-4/model.safetensors
for strategy in zero1 zero2 fsdp; do # sums in buckets; gradients in shards; parameters too
    code 0 "$LEVIN" launch --nproc-per-node 2 -- train "${half[@]}" --trainer.deterministic=false --trainer.max_steps=4 \
        --trainer.share_devices=true --trainer.strategy=$strategy --run_dir=half-$strategy
done
same_weights half-zero1 half-zero2
same_weights half-zero1 half-fsdp
python3 - <<'P'
import json
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in ("opencl", "half"))
pairs = [(x[k], y[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x]
worst = max(abs(x - y) / abs(x) for x, y in pairs)
assert len(a) == len(b) and 0 < worst < 1e-2, worst
assert all(x["loss_scale"] == 65536 for x in b if "loss" in x), b
for run in "half", "half-parts", "half-two", "half-zero":
    kept = json.load(open(run + "/checkpoints/last/state/state.json"))["loss_scale"]
    assert kept == {"scale": 65536, "good_steps": 4, "skipped_steps": 0}, kept
P
code 2 "$LEVIN" train "${half[@]}" --trainer.accelerator=cpu --run_dir=no
one_error
says "trainer.precision 16-mixed requires a GPU" err
code 0 "$LEVIN" evaluate half --trainer.accelerator=cpu
# if a gradient is not finite, all ranks skip the step
code 0 "$LEVIN" train "${half[@]}" --trainer.max_steps=4 --optimizer.lr=1e6 --run_dir=half-skips
code 0 "$LEVIN" launch --nproc-per-node 2 -- train "${half[@]}" --trainer.max_steps=4 --optimizer.lr=1e6 \
    --trainer.share_devices=true --run_dir=half-skips-two
same_file half-skips-two/checkpoints/step-4/state/optimizer.safetensors half-skips/checkpoints/step-4/state/optimizer.safetensors
check grep -q '"skipped_steps": 3' half-skips-two/checkpoints/step-4/state/state.json
# values that are not finite with any loss scale end the run, after messages about skipped steps
code 1 "$LEVIN" train "${half[@]}" --trainer.max_steps=60 --optimizer.lr=1e6 --run_dir=half-wild
says "step 2 is skipped, because its gradient is not finite in fp16; loss scale reduced to 32768" err
says "although the loss was multiplied by only" err
says "try trainer.precision bf16-mixed or 32-true" err

# --- a rank on each half of the device ---
export LEVIN_OPENCL_PARTS=2
"$LEVIN" doctor --json >doctor.json 2>doctor.err
if [ "$(grep -o '"backend": *"opencl"' doctor.json | wc -l)" = 2 ]; then
    code 0 "$LEVIN" launch --nproc-per-node 2 -- train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=4 \
        --trainer.devices=1,0 --run_dir=halves
    same_file halves/checkpoints/step-4/model.safetensors opencl/checkpoints/step-4/model.safetensors
    code 2 "$LEVIN" launch --nproc-per-node 3 -- train "${sizes[@]}" --trainer.accelerator=opencl --run_dir=no
    says "and opencl has one device for both" err
fi
unset LEVIN_OPENCL_PARTS

# --- what is trained ---
for a in cpu opencl; do
    code 0 "$LEVIN" generate opencl --prompt="the" --max-new-tokens=12 --temperature=0 --trainer.accelerator=$a
    cp out text.$a
    code 0 "$LEVIN" evaluate opencl --trainer.accelerator=$a
    cp out score.$a
done
same_file text.cpu text.opencl
same_file score.cpu score.opencl

# --- refusals ---
code 1 env LEVIN_OPENCL_PLATFORM=nowhere "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --run_dir=no
one_error
says "LEVIN_OPENCL_PLATFORM is 'nowhere'" err
code 1 env OCL_ICD_VENDORS=/nowhere "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --run_dir=no
one_error
says "trainer.accelerator opencl found no device" err
