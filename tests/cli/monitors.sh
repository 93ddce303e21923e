# A monitored scalar of a run: which checkpoint is the best, and refusals.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
monitor() { # monitor RUN KEY...: twelve steps, validated at every second one
    code 0 train "$1" --trainer.max_steps=12 --trainer.val_check_interval=2 --checkpoint.every_n_steps=0 "${@:2}"
}
chosen() { # chosen RUN min|max: `best` is the step of the lowest or highest validation loss
    python3 - "$1" "$2" <<'P'
import json, os, sys
run, mode = sys.argv[1:]
rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
rows = [(r["val_loss"], -r["step"]) for r in rows if "val_loss" in r]
want = max(rows) if mode == "max" else min(rows)
got = os.readlink(run + "/checkpoints/best")
assert got == f"step-{-want[1]}", (got, rows)
P
}

# --- the best checkpoint ---
monitor usual
chosen usual min
monitor perplexity --checkpoint.monitor=val_perplexity
chosen perplexity min # it falls as the loss does
same_weights usual perplexity
monitor highest --checkpoint.monitor=val_loss --checkpoint.mode=max
chosen highest max
if [ "$(readlink usual/checkpoints/best)" = "$(readlink highest/checkpoints/best)" ]; then fail "this test sees nothing"; fi
check [ "$(ls highest/checkpoints | wc -l)" = 4 ] # best, last, and these two
monitor three --checkpoint.monitor=val_loss --checkpoint.mode=max --checkpoint.top_k=3 # later values are lower
for step in 2 4 6; do check [ -d three/checkpoints/step-$step ]; done
monitor all --checkpoint.top_k=-1
for step in 2 4 6 8 10 12; do check [ -d all/checkpoints/step-$step ]; done
# a better checkpoint from before the resume stays the best
code 0 train highest --resume --trainer.max_steps=16 --trainer.val_check_interval=2 --checkpoint.every_n_steps=0 \
    --checkpoint.monitor=val_loss --checkpoint.mode=max
chosen highest max
# in runs without validation a scalar of the steps is checked after each epoch
head -c 400 text.txt >pom.txt
code 0 train blind --data.path=pom.txt --trainer.limit_val_batches=0 --checkpoint.monitor=loss --trainer.max_steps=12 \
    --checkpoint.every_n_steps=0
check [ -L blind/checkpoints/best ]

# --- refused before anything is written ---
code 2 train none --checkpoint.monitor=val_acc
one_error
says "checkpoint.monitor is val_acc, which this run does not compute; it computes loss, grad_norm, lr, tokens_per_s, val_loss, val_perplexity, val_bpb, train_loss and train_perplexity" err
code 2 train none --checkpoint.monitor=val_perplexity --trainer.limit_val_batches=0
says "this run does not compute; it computes loss, grad_norm, lr, tokens_per_s, train_loss and train_perplexity" err
code 2 train none --checkpoint.monitor=time # in metrics.csv
says "checkpoint.monitor is time, which this run cannot monitor; it computes loss, " err
code 2 train none --checkpoint.monitor=lr
says "set checkpoint.mode to min or max" err
code 2 train none --checkpoint.mode=most
says "checkpoint.mode must be auto, min or max" err
check [ ! -e none ]
