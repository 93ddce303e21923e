# Token files that are read while they are downloaded: the same bits as from local files, before, during and after the download; a
# file that changes meanwhile is never mixed with its old version.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
web_server
random_file bytes 40000000
python3 -c 'd=open("bytes","rb").read(); b=bytearray(2*len(d)); b[::2]=d; open("web/train.bin","wb").write(b)' # 80 MB of small ids
tokens=(--data.kind=tokens --model.vocab_size=256 --trainer.max_steps=8)
train here "${tokens[@]}" --data.path=web/train.bin 2>err
stream() { train "$@" "${tokens[@]}" --data.path=$web/plain/train.bin --data.stream=true; }
cached() { [ -n "$(find cache/files -name train.bin)" ]; }
# the server holds each piece of 8 MiB back, and none for a window
export LEVIN_STORE_THREADS=1
ask control/slow/60 >/dev/null
stream before 2>err
same_run here before
! cached || fail "the run waited for its data"
# it is downloaded while the run continues
ask control/slow/off >/dev/null
more=("${tokens[@]:0:2}" --checkpoint.every_n_steps=0 --data.stream=true --data.path=$web/plain/train.bin)
LEVIN_STORE_THREADS=8 start while "${more[@]}" --trainer.max_steps=1000000
soon cached
before=$(rows while)
wait_rows while $((before + 50)) # some steps on the downloaded part
kill -TERM $pid
ended
check [ $got = 75 ]
at=$(readlink while/checkpoints/last)
end=$(((${at#step-} / 4 + 1) * 4)) # a step at which both runs validate
train while "${more[@]}" --trainer.max_steps=$end --resume 2>err
train long "${tokens[@]:0:2}" --checkpoint.every_n_steps=0 --data.path=web/train.bin --trainer.max_steps=$end 2>err
same_run long while
# and after the download
stream after 2>err
same_run here after
# and from a cache on a network file system, which is not mapped (see cli/network_files.sh)
if ! grep -q __asan_init "$LEVIN"; then
    LD_PRELOAD=$LEVIN_BUILD/tests/double/libnfs.so stream far 2>err
    same_run here far
fi
# small files are downloaded first; a server without range requests is reported
head -c 200000 web/train.bin >web/small.bin
train small_here "${tokens[@]}" --data.path=web/small.bin 2>err
train small "${tokens[@]}" --data.path=$web/plain/small.bin --data.stream=true 2>err
same_run small_here small
# a server that forbids what is not there, such as a bucket that may not be listed: files that may be missing are
train forbidden "${tokens[@]}" --data.path=$web/missing/403/small.bin 2>err
same_run small_here forbidden
# and one that answers otherwise, or with a page; a query is for one file
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" web
echo "some words" >words
code 0 "$LEVIN" tokenize --tokenizer=web/tokenizer.json <words
mv out ids
for place in missing/401/tokenizer.json missing/410/tokenizer.json missing/200/tokenizer.json "plain/tokenizer.json?ref=a/b"; do
    code 0 "$LEVIN" tokenize --tokenizer="$web/$place" <words
    same_file ids out
done
arguments refused "${tokens[@]}" --data.path=$web/noranges/train.bin --data.stream=true
code 1 "$LEVIN" "${all[@]}"
one_error
says "cannot stream " err
# the file changes during the download
arguments changed "${tokens[@]}" --data.path=$web/changing/train.bin --data.stream=true
code 1 "$LEVIN" "${all[@]}"
one_error
says "changed while it was read" err
