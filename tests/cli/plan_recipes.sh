# Every recipe, in all its sizes, has kernels for the GPUs that levin knows: NVIDIA's by CUDA, Intel's by OpenCL.
# A recipe need not fit their memory, but its need must be known.
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"
export LEVIN_CACHE=$PWD/cache
n=0
for recipe in "$LEVIN_SOURCE"/recipes/*.yaml; do
    for device in h100-80g max1100; do
        code 0 "$LEVIN" plan "$recipe" --device=$device --json --trainer.accelerator=trace
        json "d['device']['name'] == '$device' and d['device']['has_kernels'] and d['device']['needed_bytes'] > 0"
        n=$((n + 1))
    done
done
check [ $n -gt 40 ]

# heads of 256 channels: pythia-1b's
code 0 "$LEVIN" plan "$LEVIN_SOURCE/recipes/pythia-1b.yaml" --device=h100-80g --trainer.accelerator=trace
says "it fits." out
silent_about "cannot run there" out
