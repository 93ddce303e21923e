# TensorBoard's own reader returns every row of metrics.jsonl, except clocks and counts of restarts, also for a run resumed from a checkpoint.
# It is searched for where python3 finds packages, and in parts/tensorboard of the source folder, where tools/setup.sh
# --dev installs it.
. "$LEVIN_SOURCE/tests/cli/common.bash"
export PYTHONPATH=$LEVIN_SOURCE/parts/tensorboard${PYTHONPATH:+:$PYTHONPATH}
python3 -c 'import tensorboard' 2>/dev/null || { echo "TensorBoard is not installed (tools/setup.sh --dev installs it)" && exit 77; }
make_text
read_back() { # read_back RUN
    python3 - "$1" <<'P'
import json, struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1] + "/tensorboard", size_guidance={"scalars": 0})
read.Reload()
rows = {}
for row in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")):
    for tag, value in row.items():
        if tag not in ("step", "epoch", "time", "memory_bytes", "goodput", "restarts", "restart_seconds"): rows.setdefault(tag, []).append((row["step"], struct.unpack("<f", struct.pack("<f", value))[0]))
assert sorted(read.Tags()["scalars"]) == sorted(rows), (read.Tags(), sorted(rows))
for tag, wanted in rows.items():
    got = [(e.step, e.value) for e in read.Scalars(tag)]
    assert [s for s, _ in got] == [s for s, _ in wanted], (tag, got, wanted)
    assert all(abs(x - y) <= 1e-6 * abs(y) for (_, x), (_, y) in zip(got, wanted)), (tag, got, wanted)
P
}
code 0 train run
read_back run
cp -r run/checkpoints checkpoints
# resumed within the same second, on a host whose clock is behind
first=$(ls run/tensorboard)
mv run/tensorboard/$first run/tensorboard/events.out.tfevents.$(($(date +%s) + 100)).z${first#*.*.*.*}
code 0 train run --trainer.max_steps=16 --resume
read_back run
# killed after its last checkpoint: later steps are repeated, and count once
rm -r run/checkpoints
mv checkpoints run/checkpoints
code 0 train run --trainer.max_steps=12 --resume
read_back run
check [ "$(ls run/tensorboard | wc -l)" = 3 ]
