# A run that is killed by SIGKILL at random moments, many times, ends with the bits of an undisturbed one.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
keys=(--model.dropout=0.1 --trainer.micro_batch_size=2 --optimizer.lr=1e-3 --checkpoint.top_k=2)
kills=30

last() { readlink killed/checkpoints/last || true; }
arguments killed "${keys[@]}" --trainer.max_steps=1000000 --checkpoint.every_n_steps=2 --resume
for i in $(seq $kills); do
    before=$(last)
    "$LEVIN" "${all[@]}" >out 2>err &
    pid=$!
    # Two of three kills come after a new checkpoint, so that the run makes progress; all at a random moment, most of them
    # within a save, since steps are short here.
    if [ $((i % 3)) != 0 ]; then
        while kill -0 $pid 2>/dev/null && [ "$(last)" = "$before" ]; do sleep 0.002; done
    fi
    sleep "0.0$((RANDOM % 40 + 10))"
    kill -KILL $pid || fail "the run ended before kill $i: $(cat err)"
    ended
    check [ "$got" = 137 ]
done
step=$(last)
step=${step#step-}
end=$((step / 4 * 4 + 8))
echo "$kills kills, $step steps"
check [ "$step" -ge $kills ]
code 0 train killed "${keys[@]}" --trainer.max_steps=$end --checkpoint.every_n_steps=2 --resume
silent_about "skipped" err
code 0 train alone "${keys[@]}" --trainer.max_steps=$end --checkpoint.every_n_steps=50
same_run alone killed
check [ "$(readlink alone/checkpoints/best)" = "$(readlink killed/checkpoints/best)" ]
same_weights alone killed best
# no files of killed processes are left
check [ "$(cd killed && find . -name '.?*' ! -name .lock)" = "" ]
