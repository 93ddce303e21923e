# levin train: the files of a run, and refusals.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text

# --- a run and its files ---
code 0 train runs/a --json
json 'd["step"] == 8 and d["run_dir"] == "runs/a" and d["already_done"] is False'
json 'math.isfinite(d["loss"]) and math.isfinite(d["val_loss"]) and d["best_val_loss"] <= d["val_loss"]'
json 'd["parameters"] > 0 and d["tokens_per_s"] > 0 and d["peak_bytes"] > 0'
says "step 1/8" err
check [ "$(readlink runs/a/checkpoints/last)" = step-8 ]
check [ -e runs/a/checkpoints/best/model.safetensors ]
for file in config.json model.safetensors state/manifest.json state/optimizer.safetensors state/state.json \
    state/settings.yaml state/vocabulary.json; do
    [ -s "runs/a/checkpoints/step-8/$file" ] || fail "no $file in the checkpoint"
done
check [ "$(ls runs/a/checkpoints/step-8 | tr '\n' ' ')" = "config.json model.safetensors state tokenizer.json tokenizer_config.json " ]
python3 - <<'P'
import csv, json, math, os, time
began = os.stat("text.txt").st_mtime
rows = [json.loads(line) for line in open("runs/a/metrics.jsonl")]
steps = [r for r in rows if "loss" in r]
assert [r["step"] for r in steps] == list(range(1, 9)), steps
for r in steps:
    assert set(r) == {"step", "loss", "grad_norm", "lr", "tokens_per_s", "epoch", "time", "memory_bytes"}, r
    assert began <= r["time"] <= time.time() and r["memory_bytes"] > 1e6 and abs(r["epoch"] / steps[0]["epoch"] - r["step"]) < 1e-6, r
    assert r["lr"] == 3e-4 and r["grad_norm"] > 0 and r["tokens_per_s"] > 0
validations = [r for r in rows if "val_loss" in r]
assert [r["time"] for r in steps] == sorted(r["time"] for r in steps)
assert [set(r) for r in validations] == [{"step", "val_loss", "val_perplexity", "val_bpb"}] * 2 and [r["step"] for r in validations] == [4, 8]
assert all(abs(math.log(r["val_perplexity"]) - r["val_loss"]) < 1e-6 for r in validations)
assert abs(steps[0]["loss"] - math.log(json.load(open("runs/a/checkpoints/last/config.json"))["vocab_size"])) < 0.3
table = list(csv.DictReader(open("runs/a/metrics.csv")))
assert list(table[0]) == ["step", "loss", "grad_norm", "lr", "tokens_per_s", "epoch", "time", "memory_bytes", "val_loss", "val_perplexity", "val_bpb"]
assert [int(r["step"]) for r in table] == [1, 2, 3, 4, 4, 5, 6, 7, 8, 8]
for r in steps:
    row = [t for t in table if int(t["step"]) == r["step"] and t["loss"]]
    assert len(row) == 1 and all(float(row[0][k]) == r[k] for k in r), (r, row)
assert [float(t["val_loss"]) for t in table if t["val_loss"]] == [r["val_loss"] for r in validations]
config = json.load(open("runs/a/checkpoints/last/config.json"))
for key, want in dict(model_type="gpt2", n_layer=1, n_head=2, n_embd=16, n_positions=16, tie_word_embeddings=True).items():
    assert config[key] == want, key
