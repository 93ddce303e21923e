# The memory that the plan predicts, compared with real runs: the peak resident size of a run minus that of a tiny one,
# whose size is the constant part, must equal the difference of their plans.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
! grep -q __asan_init "$LEVIN" || { echo "skipped: a sanitizer has its own allocator" && exit 77; }
make_text
small=(--model.n_layer=1 --model.n_head=1 --model.n_embd=16 --model.block_size=16)
large=(--model.n_layer=6 --model.n_head=6 --model.n_embd=384 --model.block_size=256)
common=(--data.path=text.txt --trainer.batch_size=8 --trainer.micro_batch_size=4 --trainer.max_steps=2
    --trainer.limit_val_batches=1 --trainer.val_check_interval=2 --trainer.threads=2)
compare() { # compare NAME RANKS [keys]
    local name=$1 n=$2 size start=() planned=() took=()
    shift 2
    [ "$n" = 1 ] || start=(ranks openmpi "$n")
    for size in small large; do
        local -n keys=$size
        code 0 "$LEVIN" plan --json "${keys[@]}" "${common[@]}" "$@" $([ "$n" = 1 ] || echo "--ranks=$n")
        planned+=("$(python3 -c 'import json; print(json.load(open("out"))["memory"]["total"])')")
        code 0 "${start[@]}" "$LEVIN" train --run_dir=$name-$size --json "${keys[@]}" "${common[@]}" "$@"
        took+=("$(value peak_bytes)")
    done
    python3 - $name "${planned[@]}" "${took[@]}" <<'P'
import sys
planned, took = int(sys.argv[3]) - int(sys.argv[2]), int(sys.argv[5]) - int(sys.argv[4])
print("%s: planned %.1f MiB, took %.1f MiB" % (sys.argv[1], planned / 2**20, took / 2**20))
assert planned > 100 << 20, "too small to tell anything"
assert abs(planned - took) <= max(planned // 10, 32 << 20)
P
}
compare fp32 1 --trainer.recompute=none
compare blocks 1 --trainer.recompute=blocks
compare mixed 1 --trainer.precision=bf16-mixed --optimizer.state=bf16
compare order 1 --trainer.deterministic=true
# adapters on a base in packed blocks: quantized when it is loaded, or as its file has them
for size in small large; do
    model=(--model.kind=llama --model.n_layer=1 --model.n_head=1 --model.n_embd=32 --model.intermediate_size=32 --model.block_size=16)
    [ $size = small ] || model=(--model.kind=llama --model.n_layer=6 --model.n_head=8 --model.n_embd=1024 --model.intermediate_size=4096
        --model.block_size=256)
    code 0 "$LEVIN" train --run_dir=base-$size "${model[@]}" --data.path=text.txt --trainer.batch_size=1 --trainer.max_steps=1 \
        --trainer.limit_val_batches=0
    code 0 "$LEVIN" export base-$size plain-$size
    code 0 "$LEVIN" export plain-$size $size.gguf --type=q8_0
done
small=(--model.init=plain-small) large=(--model.init=plain-large)
adapters=(--lora.rank=4 --lora.targets=all-linear --trainer.precision=bf16-true --trainer.recompute=blocks)
compare nf4 1 "${adapters[@]}" --model.quantize=nf4
small=(--model.init=small.gguf --data.kind=chars) large=(--model.init=large.gguf --data.kind=chars)
compare gguf 1 "${adapters[@]}"
# joining the other ranks briefly takes more memory than a tiny run, and less than a small one
small=(--model.n_layer=2 --model.n_head=4 --model.n_embd=256 --model.block_size=256)
large=(--model.n_layer=6 --model.n_head=6 --model.n_embd=384 --model.block_size=256)
! mpi_here openmpi || compare zero1 2 --trainer.strategy=zero1
! mpi_here openmpi || compare zero2 2 --trainer.strategy=zero2
# with an embedding that is much larger than everything else, which is saved without a copy
! mpi_here openmpi || compare fsdp 2 --trainer.strategy=fsdp --model.vocab_size=60000
