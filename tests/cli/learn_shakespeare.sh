# The recipe shakespeare-char-cpu ends where it should: 2000 steps, at most 1.93 over the whole validation set.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
unset OMP_WAIT_POLICY
text="$LEVIN_SOURCE/../shared/data/tinyshakespeare.txt"
[ -e "$text" ] || { echo "skipped: there is no $text"; exit 77; }
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --data.path="$text" --run_dir=run --json
cat out
json 'd["step"] == 2000 and 1.6 < d["val_loss"] <= 1.93'
cp out run.json
# every window once, in a separate program
code 0 "$LEVIN" evaluate run/checkpoints/last --json
python3 - <<'P'
import json
run, evaluated = json.load(open("run.json")), json.load(open("out"))
assert abs(run["val_loss"] - evaluated["loss"]) < 1e-5, (run, evaluated)
assert evaluated["tokens"] in (111539, 111539 // 64 * 64), evaluated
P
