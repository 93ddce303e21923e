# MNIST: the three nets train on IDX files, and are saved, evaluated and resumed; bad files are named.
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ -z "${LVN_SANITIZE:-}" ] || { echo "skipped: other tests run its operations and read its files under sanitizers"; exit 77; }

mkdir digits
python3 "$LEVIN_SOURCE/tests/cli/drawn_digits.py" digits 1200 200
data="--data.kind=mnist --data.path=digits"

code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-cnn.yaml" --data.path=digits --trainer.max_epochs=4 --run_dir=cnn --json
json 'd["step"] == 68 and d["val_loss"] < 1'
code 0 "$LEVIN" evaluate cnn $data --data.split=test --json --logits
json 'd["split"] == "test" and d["samples"] == 200 and d["accuracy"] > 0.9 and len(d["logits"]) == 200 and len(d["logits"][0]) == 10'
json 'sum(map(sum, d["confusion"])) == 200 and sum(d["confusion"][i][i] for i in range(10)) == round(200 * d["accuracy"])'
json 'all(l.index(max(l)) < 10 for l in d["logits"]) and "mse" not in d and "tokens" not in d'
# precision, recall and f1 are means over the classes that occur
python3 - <<'PY'
import json
d = json.load(open("out"))
m, per = d["confusion"], {"precision": [], "recall": [], "f1": []}
for k in range(10):
    right, taken, there = m[k][k], sum(row[k] for row in m), sum(m[k])
    if taken + there == 0: continue
    per["precision"].append(right / taken if taken else 0)
    per["recall"].append(right / there if there else 0)
    per["f1"].append(2 * right / (taken + there))
for name, of in per.items(): assert abs(d[name] - sum(of) / len(of)) < 1e-12, (name, d[name], of)
PY
code 0 "$LEVIN" evaluate cnn $data --json
json 'd["split"] == "val" and d["samples"] == 100'
code 0 "$LEVIN" evaluate cnn $data --data.split=all --json
json 'd["samples"] == 1400'

# A checkpoint has PyTorch's names and layouts, and mean and std of the pixels.
python3 - <<'PY'
import json, struct
c = json.load(open("cnn/checkpoints/last/config.json"))
assert c["model_type"] == "mnist-cnn" and c["mean"] == 0.1307 and c["std"] == 0.3081, c
f = open("cnn/checkpoints/last/model.safetensors", "rb")
h = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
shapes = {k: v["shape"] for k, v in h.items() if k != "__metadata__"}
assert shapes == {"conv1.weight": [32, 1, 3, 3], "conv1.bias": [32], "conv2.weight": [64, 32, 3, 3], "conv2.bias": [64],
                  "fc1.weight": [128, 9216], "fc1.bias": [128], "fc2.weight": [10, 128], "fc2.bias": [10]}, shapes
PY

# The same steps in one run and in two parts; one image per step; mean squared error.
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.path=digits --trainer.max_epochs=2 --run_dir=whole --quiet
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.path=digits --trainer.max_epochs=2 --run_dir=parts --trainer.max_steps=5 --quiet
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.path=digits --trainer.max_epochs=2 --run_dir=parts --resume --quiet
cmp whole/checkpoints/last/model.safetensors parts/checkpoints/last/model.safetensors
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-autoencoder.yaml" --data.path=digits --run_dir=auto --json
json 'd["step"] == 1100 and d["val_loss"] < 0.09'
code 0 "$LEVIN" evaluate auto $data --data.split=test --json --logits
json 'abs(d["mse"] - d["loss"]) < 1e-12 and "accuracy" not in d and len(d["outputs"]) == 200 and len(d["outputs"][0]) == 784'

# Metrics of steps, from one validation to the next: monitored like others, and restored when a run resumes.
mlp() { code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.path=digits --optimizer.lr=1e-3 --quiet "$@"; }
measured() { grep -h train_accuracy "$1/metrics.jsonl"; } # measured RUN: the rows of validations
mlp --run_dir=patient --trainer.max_epochs=4 --early_stopping.monitor=train_accuracy --early_stopping.patience=2 \
    --early_stopping.min_delta=1 --checkpoint.monitor=train_f1
check [ "$(measured patient | wc -l)" = 3 ]
python3 - <<'PY'
import json, os
rows = [r for r in map(json.loads, open("patient/metrics.jsonl")) if "train_accuracy" in r]
assert all(0 < r[k] <= 1 for r in rows for k in ("train_accuracy", "train_precision", "train_recall", "train_f1", "val_f1")), rows
assert rows[-1]["train_accuracy"] > rows[0]["train_accuracy"] and "train_loss" not in rows[0], rows
best = max(rows, key=lambda r: r["train_f1"])
assert os.readlink("patient/checkpoints/best") == f"step-{best['step']}", best
PY
mlp --run_dir=killed --trainer.max_epochs=1 --checkpoint.every_n_steps=5
for at in killed/checkpoints/step-*; do [ "$at" = killed/checkpoints/step-5 ] || rm -r "$at"; done
mlp --run_dir=killed --trainer.max_epochs=1 --checkpoint.every_n_steps=5 --resume
mlp --run_dir=straight --trainer.max_epochs=1 --checkpoint.every_n_steps=5
diff <(measured straight) <(measured killed) || fail "a resumed run has other metrics"
# without validation: of an epoch
mlp --run_dir=unseen --trainer.max_epochs=3 --trainer.limit_val_batches=0 --early_stopping.monitor=train_loss
check [ "$(measured unseen | wc -l)" = 3 ]
lacks val_ unseen/metrics.jsonl

# Other names of the same files, in the folder that torchvision makes.
mkdir -p other/MNIST/raw
for file in digits/*; do cp "$file" "other/MNIST/raw/$(basename "$file" | sed 's/-idx/.idx/')"; done
code 0 "$LEVIN" evaluate unseen --data.path=digits --json
mv out digits.json
code 0 "$LEVIN" evaluate unseen --data.path=other --json
same_file <(grep -o '"loss": *[^,]*' digits.json) <(grep -o '"loss": *[^,]*' out)
code 0 "$LEVIN" train other --trainer.max_steps=1 --run_dir=guessed

# Wrong files, and settings that cannot be combined.
cp -r digits bad
head -c 100000 digits/train-images-idx3-ubyte.gz >bad/train-images-idx3-ubyte.gz
code 1 "$LEVIN" train $data --data.path=bad --model.kind=mnist-mlp --run_dir=no
says 'train-images-idx3-ubyte' err
cp digits/train-images-idx3-ubyte.gz bad
printf '\0\0\10\1\0\0\0\2\1\2' >bad/train-labels-idx1-ubyte
code 1 "$LEVIN" train $data --data.path=bad --model.kind=mnist-mlp --run_dir=no
says '1200 pictures' err
python3 -c "open('bad/train-labels-idx1-ubyte', 'wb').write(b'\0\0\10\1\0\0\4\260' + b'\14' * 1200)"
code 1 "$LEVIN" train $data --data.path=bad --model.kind=mnist-mlp --run_dir=no
says 'label 0 is 12' err
code 1 "$LEVIN" train $data --data.path=nowhere --model.kind=mnist-mlp --run_dir=no
says 'data.url' err
code 2 "$LEVIN" train $data --model.kind=nanogpt --run_dir=no
says 'pixels' err
code 2 "$LEVIN" train --data.kind=tokens --model.kind=mnist-mlp --run_dir=no
says 'pixels' err
code 2 "$LEVIN" train $data --model.kind=mnist-mlp --task.kind=lm --run_dir=no
says 'classify' err
check [ ! -e no ]
