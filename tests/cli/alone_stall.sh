# A run of one rank that hangs ends with a sentence and exit code 76, as one of many ranks does (trainer.stall_timeout); a run
# that was stopped and continued (SIGSTOP, SIGCONT) continues to train.
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ -z "${LVN_SANITIZE:-}" ] || { echo "sanitizers want to be loaded first"; exit 77; }
still=$(dirname "$LEVIN")/tests/double/libstill.so
[ -e "$still" ] || { echo "tests/double/libstill.so is not built"; exit 77; }
make_text
held() { timeout -k 5 600 env LD_PRELOAD="$still" STILL_FILE="$1" "$LEVIN" "${all[@]}"; } # held FILE
ends() { # ends WHERE: of the run in err
    one_error
    grep -qE "^warning: no rank has made progress for .*; the run ends in .* unless one makes progress \(trainer.stall_timeout\)" err ||
        fail "not warned at half of the time: $(cat err)"
    grep -qE "^error: no rank has made progress for .*$1; check that its data and file systems respond" err ||
        fail "not said where: $(cat err)"
}
# before the first step: the data
echo yes >text.txt.still
arguments data --trainer.stall_timeout=2
code 76 held text.txt
ends "rank 0 on .* is busy: opening the data"
rm text.txt.still
# in the middle: a file of the run
mkdir run
echo yes >run/samples.txt.still
arguments run --trainer.stall_timeout=2 --sample.every_n_steps=4 --sample.max_new_tokens=2
code 76 held samples.txt
ends "since step 4: rank 0 on .* is busy: a sample"
says '"state": "fault"' run/status.json
# time in which the process was stopped is no stall; 0 is no limit
start stopped --trainer.stall_timeout=2 --trainer.max_steps=1000000000 --trainer.val_check_interval=0 --checkpoint.every_n_steps=1000000
kill -STOP $pid
sleep 4
kill -CONT $pid
sleep 2
kill -TERM $pid || true
ended
[ "$got" = 75 ] || fail "stopped and continued: exit $got, $(cat err)"
# a micro-batch that takes longer than the limit is no stall: each of its operations is progress
arguments long --trainer.stall_timeout=2 --trainer.max_steps=1 --trainer.val_check_interval=0 --model.n_layer=32 --model.n_head=4 \
    --model.n_embd=128 --model.block_size=256 --trainer.batch_size=64 --trainer.micro_batch_size=64
code 0 "$LEVIN" "${all[@]}"
