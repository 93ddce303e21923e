# Ranks whose machines differ: other contents of the same token shards. Ranks are started by variables, each in its own folder.
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
