#!/usr/bin/env bash
# own-model.sh PROGRAM SOURCE - a user's model in C must build, train and learn: after 200 steps on levin's own sources
# the validation loss is far below that of guessing (ln of the number of characters, above 4.5).
# label: computes
set -eu
program=$1 source=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat "$source"/src/*/*/*.c > text
"$program" text 200 | tee out
awk '/validation/ {loss = $NF} END {exit !(loss > 0.5 && loss < 3.2)}' out || {
    echo "the last validation loss is not between 0.5 and 3.2"
    exit 1
}
test -s runs/own-model/checkpoints/last/model.safetensors
test -s runs/own-model/loss.svg
if "$program" text 200 2> err; then
    echo "a second run into the same folder was not refused"
    exit 1
fi
grep -q "already contains a run" err
