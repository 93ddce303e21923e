# If a checkpoint cannot be written, the run continues with a warning, earlier checkpoints stay unchanged, and saving works again
# when space is free. Tested with a limit on file sizes and with a full file system.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
code 0 train whole --trainer.max_steps=16

# --- files of at most 32 KiB: the weights fit, the optimizer's state does not ---
code 0 train run
folder_listing run/checkpoints >before
check [ "$(stat -c %s run/checkpoints/last/state/optimizer.safetensors)" -gt 32768 ]
arguments run --trainer.max_steps=16 --resume
code 1 bash -c 'ulimit -f 32; exec "$@"' _ "$LEVIN" "${all[@]}"
check [ "$(grep -c 'the checkpoint of step [0-9]* could not be saved: .*; the run continues' err)" -ge 2 ]
one_error
says "error: training has finished, but its last checkpoint (step 16) could not be saved; free some space and continue with --resume" err
check [ "$(grep -c '"loss"' run/metrics.jsonl)" = 16 ]
folder_listing run/checkpoints | diff before - || fail "earlier checkpoints were changed"
code 0 train run --trainer.max_steps=16 --resume
same_run whole run
# nothing was ever saved: the run ends at the first checkpoint that cannot be written, not after all steps
rm -rf run
arguments run --trainer.max_steps=16
code 1 bash -c 'ulimit -f 32; exec "$@"' _ "$LEVIN" "${all[@]}"
one_error
says "could not be saved: cannot write" err
says "the run ends, because it has no earlier checkpoint to resume from; free some space if the disk is full, and start it again" err
check [ "$(grep -c '"loss"' run/metrics.jsonl)" -lt 16 ]
# a stop on request ends with 1, not 75, if no checkpoint can be saved
rm -rf run
arguments run --trainer.max_steps=1000000 --checkpoint.every_n_steps=0 --trainer.val_check_interval=0
(ulimit -f 32 && exec "$LEVIN" "${all[@]}") >out 2>err &
pid=$!
wait_rows run 3
kill -TERM $pid
ended
check [ "$got" = 1 ]
says "could not be saved" err

# all other commands that write a file also report the limit
code 0 train run --overwrite
for command in "export run exported" "report run --out=out.html"; do
    code 1 bash -c 'ulimit -f 1; exec "$@"' _ "$LEVIN" $command
    one_error
    says "File too large" err
done
check [ ! -e out.html ]

# --- a file system of 512 KiB ---
if ! unshare -rm true 2>/dev/null || ! unshare -rm bash -c 'mount -t tmpfs -o size=512k none /mnt' 2>/dev/null; then
    echo "skipped the part with a full disk: this user cannot mount a file system"
    exit 0
fi
cat >full.sh <<'F'
. "$LEVIN_SOURCE/tests/cli/common.bash"
mkdir disk
mount -t tmpfs -o size=512k none disk
start disk/run --trainer.max_steps=1000000
while [ ! -L disk/run/checkpoints/last ]; do sleep 0.01; done
head -c 1M /dev/zero >disk/filler 2>/dev/null || true
until grep -q 'the checkpoint of step [0-9]* could not be saved' err; do kill -0 $pid || fail "the run ended: $(cat err)"; sleep 0.01; done
kept=$(readlink disk/run/checkpoints/last)
rm disk/filler
until [ "$(readlink disk/run/checkpoints/last)" != "$kept" ]; do kill -0 $pid || fail "the run ended: $(cat err)"; sleep 0.01; done
kill -TERM $pid
ended
check [ "$got" = 75 ]
at=$(readlink disk/run/checkpoints/last)
python3 -c 'import json; [json.loads(line) for line in open("disk/run/metrics.jsonl")]' || fail "half a row in metrics.jsonl"
# the run must have the weights of a run with the same number of steps and no full disk
end=$(((${at#step-} / 4 + 1) * 4))
code 0 train disk/run --resume --trainer.max_steps=$end
code 0 train other --trainer.max_steps=$end
same_weights other disk/run
# a disk that is full from the start: one sentence, no crash
head -c 1M /dev/zero >disk/filler 2>/dev/null || true
code 1 train disk/new
one_error
F
unshare -rm bash -eu -o pipefail full.sh
