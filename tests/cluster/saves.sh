# Checkpoints of models in shards: all ranks write them, at once, with the bytes that one rank writes; whatever happens to a
# rank meanwhile, a run continues from the last complete one.
. "$LEVIN_SOURCE/tests/cli/common.bash"
. "$LEVIN_SOURCE/tests/cluster/tcp.bash"
trap 'kill -TERM $(jobs -p) 2>/dev/null || true' EXIT # after a failure
make_text
keys=(--data.path=text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=80 --model.block_size=16 --trainer.batch_size=12
    --trainer.threads=1 --trainer.micro_batch_size=1 --trainer.deterministic=true --trainer.val_check_interval=0)
launch() { # N RUN [keys]
    local n=$1 run=$2
    shift 2
    code 0 "$LEVIN" launch --launcher=levin -n "$n" -- train "${keys[@]}" --run_dir="$run" "$@"
}
# All files but those that name the number of ranks, and the manifest's checksums of files of tensors.
sums() { # RUN [step-N]
    (cd "$1/checkpoints/${2:-last}" && find . -type f ! -path './state/*.yaml' ! -path './state/*.json' -print0 | sort -z | xargs -0 sha256sum &&
        python3 -c 'import json; print(*[f for f in json.load(open("state/manifest.json"))["manifest"]["files"] if "tensors" in f], sep="\n")')
}
same_sums() { # RUN RUN [step-N]
    diff <(sums "$1" "${3:-last}") <(sums "$2" "${3:-last}") || fail "the files of $1 and $2 differ"
}
no_leftovers() { # RUN
    [ "$(cd "$1" && find . -name '.?*' ! -name .lock)" = "" ] || fail "files of killed processes are left in $1"
}

# --- the same files from every number of ranks and strategy ---
short=(--trainer.max_steps=2)
while read -r label more; do
    read -ra more <<<"$more"
    code 0 "$LEVIN" train "${keys[@]}" "${short[@]}" "${more[@]}" --run_dir="$label"
    for ranks in "2 zero1" "2 zero2" "2 fsdp" "3 fsdp" "4 zero1" "4 fsdp" "4 fsdp --trainer.fsdp_size=2"; do
        read -r n strategy size <<<"$ranks"
        rm -rf many
        launch "$n" many "${short[@]}" "${more[@]}" --trainer.strategy="$strategy" $size
        same_sums "$label" many
    done
done <<'E2'
plain --model.kind=gpt2 --checkpoint.max_shard_size=100KB
llama --model.kind=llama --checkpoint.max_shard_size=100KB
bf16 --model.kind=neox --trainer.precision=bf16-true --optimizer.state=bf16
E2
check [ "$(ls many/checkpoints/last | grep -c '^model-.*safetensors$')" = 0 ]
check [ "$(ls plain/checkpoints/last | grep -c '^model-.*safetensors$')" -gt 5 ]
# threads write most of it while the ranks compute the next step, whose update waits for them: also on a slow disk a checkpoint has
# the bytes of its own step
each=(--trainer.max_steps=4 --checkpoint.every_n_steps=1 --checkpoint.top_k=9 --optimizer.lr=0.01)
for more in "gpt2 zero1" "gpt2 fsdp" "llama zero2" "llama fsdp"; do
    read -r kind strategy <<<"$more"
    rm -rf whole many writes.*
    code 0 "$LEVIN" train "${keys[@]}" "${each[@]}" --model.kind="$kind" --run_dir=whole
    LD_PRELOAD=$LEVIN_BUILD/tests/double/libwrites.so WRITES_TO=$PWD/writes launch 2 many "${each[@]}" --model.kind="$kind" \
        --trainer.strategy="$strategy"
    for step in 1 2 3 4; do same_sums whole many step-$step; done
    check [ "$(cat writes.* | awk '{ n[$1] += $2 } END { print (n["thread"] > 1.5 * n["main"]) }')" = 1 ] # of llama fsdp gathers a third
done
# each rank reads its shards of a pretrained model, with more rows than the file has, too
for from in plain llama; do
    for more in "" --model.vocab_size=200; do
        rm -rf tuned many
        own=(--data.path=text.txt "${short[@]}" --model.init=$from/checkpoints/last --model.block_size=16 --trainer.batch_size=12
            --trainer.threads=1 --trainer.micro_batch_size=1 --trainer.deterministic=true --trainer.val_check_interval=0 $more)
        code 0 "$LEVIN" train "${own[@]}" --run_dir=tuned
        code 0 "$LEVIN" launch --launcher=levin -n 3 -- train "${own[@]}" --trainer.strategy=fsdp --run_dir=many
        same_sums tuned many
    done
done
# adapters, alone and merged
keys+=(--lora.rank=4 --model.init=llama/checkpoints/last)
for i in "${!keys[@]}"; do [[ ${keys[i]} != --model.n_* ]] || unset "keys[i]"; done
for merge in false true; do
    code 0 "$LEVIN" train "${keys[@]}" "${short[@]}" --run_dir=adapted-$merge --lora.merge_checkpoints=$merge
    rm -rf many
    launch 3 many "${short[@]}" --lora.merge_checkpoints=$merge --trainer.strategy=fsdp
    same_sums adapted-$merge many
done

# --- a rank that cannot write: one sentence names it, and the run continues with its earlier checkpoints ---
keys=(--data.path=text.txt --model.kind=llama --model.n_layer=2 --model.n_head=2 --model.n_embd=80 --model.block_size=16
    --trainer.batch_size=12 --trainer.threads=1 --trainer.micro_batch_size=1 --trainer.deterministic=true
    --trainer.val_check_interval=0 --checkpoint.every_n_steps=2)
