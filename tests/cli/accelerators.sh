# trainer.accelerator: the reference backend trains, saves, resumes and agrees with the cpu; trace only plans; an unknown word is
# refused with the list.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
sizes=(--data.kind=chars --data.path=text.txt --model.kind=nanogpt --model.n_layer=1 --model.n_head=2 --model.n_embd=12
    --model.block_size=8 --model.dropout=0.1 --trainer.batch_size=4 --trainer.micro_batch_size=1 --trainer.deterministic=true
    --trainer.limit_val_batches=2 --checkpoint.every_n_steps=2)

# --- the backend `reference` ---
for a in cpu reference; do
    code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=$a --trainer.max_steps=4 --run_dir=$a
done
python3 - <<'P'
import json
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in ("cpu", "reference"))
assert len(a) == len(b)
worst = max(abs(x[k] - y[k]) / abs(x[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x)
assert worst < 1e-5, worst
P
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=reference --trainer.max_steps=2 --run_dir=parts
code 0 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=reference --trainer.max_steps=4 --run_dir=parts --resume
same_weights reference parts
code 0 "$LEVIN" generate reference --prompt="the" --max-new-tokens=12
code 0 "$LEVIN" export reference exported
code 2 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=reference --trainer.precision=bf16-mixed --run_dir=no
one_error
says "trainer.accelerator reference trains in 32-true" err
says "set trainer.precision=32-true" err

# --- the backend `trace` ---
code 0 "$LEVIN" plan "${sizes[@]}" --trainer.accelerator=trace --json
json 'd["fits"] is None and [x["operation"] for x in d["launches"]].count("accumulate") == 3'
json 'd["launches"][0]["micro_batch"] == 0 and d["launches"][-1]["micro_batch"] is None'
json 'all("+" in x["writes"] for x in d["launches"])'
code 0 "$LEVIN" plan "${sizes[@]}" --trainer.accelerator=trace
says "launches of a step on trace" out
for command in train bench; do
    code 2 "$LEVIN" $command "${sizes[@]}" --trainer.accelerator=trace
    one_error
    says "trainer.accelerator trace computes nothing" err
done
code 2 "$LEVIN" plan "${sizes[@]}" --trainer.accelerator=trace --ranks=2
says "leave one of them out" err

code 2 "$LEVIN" train "${sizes[@]}" --trainer.accelerator=abacus
one_error
says "trainer.accelerator must be auto, gpu, xpu, cpu, cuda, opencl, reference or trace, got 'abacus'" err

# --- a GPU that this machine lacks ---
code 2 "$LEVIN" train "${sizes[@]}" --trainer.devices=0,1 --run_dir=no
one_error
says "trainer.devices lists devices (0,1), but trainer.accelerator cpu is the CPU" err
code 2 "$LEVIN" train "${sizes[@]}" --trainer.devices=2 --run_dir=no
one_error
says "as \`levin launch -n 2 -- train ...\` does" err
code 1 env CUDA_VISIBLE_DEVICES= "$LEVIN" train "${sizes[@]}" --trainer.accelerator=cuda
one_error
says "trainer.accelerator cuda" err
# no GPU of any kind: each backend says why
code 1 env CUDA_VISIBLE_DEVICES= OCL_ICD_VENDORS=/nowhere "$LEVIN" train "${sizes[@]}" --trainer.accelerator=gpu --run_dir=no
one_error
says "trainer.accelerator gpu found no GPU; set it to cpu or auto; cuda: " err
says "; opencl: " err
code 1 env CUDA_VISIBLE_DEVICES= OCL_ICD_VENDORS=/nowhere "$LEVIN" train "${sizes[@]}" --trainer.accelerator=xpu --run_dir=no
one_error
says "trainer.accelerator xpu found no Intel GPU; set it to cpu or auto; cuda: " err
