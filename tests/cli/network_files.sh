# Data on a network file system (lvn_path_is_local()): read and not mapped, with the bits of a local run; a file that is truncated
# during a run causes one error message, and no signal.
. "$LEVIN_SOURCE/tests/cli/common.bash"
nfs=$(dirname "$LEVIN")/tests/double/libnfs.so
[ -e "$nfs" ] || { echo "tests/double/libnfs.so is not built"; exit 77; }
! grep -q __asan_init "$LEVIN" || { echo "skipped: a sanitizer" && exit 77; }
far() { LD_PRELOAD=$nfs "$@"; }
make_text
# small ids at the beginning of a sparse file of 300 MB
LC_ALL=C awk 'BEGIN { for (x = 7; n < 100000; n++) { x = x * 16807 % 2147483647; printf "%c%c", 1 + x % 60, 0 } }' >long.bin
check [ "$(stat -c %s long.bin)" = 200000 ]
truncate -s 300000000 long.bin
head -c 200000 long.bin >short.bin
for data in text.txt short.bin long.bin; do
    keys=(--data.path=$data)
    [ $data = text.txt ] || keys+=(--data.kind=tokens --data.val_path=short.bin --model.vocab_size=64)
    train here.$data "${keys[@]}" 2>err
    far train far.$data "${keys[@]}" 2>err
    same_run here.$data far.$data
done
grep -q '"loss": 4\.[0-9]*' far.short.bin/metrics.jsonl || fail "no losses"

endless=(--trainer.max_steps=1000000000 --trainer.val_check_interval=0 --checkpoint.every_n_steps=0)
for data in text.txt long.bin; do
    [ $data = text.txt ] && keys=(--data.path=text.txt)
    LD_PRELOAD=$nfs start cut.$data "${keys[@]}" "${endless[@]}"
    ! grep -F $data /proc/$pid/maps || fail "$data is mapped"
    before=$(rows cut.$data)
    truncate -s 0 $data
    [ $data != text.txt ] || wait_rows cut.$data $((before + 20))
    [ $data != text.txt ] || kill -TERM $pid
    ended
    [ $data = text.txt ] && wanted=75 || wanted=1
    [ $got = $wanted ] || { cat out err && fail "$data: exit $got, wanted $wanted"; }
    keys=(--data.path=long.bin --data.kind=tokens --data.val_path=short.bin --model.vocab_size=64)
done
one_error
grep -Eq "^error: 'long.bin' ends after [0-9]+ bytes: it was truncated while it was read" err || fail "no sentence"