svg = open("runs/a/loss.svg").read()
assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")
P
# `best` is the checkpoint with the lowest validation loss
python3 - <<'P'
import json, os
rows = [json.loads(line) for line in open("runs/a/metrics.jsonl")]
best = min((r["val_loss"], r["step"]) for r in rows if "val_loss" in r)[1]
assert os.readlink("runs/a/checkpoints/best") == f"step-{best}"
P
# the validation loss of the run equals that of evaluate on its checkpoint
code 0 "$LEVIN" evaluate runs/a/checkpoints/last --trainer.limit_val_batches=1.0 --json
json 'math.isfinite(d["loss"]) and d["tokens"] > 0'
# every window once: the whole validation set, and the same number from the run itself
code 0 train whole --trainer.limit_val_batches=1.0 --trainer.val_check_interval=8 --trainer.batch_size=7 --json
cp out whole.json
code 0 "$LEVIN" evaluate whole --trainer.batch_size=5 --json
python3 - <<'P'
import json
run, evaluated = json.load(open("whole.json")), json.load(open("out"))
assert abs(run["val_loss"] - evaluated["loss"]) < 1e-5, (run, evaluated)
n = len(open("text.txt").read())
validation = n - n * 9 // 10
assert evaluated["tokens"] in ((validation - 1) // 16 * 16, validation - 1), (evaluated, validation)
P

# --- training with the run's settings.yaml gives the same run ---
code 0 "$LEVIN" train runs/a/settings.yaml --run_dir=again
same_run runs/a again
# a recipe's file name is the run's name, and its folder is below runs/
sed 's/^run_dir:.*//; s/^name:.*//' runs/a/settings.yaml >little.yaml
code 0 "$LEVIN" train little.yaml --trainer.max_steps=2 --json
json 'd["run_dir"] == "runs/little" and d["step"] == 2'
# without --json the summary names the folder
code 0 train words
says "words: step 8, loss" out
says "loss curve: words/loss.svg" out
# --quiet prints nothing
code 0 train hush --quiet
[ ! -s err ] || { cat err; exit 1; }

# --- a folder that holds a run ---
folder_listing runs/a >before
code 2 train runs/a
one_error
says "'runs/a' already contains a run" err
says "--resume" err
says "--overwrite" err
code 2 train runs/a --resume --overwrite
one_error
code 2 train runs/a --json
json '"already contains a run" in d["error"]'
folder_listing runs/a | diff before - || fail "a refused run changed the folder"
# at its last step there is nothing to do
code 0 train runs/a --resume --json
json 'd["already_done"] is True and d["step"] == 8'
code 0 train runs/a --resume
says "nothing to do" out
code 0 train runs/a --resume --trainer.max_steps=5 --json
json 'd["already_done"] is True and d["step"] == 8'
folder_listing runs/a | diff before - || fail "a finished run was changed"
# a run that cannot start changes nothing, not even with --overwrite
code 1 train runs/a --overwrite --data.path=missing.txt
folder_listing runs/a | diff before - || fail "a run that could not begin harmed the one that it would replace"
code 2 train runs/a --resume --model.n_embd=32
says "model.n_embd is 32 here but was 16" err
code 2 train runs/a --resume --trainer.seed=2
says "trainer.seed" err
code 2 train runs/a --resume --trainer.batch_size=8
says "trainer.batch_size" err
{ cat text.txt; echo "more"; } >other.txt
code 2 train runs/a --resume --data.path=other.txt
says "trained on other data" err
folder_listing runs/a | diff before - || fail "a refused --resume changed the folder"
# --overwrite replaces a run and keeps files that are not levin's
echo mine >runs/a/notes.txt
code 0 train runs/a --overwrite --trainer.max_steps=4
check [ "$(readlink runs/a/checkpoints/last)" = step-4 ]
check [ ! -e runs/a/checkpoints/step-8 ]
check [ "$(grep -c '"loss"' runs/a/metrics.jsonl)" = 4 ]
check [ "$(cat runs/a/notes.txt)" = mine ]
# --resume without a run starts one
code 0 train fresh --resume --trainer.max_steps=4
same_run runs/a fresh
# two processes cannot train in one folder
exec 9>fresh/.lock
flock 9
code 1 train fresh --resume --trainer.max_steps=8
says "another process is training in 'fresh'" err
exec 9>&-

# --- loggers can be switched off, and on again ---
code 0 train silent --logger.csv=false --logger.jsonl=no --logger.curve=off --logger.tensorboard=false --logger.events=false \
    --logger.report=false
check [ "$(ls silent | tr '\n' ' ')" = "checkpoints settings.yaml status.json " ]
silent_about "loss curve" out
code 0 train silent --resume --trainer.max_steps=12
check [ "$(cut -d, -f1 silent/metrics.csv | tr '\n' ' ')" = "step 9 10 11 12 12 " ]
check [ -s silent/loss.svg ]

# --- samples during training ---
code 0 train talk --sample.every_n_steps=4 --sample.max_new_tokens=30 --sample.prompt="int "
[ "$(grep -c '^--- step [48] ---$' talk/samples.txt)" = 2 ] || { cat talk/samples.txt; exit 1; }
# --- limits ---
printf 'the more it snows, tiddely pom, the more it goes on snowing, and nobody knows how cold my toes are growing\n%.0s' 1 2 3 4 5 6 >pom.txt
code 0 train epochs --data.path=pom.txt --trainer.max_steps=0 --trainer.max_epochs=2 --trainer.val_check_interval=1.0 --json
json 'd["step"] > 2 and d["step"] % 2 == 0'
check [ "$(grep -c val_loss epochs/metrics.jsonl)" = 2 ]
code 0 train late --trainer.max_steps=0 --trainer.max_time=0.000001s --json
json 'd["step"] == 1'
check [ "$(readlink late/checkpoints/last)" = step-1 ]
