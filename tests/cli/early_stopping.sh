# A run that no longer improves ends early, and at the same step if it was interrupted before.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
# With a learning rate of 0 nothing improves: the first validation has the best loss.
still=(--optimizer.lr=0 --trainer.val_check_interval=2 --early_stopping.monitor=val_loss)
ended_at() { check [ "$(readlink "$1/checkpoints/last")" = "step-$2" ]; } # ended_at RUN STEP

# --- when a run ends, and the message ---
code 0 train still "${still[@]}" --trainer.max_steps=100 --json
json 'd["step"] == 8 and d["already_done"] is False' # best at 2; 4, 6 and 8 are not better
says "early stopping: val_loss did not improve on " err
says " in 3 checks; ended at step 8 after " err
ended_at still 8
check [ "$(grep -c '"loss"' still/metrics.jsonl)" = 8 ]
check [ "$(python3 -c 'import json; print(json.load(open("still/status.json"))["state"])')" = "done" ]
code 0 train short "${still[@]}" --trainer.max_steps=100 --early_stopping.patience=1
ended_at short 4
# a run with falling losses reaches its last step; not with a large min_delta, or with mode max
learning=(--optimizer.lr=1e-2 --trainer.val_check_interval=2 --early_stopping.monitor=val_loss --trainer.max_steps=14)
code 0 train learning "${learning[@]}"
ended_at learning 14
code 0 train learnt "${learning[@]}" --early_stopping.min_delta=100
ended_at learnt 8
code 0 train wrong "${learning[@]}" --early_stopping.mode=max --early_stopping.patience=2
ended_at wrong 6
# without a monitor no run ends early, and bits do not depend on a monitor
code 0 train free --optimizer.lr=1e-2 --trainer.val_check_interval=2 --trainer.max_steps=14
same_run free learning

# --- resuming ---
code 0 train parts "${still[@]}" --trainer.max_steps=4
code 0 train parts "${still[@]}" --trainer.max_steps=6 --resume
code 0 train parts "${still[@]}" --trainer.max_steps=100 --resume
ended_at parts 8
same_run still parts
# a run that ended early has nothing left to do, unless its patience is raised
folder_listing parts >before
code 0 train parts "${still[@]}" --trainer.max_steps=100 --resume
says "parts ended at step 8, early stopping: val_loss did not improve on " out
says "nothing to do" out
folder_listing parts | diff before - || fail "a run that had ended was changed"
code 0 train parts "${still[@]}" --trainer.max_steps=100 --early_stopping.patience=5 --resume
ended_at parts 12
# counts of another monitor are not used
code 0 train parts "${still[@]/val_loss/val_perplexity}" --trainer.max_steps=100 --early_stopping.patience=1 --resume
ended_at parts 16
# the settings that a run writes make the same run again
code 0 "$LEVIN" train still/settings.yaml --run_dir=again
same_run still again
code 0 "$LEVIN" train free/settings.yaml --run_dir=free-again
same_run free free-again

# --- refused ---
code 2 train none --early_stopping.monitor=accuracy
one_error
says "early_stopping.monitor is accuracy, which this run does not compute; it computes loss, grad_norm, lr, tokens_per_s, val_loss, val_perplexity, val_bpb, train_loss and train_perplexity" err
code 2 train none --early_stopping.monitor=val_loss --trainer.limit_val_batches=0
says "early_stopping.monitor is val_loss, which validation computes, and this run does not validate; it computes loss, " err
code 2 train none --early_stopping.patience=5
says 'early_stopping.patience (5) has no effect while early_stopping.monitor is "": set that too, or leave it out' err
# its other keys are in the run's settings.yaml
code 0 train short "${still[@]/val_loss/}" --trainer.max_steps=6 --resume
ended_at short 6
check [ ! -e none ]
