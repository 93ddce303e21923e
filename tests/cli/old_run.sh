# A run that an earlier version has written is continued, evaluated and exported: tests/golden/run-0.1.0, whose first two steps
# are those of levin 0.1.0. Its files are never written again; a later format gets a folder of its own.
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden/run-0.1.0
mkdir -p run/checkpoints
cp "$golden"/{settings.yaml,metrics.jsonl,metrics.csv,status.json} run
cp -r "$golden/step-2" run/checkpoints
ln -s step-2 run/checkpoints/last
ln -s step-2 run/checkpoints/best
cp "$golden/text.txt" .
code 0 "$LEVIN" evaluate run --data.path=text.txt --trainer.batch_size=4 --json
json 'abs(d["loss"] - 3.90421958) < 1e-4'
code 0 "$LEVIN" export run model
cmp run/checkpoints/step-2/model.safetensors model/model.safetensors
code 0 "$LEVIN" generate run --prompt=the --max-new-tokens=4 --temperature=0 --json
code 0 "$LEVIN" train run --resume --data.path=text.txt --trainer.max_steps=4
says "continuing after step 2" err
silent_about "damaged" err
# the losses of the run of four steps, which depend on the weights, the optimizer's state, the order of samples and dropout
python3 - <<'P'
import json
rows = [json.loads(line) for line in open("run/metrics.jsonl")]
found = {(r["step"], key): r[key] for r in rows for key in ("loss", "val_loss") if key in r}
wanted = {(1, "loss"): 4.09615139, (2, "loss"): 4.02768634, (2, "val_loss"): 3.89817917, (3, "loss"): 3.95680266,
          (4, "loss"): 3.7646764, (4, "val_loss"): 3.66380508}
assert found.keys() == wanted.keys() and all(abs(found[k] - wanted[k]) < 1e-4 for k in wanted), found
P
