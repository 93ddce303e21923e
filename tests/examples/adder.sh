#!/usr/bin/env bash
# adder.sh PROGRAM SOURCE - a model must learn to add from the program's own samples: at least 99 % of the sums that were
# held out come out right, and far fewer of them after a few steps.
# label: computes
set -eu
program=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
right() { # right STEPS: of the 500 sums that were held out
    rm -rf runs
    "$program" "$1" >out
    cat out >&2
    sed -n 's/^\([0-9]*\) of 500 sums .*/\1/p' out
}
few=$(right 100) many=$(right 3000)
[ "$few" -lt 100 ] && [ "$many" -ge 495 ] || {
    echo "$few sums are right after 100 steps, and $many after 3000: wanted less than 100, and at least 495"
    exit 1
}
if "$program" 100 2>err; then
    echo "a second run into the same folder was not refused"
    exit 1
fi
grep -q "already contains a run" err
