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
    timeout -k 3 600 "${train[@]}" --trainer.max_steps=1000000 --resume >out 2>err &
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

# a checkpoint that is removed on this machine is also removed from the store, and no file is sent twice: after an upload that
# failed, and on another machine, which has downloaded it
web_server
export AWS_ENDPOINT_URL=$web/s3 AWS_ACCESS_KEY_ID=new AWS_SECRET_ACCESS_KEY=s LEVIN_STORE_TRIES=1
to() { # to STEP [keys]: trains on to this step, with a checkpoint every second step
    "${train[@]}" --checkpoint.every_n_steps=2 --run_dir=s3://b/$run --resume --trainer.max_steps="$@"
}
has_steps() { # has_steps NAME...: the checkpoints in the store
    code 0 "$LEVIN" ls --recursive s3://b/$run/checkpoints
    check [ "$(grep -o 'step-[0-9]*' out | sort -u | xargs)" = "$*" ]
}
run=run
rm -rf cache
code 0 to 4
has_steps step-4
ask control/refuse/6 >/dev/null
code 1 to 6
has_steps step-4
ask control/refuse/off >/dev/null
code 0 to 8
has_steps step-8
rm -rf cache
code 0 to 12
has_steps step-12
# without the permission to remove files the run succeeds; with it the next run removes what has remained
ask control/keep/1 >/dev/null
code 0 to 14
says "old checkpoints remain in the store: cannot remove 's3://b/run/checkpoints/step-12/" err
has_steps step-12 step-14
ask control/keep/off >/dev/null
code 0 to 16
has_steps step-16
run=best
keep=(--checkpoint.top_k=1 --checkpoint.mode=max --trainer.val_check_interval=2)
code 0 to 4 "${keep[@]}"
has_steps step-2 step-4
rm -rf cache
ask log >/dev/null
code 0 to 6 "${keep[@]}"
has_steps step-2 step-6
check [ "$(ask log | grep -c 'PUT .*/step-2/')" = 0 ]
