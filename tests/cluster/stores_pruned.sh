# A run makes checkpoints faster than its store receives them, and keeps only the newest one on this machine. If it is killed at any
# moment, the store has a complete checkpoint where its `last` points, and the run resumes from it on another machine.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
export LEVIN_JOB_ID=pruned # the same job: it takes over the lease of its killed process immediately
s3_server
cat "$LEVIN_SOURCE"/src/base/*.c >text.txt
url=s3://bucket/run there=s3root/bucket/run/checkpoints
train=("$LEVIN" train text.txt --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.batch_size=2
    --checkpoint.every_n_steps=1 --checkpoint.top_k=0 --trainer.val_check_interval=0 --run_dir=$url --quiet)
from=0
for round in 1 2 3 4; do
    timeout -k 3 120 "${train[@]}" --trainer.max_steps=1000000 --resume >out 2>err &
    pid=$!
    moved() { [ -s $there/last ] && [ "$(cat $there/last)" != "$last" ]; }
    last=$(cat $there/last 2>/dev/null || true)
    soon moved
    sleep 0.$((round * 3 % 10))
    pkill -9 -P $pid
    wait $pid || true
    rm -rf cache # now this machine has no copy
    code 0 python3 "$LEVIN_SOURCE/tests/cli/checkpoint_reader.py" $there/"$(cat $there/last)"
    step=$(value step)
    check [ "$step" -gt "$from" ]
    from=$step
done
code 0 "${train[@]}" --trainer.max_steps=$((from + 3)) --resume --quiet=false
says "continuing after step $from" err
check [ "$(cat $there/last)" = "step-$((from + 3))" ]
