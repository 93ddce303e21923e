# shakespeare.sh - the main job, whole: 2000 steps on tinyshakespeare, and the loss over all of its validation set.
# label: long
#
# PyTorch reaches 1.904 to 1.922 with the same recipe, over six runs.
text=$LEVIN_SOURCE/../shared/data/tinyshakespeare.txt
[ -f "$text" ] || text=$LEVIN_SOURCE/data/tinyshakespeare.txt
[ -f "$text" ] || { echo "skipped: data/tinyshakespeare.txt is not here"; exit 77; }
"$LEVIN" train "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --data.path="$text" --run_dir=run --trainer.log_every_n_steps=500 \
    2>progress || { cat progress; exit 1; }
grep '"val_loss"' run/metrics.jsonl | tail -1
python3 - <<'END'
import json
rows = [json.loads(line) for line in open("run/metrics.jsonl")]
last = [row for row in rows if "val_loss" in row][-1]
assert last["step"] == 2000, last
assert 1.5 < last["val_loss"] <= 1.93, last
assert sum("loss" in row for row in rows) == 2000
END
sample=$("$LEVIN" generate run --prompt "ROMEO:" --max-new-tokens=100)
[ ${#sample} -ge 100 ] || { echo "a sample of ${#sample} letters"; exit 1; }