cat >limited <<'L'
#!/bin/bash
[ "$1" != 1 ] || ulimit -f 32
exec "${@:2}"
L
chmod +x limited
launch 2 run --trainer.max_steps=2 --trainer.strategy=fsdp
folder_listing run/checkpoints >before
for strategy in fsdp zero1; do # the first fails before the thread begins, the other in it
    place=./limited code 1 apart 2 "$LEVIN" train "${keys[@]}" --run_dir=run --resume --trainer.max_steps=6 --trainer.strategy=$strategy
    check [ "$(grep -c "the checkpoint of step [0-9]* could not be saved: rank 1 on .*: cannot write '.*/run/checkpoints/.*': File too large; the run continues" out)" -ge 2 ]
    check [ "$(grep -c 'error: training has finished, but its last checkpoint (step 6) could not be saved' out)" = 1 ]
    folder_listing run/checkpoints | diff before - || fail "earlier checkpoints were changed"
done
launch 3 run --resume --trainer.max_steps=6 --trainer.strategy=zero2
code 0 "$LEVIN" train "${keys[@]}" --trainer.max_steps=6 --run_dir=one
same_run one run

# --- ranks are killed while they save ---
kills=20
newest() { readlink killed/checkpoints/last || true; }
for i in $(seq $kills); do
    n=$((RANDOM % 3 + 2)) before=$(newest)
    strategies=(zero1 zero2 fsdp)
    "$LEVIN" launch --launcher=levin -n $n -- train "${keys[@]}" --run_dir=killed --resume --trainer.max_steps=1000000 \
        --checkpoint.every_n_steps=1 --checkpoint.top_k=2 --trainer.strategy=${strategies[RANDOM % 3]} >out 2>err &
    pid=$!
    # Two of three kills come after a new checkpoint, so that the run makes progress.
    while kill -0 $pid 2>/dev/null && { [ ! -d killed/checkpoints ] || { [ $((i % 3)) != 0 ] && [ "$(newest)" = "$before" ]; }; }; do
        sleep 0.002
    done
    sleep "0.0$((RANDOM % 90 + 10))"
    until ranks=($(pgrep -P $pid -x levin)); do kill -0 $pid || fail "the run ended before kill $i: $(cat err)"; done
    kill -KILL "${ranks[RANDOM % ${#ranks[@]}]}" || true
    ended
    check [ "$got" != 0 ]
done
step=$(newest)
step=${step#step-}
echo "$kills kills, $step steps"
check [ "$step" -ge 10 ]
launch 2 killed --resume --trainer.max_steps=$((step + 2)) --trainer.strategy=fsdp
silent_about "skipped" err
no_leftovers killed
code 0 "$LEVIN" train "${keys[@]}" --trainer.max_steps=$((step + 2)) --run_dir=alone
same_run alone killed

# --- a host that has its own folder; a disk that is full ---
if ! unshare -rm bash -c 'mount -t tmpfs none /mnt' 2>/dev/null; then
    echo "the part with file systems is left out: none can be mounted here"
    exit 0
fi
mkdir own disk
cat >apart_folder <<'L'
#!/bin/bash
[ "$1" = 1 ] || exec "${@:2}"
exec unshare -rm bash -c 'mount -t tmpfs none own && mkdir -p own/run/checkpoints && "$@" && [ -z "$(ls -A own/run/checkpoints)" ]' _ "${@:2}"
L
chmod +x apart_folder
place=./apart_folder code 0 apart 2 "$LEVIN" train "${keys[@]}" --run_dir=own/run --trainer.max_steps=4 --trainer.strategy=fsdp
place=./apart_folder code 0 apart 2 "$LEVIN" train "${keys[@]}" --run_dir=own/run --trainer.max_steps=6 --trainer.strategy=zero2 --resume
same_run one own/run
cat >full.sh <<'F'
. "$LEVIN_SOURCE/tests/cli/common.bash"
trap 'kill -TERM $(jobs -p) 2>/dev/null || true' EXIT
mount -t tmpfs -o size=8m none disk
"$LEVIN" launch --launcher=levin -n 2 -- train "$@" --run_dir=disk/run --trainer.max_steps=1000000 --checkpoint.top_k=1 \
    --trainer.strategy=fsdp >out 2>err &
pid=$!
soon [ -L disk/run/checkpoints/last ]
head -c 9M /dev/zero >disk/filler 2>/dev/null || true
soon grep -q 'the checkpoint of step [0-9]* could not be saved: .*cannot .*; the run continues' err
kept=$(readlink disk/run/checkpoints/last)
rm disk/filler
until [ "$(readlink disk/run/checkpoints/last)" != "$kept" ]; do kill -0 $pid || fail "the run ended: $(cat err)"; sleep 0.01; done
kill -TERM $pid
ended
check [ "$got" = 75 ]
at=$(readlink disk/run/checkpoints/last)
end=$(((${at#step-} / 2 + 1) * 2))
code 0 "$LEVIN" launch --launcher=levin -n 3 -- train "$@" --run_dir=disk/run --resume --trainer.max_steps=$end --trainer.strategy=zero1
code 0 "$LEVIN" train "$@" --run_dir=other --trainer.max_steps=$end
same_weights other disk/run
F
unshare -rm bash -eu -o pipefail full.sh "${keys[@]}"
