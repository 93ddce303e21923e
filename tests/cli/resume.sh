# A resumed run has the same bits as an uninterrupted one: after max_steps and after signals.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
cosine=(--schedule.kind=cosine --schedule.warmup_steps=3 --schedule.decay_steps=16 --schedule.min_lr=1e-5)
dropout=(--model.dropout=0.1 --trainer.micro_batch_size=2)

# --- in one run, and in parts ---
code 0 train one "${cosine[@]}" "${dropout[@]}" --trainer.max_steps=16
code 0 train two "${cosine[@]}" "${dropout[@]}" --trainer.max_steps=8
code 0 train two "${cosine[@]}" "${dropout[@]}" --trainer.max_steps=16 --resume
same_run one two
same_file one/checkpoints/best/model.safetensors two/checkpoints/best/model.safetensors
check [ "$(ls one/checkpoints)" = "$(ls two/checkpoints)" ]
# a difference would be detected: another seed, one step less
code 0 train other "${cosine[@]}" "${dropout[@]}" --trainer.max_steps=16 --trainer.seed=3
if cmp -s one/checkpoints/last/model.safetensors other/checkpoints/last/model.safetensors; then fail "seeds do nothing"; fi
# limits, logging, checkpoints and threads may change on resuming
code 0 train three "${cosine[@]}" "${dropout[@]}" --trainer.max_steps=4 --trainer.threads=1
code 0 train three "${cosine[@]}" "${dropout[@]}" --trainer.max_steps=16 --trainer.threads=2 --resume \
    --checkpoint.every_n_steps=5 --trainer.log_every_n_steps=1
same_run one three
# random sampling, plain Adam, SGD with momentum
for keys in "--data.sampling=random --optimizer.kind=adam" "--data.sampling=sequential --optimizer.kind=sgd" \
    "--optimizer.kind=lion --optimizer.state=bf16"; do
    rm -rf one two
    # shellcheck disable=SC2086
    { code 0 train one $keys --trainer.max_steps=8
      code 0 train two $keys --trainer.max_steps=4
      code 0 train two $keys --trainer.max_steps=8 --resume; }
    same_run one two
done

# --- asked to stop: finish the step, save, exit 75 ---
# Both runs validate at the same steps: every 4 steps, and at the end, which is one of them.
for signal in INT TERM USR1; do
    rm -rf one two
    start two "${dropout[@]}" --trainer.max_steps=1000000 --json
    kill -$signal $pid
    ended
    check [ "$got" = 75 ]
    json 'd["step"] >= 1'
    at=$(value step)
    says "stopped on request after step $at, which is saved" err
    silent_about "error:" err
    check [ "$(readlink two/checkpoints/last)" = "step-$at" ]
    check [ "$(grep -c '"loss"' two/metrics.jsonl)" = "$at" ]
    end=$(((at / 4 + 1) * 4))
    code 0 train two "${dropout[@]}" --trainer.max_steps=$end --resume
    code 0 train one "${dropout[@]}" --trainer.max_steps=$end
    same_run one two
done
# a second SIGINT ends the run at once, at any moment; it resumes from the last checkpoint
rm -rf one two
start two --trainer.max_steps=1000000 --checkpoint.every_n_steps=1
wait_rows two 6
while kill -INT $pid 2>/dev/null; do :; done
ended
[ "$got" = 130 ] || [ "$got" = 75 ] || fail "exit $got after SIGINT"
end=$((($(rows two) / 4 + 1) * 4))
code 0 train two --trainer.max_steps=$end --resume --checkpoint.every_n_steps=1
code 0 train one --trainer.max_steps=$end
same_run one two

# programs that copy links as folders: an empty folder in place of a link is replaced, another one is named and stays
train copied --trainer.max_steps=4 >/dev/null 2>&1
more=(train copied --resume --trainer.max_steps=8 --quiet)
for name in last best; do
    rm copied/checkpoints/$name
    cp -r copied/checkpoints/step-4 copied/checkpoints/$name
    folder_listing copied/checkpoints/$name >before
    code 1 "$LEVIN" "${more[@]}"
    one_error
    says "'copied/checkpoints/$name' is a folder (Directory not empty), but levin needs its name for a link to a checkpoint" err
    folder_listing copied/checkpoints/$name >now
    same_file before now
    rm -r copied/checkpoints/$name
    mkdir copied/checkpoints/$name
done
code 0 "$LEVIN" "${more[@]}"
check [ "$(readlink copied/checkpoints/last)" = step-8 ]
check [ -L copied/checkpoints/best ]
