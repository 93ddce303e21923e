# Ranks whose machines differ: other contents of the same token shards, ranks that are started by variables, each in its own folder.
# And machines that variables number, but that nothing connects: each trains by itself, with a warning.
. "$LEVIN_SOURCE/tests/cli/common.bash"
. "$LEVIN_SOURCE/tests/cluster/tcp.bash"
here=$(hostname)
tiny=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --model.vocab_size=300 --trainer.batch_size=4
    --trainer.max_steps=2 --trainer.threads=1 --trainer.rank_timeout=10)
cat >in_folder <<'E2'
#!/bin/bash
cd "$1.d" && shift && exec "$@"
E2
chmod +x in_folder
place=$PWD/in_folder
same_error() { # SENTENCE, KEYS: rank 0 prints it, and all ranks end with 2
    code 2 apart 2 "$LEVIN" train "${@:2}" "${tiny[@]}" --run_dir=run
    cat out.[01] >err
    one_error
    says "$1" err
    check [ ! -e 0.d/run/checkpoints ]
}

# --- shards of the same names and sizes with other tokens, small ones and ones of which blocks are compared; also as part of a mix ---
mkdir 0.d 1.d
python3 - <<'P'
import array, os
for name, n in (("small", 700), ("large", 3000000)):
    for k in range(3):
        ids = array.array("H", [(i * i + k) % 251 for i in range(n)])
        for rank in (0, 1):
            os.makedirs(f"{rank}.d/{name}", exist_ok=True)
            if rank and k == 2:
                ids = array.array("H", [x ^ 1 for x in ids]) if n > 1000 else ids[:600] + ids[601:] + ids[:1]
            ids.tofile(open(f"{rank}.d/{name}/train-{k:05d}.bin", "wb"))
        if name == "small":
            ids[:50].tofile(open(f"0.d/plain.bin", "wb"))
            ids[:50].tofile(open(f"1.d/plain.bin", "wb"))
P
for name in small large; do
    same_error "rank 1 on $here reads other data than rank 0 on $here; give all hosts the same files" --data.path=$name
done
same_error "rank 1 on $here reads other data than rank 0" --data.mix='[{path: plain.bin, weight: 1}, {path: small, weight: 1}]'
rm -r 1.d/small 1.d/large
cp -r 0.d/small 0.d/large 1.d
for name in small large; do code 0 apart 2 "$LEVIN" train --data.path=$name "${tiny[@]}" --run_dir=run-$name; done

# a shard that is damaged on one machine only: with data.skip_bad_shards that machine skips it
printf '\377\377' | dd of=1.d/small/train-00001.bin bs=1 seek=100 conv=notrunc status=none
skip=("$LEVIN" train --data.path=small "${tiny[@]}" --trainer.max_steps=60 --data.sampling=sequential --data.skip_bad_shards=true)
code 0 apart 2 "${skip[@]}" --run_dir=run-skip
if unshare -ru hostname other 2>/dev/null; then # a host with another name reports the shard itself
    sed 's/^cd/if [ "$1" = 1 ]; then exec unshare -ru bash -c '\''hostname other; cd 1.d; shift; exec "$@"'\'' _ "$@"; fi; cd/' in_folder >on_hosts
    chmod +x on_hosts
    place=$PWD/on_hosts code 0 apart 2 "${skip[@]}" --run_dir=run-hosts
    says "warning: rank 1 on other: data.skip_bad_shards skips 'small/train-00001.bin' with its 700 tokens" out
fi
cp 0.d/small/train-00001.bin 1.d/small

# --- one of several machines, by variables that start no rank; no warning with a launcher that connects them, or with one machine ---
cd 0.d
alone() { # WARNING, VARIABLE=VALUE..., COMMAND
    code 0 env "${@:2}" train --data.path=small "${tiny[@]}" --run_dir=alone --overwrite
    says "warning: $1 runs by itself: start \`levin launch --nodes 2 --node-rank 1 --nproc-per-node" err
}
one="a run of one rank" here="ranks on this machine alone"
launch=("$LEVIN" launch --launcher=levin -n 2 --)
alone "$one: NODE_RANK is 1 of NNODES 2, but nothing connects them, so each" NODE_RANK=1 NNODES=2 MASTER_ADDR=127.0.0.1 "$LEVIN"
alone "$here: NODE_RANK is 1 of NNODES 2, but nothing connects them, so each" NODE_RANK=1 NNODES=2 MASTER_ADDR=127.0.0.1 "${launch[@]}"
for names in "PET_NODE_RANK PET_NNODES" "SKYPILOT_NODE_RANK SKYPILOT_NUM_NODES" \
    "AWS_BATCH_JOB_NODE_INDEX AWS_BATCH_JOB_NUM_NODES"; do
    read -r index number <<<"$names"
    alone "$one: $index is 1 of $number 2, but nothing connects them, so each" $index=1 $number=2 "$LEVIN"
    alone "$here: $index is 1 of $number 2, but nothing connects them, so each" $index=1 $number=2 "${launch[@]}"
done
code 0 env NODE_RANK=0 NNODES=1 "$LEVIN" train --data.path=small "${tiny[@]}" --run_dir=alone --overwrite
silent_about "by itself" err
place= NODE_RANK=1 NNODES=2 code 0 apart 2 "$LEVIN" train --data.path="$PWD/small" "${tiny[@]}" --run_dir="$PWD/two"
silent_about "by itself" out
