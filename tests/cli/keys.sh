# Training by a recipe: keys, environment variables and the origin of values, refusals, SIGTERM.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"

python3 - <<'PY'
import random
random.seed(5)
words = "the quick brown fox jumps over a lazy dog while seven wizards mix boiling potions".split()
open("text.txt", "w").write("\n".join(" ".join(random.choice(words) for _ in range(9)) for _ in range(400)))
PY
cat >tiny.yaml <<'YAML'
name: tiny
model:     {kind: nanogpt, n_layer: 1, n_head: 2, n_embd: 16, block_size: 16, dropout: 0.0, bias: false}
data:      {kind: chars, path: text.txt}
optimizer: {lr: 1e-2}
trainer:   {max_steps: 12, batch_size: 4, val_check_interval: 5, log_every_n_steps: 4, seed: 7}
checkpoint: {every_n_steps: 4}
YAML
code 0 "$LEVIN" train tiny.yaml
says "runs/tiny: step 12, loss " out
says "step  4/12  loss " err
says "step 5: validation loss" err
for file in settings.yaml metrics.jsonl metrics.csv loss.svg checkpoints/last/model.safetensors checkpoints/best/config.json; do
    [ -s runs/tiny/$file ]
done
[ "$(grep -c '"loss"' runs/tiny/metrics.jsonl)" = 12 ]
[ "$(grep -c '"val_loss"' runs/tiny/metrics.jsonl)" = 3 ]
python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("runs/tiny/loss.svg")'

# The run's own settings are a recipe of the same run.
code 0 "$LEVIN" train runs/tiny/settings.yaml --run_dir=runs/again --quiet
[ ! -s err ]
cmp runs/tiny/checkpoints/step-12/model.safetensors runs/again/checkpoints/step-12/model.safetensors

code 2 "$LEVIN" train tiny.yaml
says "already contains a run" err
code 2 "$LEVIN" train tiny.yaml --resume --overwrite
says "--resume continues a run and --overwrite replaces it" err
before=$(stat -c %y-%i-%s runs/tiny/metrics.jsonl)
code 0 "$LEVIN" train tiny.yaml --resume
says "nothing to do" out
[ "$before" = "$(stat -c %y-%i-%s runs/tiny/metrics.jsonl)" ]
code 0 "$LEVIN" train tiny.yaml --overwrite --json
json 'd["step"] == 12 and d["run_dir"] == "runs/tiny" and d["loss"] > 0 and d["best_val_loss"] <= d["val_loss"] and not d["already_done"]'
code 0 "$LEVIN" train tiny.yaml --resume --trainer.max_steps=14 --json
json 'd["step"] == 14'
[ "$(grep -c '"loss"' runs/tiny/metrics.jsonl)" = 14 ]

# A run needs no recipe: all keys may come from the command line and the environment.
LEVIN_TRAINER_MAX_STEPS=2 code 0 "$LEVIN" train --data.path=text.txt --model.n_layer=1 --model.n_head=1 --model.n_embd 8 \
    --model.block_size 8 --trainer.batch_size 2 --name keys --trainer.deterministic
says "runs/keys: step 2" out
code 0 "$LEVIN" train tiny.yaml --show-settings --trainer.max_steps=3 --trainer.seed=1 --trainer.max_steps=5
grep -qE '^trainer.max_steps +5 +command line, the last of 2$' out
code 2 "$LEVIN" train tiny.yaml --show-settings --trainer.max_steps=x --optimizer.lr=y
says "trainer.max_steps must be a whole number, got 'x'; and optimizer.lr must be a number, got 'y'" err
LEVIN_TRAINER_MAX_STEPS=2 code 0 "$LEVIN" train tiny.yaml --show-settings
grep -qE '^trainer.max_steps +2 +LEVIN_TRAINER_MAX_STEPS$' out
grep -qE '^optimizer.lr +0.01 +tiny.yaml:4$' out

code 2 "$LEVIN" train tiny.yaml --trainer.batch_size_per_device=2
says "set the same thing" err
for command in train plan bench; do # all commands that train
    code 2 "$LEVIN" $command tiny.yaml --name=moments --optimizer.kind=sgd --optimizer.state=bf16
    says "optimizer.state: bf16 is for adamw, adam, lion and muon, and optimizer.kind is sgd" err
done
# a key without effect, unless the key on which it depends is given, too
code 2 "$LEVIN" train tiny.yaml --name=useless --lora.targets=attn
says "lora.targets (attn) has no effect while lora.rank is 0: set that too, or leave it out" err
one_error
code 2 "$LEVIN" train tiny.yaml --name=useless --schedule.min_lr=1e-5
says "schedule.min_lr (1e-05) has no effect while schedule.kind is constant: set that too, or leave it out" err
code 0 "$LEVIN" train tiny.yaml --name=useless --schedule.min_lr=1e-5 --schedule.kind=constant --lora.targets=attn --lora.rank=0
# keys of another kind in the recipe, if the command line chooses the kind
sed 's/lr: 1e-2/lr: 1e-2, eps: 1e-6/; s/kind: chars/kind: labelled, text_column: words, tokenizer: none/
    $a schedule: {kind: wsd, wsd_decay_steps: 3}' tiny.yaml >kinds.yaml
code 0 "$LEVIN" plan kinds.yaml --optimizer.kind=lion --data.kind=chars --schedule.kind=cosine --show-settings
for line in "optimizer.eps  *1e-08  *default" "data.text_column  *default" "data.tokenizer  *default" "schedule.wsd_decay_steps  *0.1  *default"; do
    grep -qx "$line" out || fail "no '$line' in $(cat out)"
done
code 2 "$LEVIN" plan kinds.yaml --optimizer.kind=lion --optimizer.eps=1e-6 --data.kind=chars --schedule.kind=cosine
says "optimizer.eps (1e-06) is a key of optimizer.kind=" err
code 2 "$LEVIN" train tiny.yaml --data.path=
code 2 "$LEVIN" train nowhere.yaml
says "there is no recipe 'nowhere.yaml'" err
mkdir recipes
cp tiny.yaml recipes
code 2 "$LEVIN" train recipes
says "'recipes' is a folder, not a recipe" err
rm tiny.yaml
code 2 "$LEVIN" train tiny
says "did you mean 'recipes/tiny.yaml'?" err
cp recipes/tiny.yaml .
code 2 "$LEVIN" train tiny.yaml --run_dir=runs/other --trainer.precision=16-true --json
json '"16-true is not supported" in d["error"]'
[ ! -e runs/other ]

# SIGTERM: the step is finished, the run saved, exit 75; then it is resumed.
"$LEVIN" train tiny.yaml --name=stopped --trainer.max_steps=1000000 --trainer.val_check_interval=0 --checkpoint.every_n_steps=0 >out 2>err &
pid=$!
wait_rows runs/stopped 5
kill -TERM $pid
got=0
wait $pid || got=$?
[ "$got" = 75 ] || { echo "exit $got after SIGTERM"; cat out err; exit 1; }
says "stopped on request" err
[ -s runs/stopped/checkpoints/last/model.safetensors ]
steps=$(grep -c '"loss"' runs/stopped/metrics.jsonl)
code 0 "$LEVIN" train tiny.yaml --name=stopped --resume --trainer.max_steps=$((steps + 3)) --trainer.val_check_interval=0 --json
json "d['step'] == $((steps + 3))"
