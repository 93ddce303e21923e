# Settings that keep the bits of a training: with trainer.deterministic the number of threads, instruction sets and
# everything except the micro-batch; without it recomputation. Other settings change only the rounding.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
# Sizes that are no multiples of vectors or tiles, several heads, biases, dropout.
sizes=(--model.kind=mingpt --model.n_layer=2 --model.n_head=3 --model.n_embd=39 --model.block_size=37 --model.dropout=0.1
    --trainer.batch_size=12 --trainer.max_steps=5 --trainer.val_check_interval=5 --optimizer.lr=1e-2)
rounding=1e-5 # difference after five steps with another order of sums
near() { # near RUN RUN LIMIT: losses, norms and validations, relative
    python3 - "$@" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in sys.argv[1:3])
assert len(a) == len(b) == 6
worst = max(abs(x[k] - y[k]) / abs(x[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x)
print(*sys.argv[1:3], "differ by", worst)
assert worst < float(sys.argv[3])
P
}
instructions() { [[ $(LEVIN_ISA=$1 "$LEVIN" doctor --json --measure=false 2>/dev/null) == *"\"instructions\":\"$1\""* ]]; }

# --- deterministic: threads, instruction sets, recomputing ---
code 0 train d "${sizes[@]}" --trainer.deterministic=true --trainer.micro_batch_size=3 --trainer.threads=1
for threads in 2 4 8; do
    code 0 train d$threads "${sizes[@]}" --trainer.deterministic=true --trainer.micro_batch_size=3 --trainer.threads=$threads
    same_run d d$threads
done
code 0 train dr "${sizes[@]}" --trainer.deterministic=true --trainer.micro_batch_size=3 --trainer.threads=2 \
    --trainer.recompute=cheap
same_run d dr
# bf16: the same bits with every instruction set
half=(--trainer.precision=bf16-mixed --optimizer.state=bf16 --trainer.deterministic=true --trainer.micro_batch_size=3)
code 0 train h "${sizes[@]}" "${half[@]}" --trainer.threads=1
code 0 train h4 "${sizes[@]}" "${half[@]}" --trainer.threads=4
same_run h h4
code 0 train hr "${sizes[@]}" "${half[@]}" --trainer.recompute=cheap
same_run h hr
code 0 train hp "${sizes[@]/max_steps=5/max_steps=3}" "${half[@]}" # stopped in between
code 0 train hp "${sizes[@]}" "${half[@]}" --resume
cmp h/checkpoints/last/model.safetensors hp/checkpoints/last/model.safetensors
code 1 train hp "${sizes[@]/max_steps=5/max_steps=7}" "${half[@]/state=bf16/state=fp32}" --resume
says "set optimizer.state back to its earlier value" err
# weights and gradients in bf16 too: stochastic rounding does not depend on any of these settings either
true=("${half[@]/bf16-mixed/bf16-true}")
code 0 train t "${sizes[@]}" "${true[@]}" --trainer.threads=1
code 0 train t3 "${sizes[@]}" "${true[@]}" --trainer.threads=3 --trainer.recompute=cheap
same_run t t3
code 0 train tp "${sizes[@]/max_steps=5/max_steps=3}" "${true[@]}" --trainer.threads=2
code 0 train tp "${sizes[@]}" "${true[@]}" --trainer.threads=4 --resume
cmp t/checkpoints/last/model.safetensors tp/checkpoints/last/model.safetensors
if instructions avx512; then
    for isa in avx2 avx512; do LEVIN_ISA=$isa code 0 train t-$isa "${sizes[@]}" "${true[@]}"; done
    same_run t-avx2 t-avx512
fi
if instructions avx512_bf16; then # its bf16 matrix multiplication differs from that of AMX
    LEVIN_ISA=avx512_bf16 code 0 train hb "${sizes[@]}" "${half[@]}" --trainer.threads=1
    LEVIN_ISA=avx512_bf16 code 0 train hb4 "${sizes[@]}" "${half[@]}" --trainer.threads=4
    same_run hb hb4
    if instructions amx; then
        LEVIN_ISA=amx code 0 train ha "${sizes[@]}" "${half[@]}"
        near ha hb 1e-3
    fi
fi
for isa in avx2 avx512 avx512_bf16 amx; do
    instructions $isa || { echo "no $isa here"; continue; }
    for threads in 1 2 4 8; do
        LEVIN_ISA=$isa code 0 train $isa-$threads "${sizes[@]}" --trainer.deterministic=true --trainer.micro_batch_size=3 \
            --trainer.threads=$threads
        same_run $isa-1 $isa-$threads
    done
done
# vectors always have sixteen lanes; the matrix unit sums in another order
! instructions avx512 || same_run avx2-1 avx512-1
! instructions avx512_bf16 || same_run avx512-1 avx512_bf16-1 # in fp32
! instructions amx || same_run d amx-1
! instructions amx || near d avx2-1 $rounding
LEVIN_ISA=generic code 0 train generic "${sizes[@]}" --trainer.deterministic=true --trainer.micro_batch_size=3
near d generic $rounding
# the comparison detects a difference
code 0 train d6 "${sizes[@]}" --trainer.deterministic=true --trainer.micro_batch_size=6
if cmp -s d/checkpoints/last/model.safetensors d6/checkpoints/last/model.safetensors; then
    fail "another micro-batch gives the same bits: this test sees nothing"
fi
# in deterministic mode the micro-batch does not depend on the machine, and cannot change during a run
code 0 train auto1 "${sizes[@]}" --trainer.deterministic=true --trainer.threads=1
code 0 train auto8 "${sizes[@]}" --trainer.deterministic=true --trainer.threads=8
same_run auto1 auto8
says "micro_batch_size: 1" auto1/settings.yaml
code 2 train auto1 "${sizes[@]/max_steps=5/max_steps=6}" --trainer.deterministic=true --trainer.micro_batch_size=2 --resume
says "trainer.micro_batch_size is 2 here but was 1" err

# --- not deterministic: the same bits in every run and with recomputing; dropout masks do not depend on the split ---
code 0 train m12 "${sizes[@]}" --trainer.micro_batch_size=12
code 0 train m12again "${sizes[@]}" --trainer.micro_batch_size=12
same_run m12 m12again
code 0 train m12r "${sizes[@]}" --trainer.micro_batch_size=12 --trainer.recompute=none
code 0 train m12c "${sizes[@]}" --trainer.micro_batch_size=12 --trainer.recompute=cheap
same_run m12r m12c
for micro in 6 3 1; do
    code 0 train m$micro "${sizes[@]}" --trainer.micro_batch_size=$micro
    near m12 m$micro $rounding
    code 0 train m${micro}r "${sizes[@]}" --trainer.micro_batch_size=$micro --trainer.recompute=cheap
    same_run m$micro m${micro}r
done
near m12 d $rounding
# dropout is active: without it the losses differ
code 0 train dry "${sizes[@]/dropout=0.1/dropout=0}" --trainer.micro_batch_size=12
if near m12 dry $rounding 2>/dev/null; then fail "dropout does nothing"; fi
