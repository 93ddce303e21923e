# Going on with weights that are trained already: validation before the first step, a run that does harm says so, and
# nothing is lost when numbers are no longer finite.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
code 0 train base --trainer.max_steps=120 --optimizer.lr=1e-2 --trainer.val_check_interval=40 --trainer.limit_val_batches=20
last() { tail -n 1 out; }

# --- before the first step ---
scratch=("${tiny[@]}")
tiny=(--model.init=base --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=20 --trainer.val_check_interval=4
    --checkpoint.every_n_steps=4)
tune() { code 0 train "$@"; } # tune RUN [keys]
tune good --optimizer.lr=1e-4 --trainer.max_steps=8 --json
json 'd["start_val_loss"] is not None and (d["worse"] is None) == (d["val_loss"] <= d["start_val_loss"])'
start=$(value start_val_loss)
says "before the first step: validation loss" err
python3 - "$start" <<'P'
import json, sys
rows = [json.loads(line) for line in open("good/metrics.jsonl")]
assert rows[0] == {"step": 0, "val_loss": rows[0]["val_loss"]} and abs(rows[0]["val_loss"] - float(sys.argv[1])) < 1e-6, rows[0]
assert [r["step"] for r in rows if "val_loss" in r] == [0, 4, 8]
assert open("good/metrics.csv").read().split("\n")[1].startswith("0,,,,,")
P
# it is what evaluate says of the model itself
code 0 "$LEVIN" evaluate base --data.path=text.txt --trainer.batch_size=4 --json
near() { python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 0.3, (a, b)' "$@"; } # on 20 batches of all
near "$start" "$(value loss)"
# going on does not repeat it, and still knows it
tune good --optimizer.lr=1e-4 --trainer.max_steps=12 --resume --json
python3 -c 'import json; d = json.load(open("out")); assert abs(d["start_val_loss"] - '"$start"') < 1e-9, d'
check [ "$(grep -c '"step": 0' good/metrics.jsonl)" = 1 ]
silent_about "before the first step:" err

# --- harm ---
tune harmed --optimizer.lr=0.3 --trainer.max_steps=12
says ", worse than " err
last >line
says "the run ended worse than it began: validation " line
says "likely because optimizer.lr, 0.3, is too high for weights that are trained already" line
tune harmed --optimizer.lr=0.3 --trainer.max_steps=16 --resume # and it is still known after going on
last >line
says "the run ended worse than it began" line
# too little data, over and over: better, then worse
head -c 600 text.txt >little.txt
tune overfit --data.path=little.txt --data.val_path=text.txt --optimizer.lr=1e-2 --trainer.max_steps=150 --trainer.val_check_interval=50 --json
json 'd["worse"] and ("too few" in d["worse"] or "in between" in d["worse"] or "too high" in d["worse"])'
# a run that ends better says nothing
tiny=("${scratch[@]}")
tune scratch --trainer.max_steps=40 --optimizer.lr=1e-2 --json
json 'd["worse"] is None and d["val_loss"] < d["start_val_loss"]'

# --- numbers that are no longer finite: the last good step is kept ---
tiny=(--model.init=base --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=20 --trainer.val_check_interval=4
    --checkpoint.every_n_steps=4)
code 1 train wild --optimizer.kind=sgd --optimizer.lr=1e5 --trainer.gradient_clip_val=0 --checkpoint.every_n_steps=0 \
    --trainer.limit_val_batches=0 --trainer.max_steps=500
one_error
says "the first number that is not finite lies in '" err
at=$(readlink wild/checkpoints/last)
says "the weights of step ${at#step-} are saved" err
check [ "$(grep -c '"loss"' wild/metrics.jsonl)" = "${at#step-}" ]
code 0 "$LEVIN" export wild whole # every number of it is finite

# --- samples of steps that are made again are written again ---
sampled=(--sample.every_n_steps=2 --sample.max_new_tokens=10)
tune twice "${sampled[@]}" --trainer.max_steps=8
tune once "${sampled[@]}" --trainer.max_steps=12
rm -r twice/checkpoints/step-8
tune twice "${sampled[@]}" --trainer.max_steps=12 --resume
same_file once/samples.txt twice/samples.txt
check [ "$(grep -c '^--- step ' once/samples.txt)" = 6 ]
