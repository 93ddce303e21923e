#!/usr/bin/env bash
# one-step.sh PROGRAM SOURCE - the loss of the batch is lower after the step than before, and both are near ln 16 = 2.77.
set -eu
program=$1
"$program" | tee /dev/stderr | awk '/loss before/ {before = $NF} /loss after/ {after = $NF}
    END {exit !(before > 2 && before < 4 && after > 1 && after < before - 0.1)}' || {
    echo "the losses before and after the step are not as they should be"
    exit 1
}
