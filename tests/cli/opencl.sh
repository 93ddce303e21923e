# trainer.accelerator opencl, on a CPU with OpenCL where there is no GPU: training agrees with the cpu, generates, scores,
# goes on with the same bits, adapts; two ranks on the device give the bits of one; kernels come from the cache, and a
# damaged one is compiled again.
. "$LEVIN_SOURCE/tests/cli/common.bash"
export XDG_CACHE_HOME=$PWD/cache
make_text
sizes=(--data.kind=chars --data.path=text.txt --model.kind=nanogpt --model.n_layer=1 --model.n_head=2 --model.n_embd=16
    --model.block_size=16 --model.dropout=0.1 --trainer.batch_size=4 --trainer.micro_batch_size=2
    --trainer.deterministic=true --trainer.limit_val_batches=2 --checkpoint.every_n_steps=2 --checkpoint.top_k=9)
if ! "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=1 --run_dir=first >out 2>err; then
    grep -qE "found no device|which is not here" err || fail "$(cat err)"
    echo "skipped: no device with OpenCL is here (tools/setup.sh --dev installs PoCL)"
    exit 77
fi

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

# --- again, with the kernels of the cache, of which one is damaged ---
kernels=("$XDG_CACHE_HOME"/levin/kernels/*)
check test "${#kernels[@]}" -gt 5
printf 'damaged' | dd of="${kernels[0]}" bs=1 seek=$(($(stat -c %s "${kernels[0]}") - 9)) conv=notrunc 2>/dev/null
damaged=$(cksum <"${kernels[0]}")
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=2 --run_dir=parts
check test "$(cksum <"${kernels[0]}")" != "$damaged"
for f in model state/optimizer; do # saved beside the next step, and with nothing beside it
    same_file opencl/checkpoints/step-2/$f.safetensors parts/checkpoints/step-2/$f.safetensors
done
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=4 --run_dir=parts --resume
same_weights opencl parts

# --- two ranks on the device ---
code 0 "$LEVIN" launch --nproc-per-node 2 -- train "${sizes[@]}" --trainer.accelerator=opencl --trainer.max_steps=4 \
    --trainer.share_devices=true --run_dir=two
same_file two/checkpoints/step-4/model.safetensors opencl/checkpoints/step-4/model.safetensors

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

# --- what cannot be ---
code 1 env LEVIN_OPENCL_PLATFORM=nowhere "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --run_dir=no
one_error
says "LEVIN_OPENCL_PLATFORM is 'nowhere'" err
code 1 env OCL_ICD_VENDORS=/nowhere "$LEVIN" train "${sizes[@]}" --trainer.accelerator=opencl --run_dir=no
one_error
says "trainer.accelerator opencl found no device" err
