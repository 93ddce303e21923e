# Servers that fail: a transfer ends with the right bytes or with one error message, never with a wrong file. Killed transfers resume to the
# same bytes.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
web_server
random_file web/f 20000000
random_file web/small 5000
: >web/empty
export LEVIN_STORE_TRIES=3
fetched() { # fetched PATH FILE: it arrives complete
    code 0 cp_ $web/$1 got
    same_file web/$2 got
    check [ ! -e got.part ] && check [ ! -e got.part.done ]
    rm got
}
fetched plain/f f
fetched plain/small small
fetched plain/empty empty
fetched noranges/f f
fetched noranges/empty empty
fetched norange_cut/3000000/f f
fetched cut/1500000/f f
fetched cut/1000/small small
for n in 500 502 503 504 408 429; do fetched first/$n/f f; done
fetched chaos/1/small small
refused() { # refused PATH TEXT...
    local path=$1
    shift
    code 1 cp_ $web/$path got
    one_error
    for text; do says "$text" err; done
    check [ ! -e got ]
    rm -f got.part got.part.done
}
refused always/500/f "500 (server error)" "trying 3 times"
refused always/503/f "503 (overloaded)" "trying 3 times"
refused always/403/f "403 (forbidden)"
silent_about "trying" err
refused always/404/f "there is nothing at"
refused cut/0/small "trying 3 times"
refused short/small "416 (no such range)"
refused wrongrange/f "did not send the requested range"
refused changing/f "the file changed while it was read"
refused none/f "there is nothing at"
refused huge/f "is too large"
# wrong bytes are detected if a checksum is known
sum=$(sha256sum <web/f | cut -d' ' -f1)
for isa in generic ""; do LEVIN_ISA=$isa code 0 cp_ --sha256=$sum $web/plain/f got; done
code 1 cp_ --sha256=$sum $web/wrong/f got2
says "is not the expected file: its SHA-256 is" err
check [ ! -e got2 ] && check [ ! -e got2.part ]
code 1 "$LEVIN" cp http://127.0.0.1:1/f got3
says "127.0.0.1" err
# killed at any moment
export LEVIN_STORE_THREADS=3
timed "$LEVIN" cp $web/plain/f whole
kills=0
for i in $(seq 12); do
    killed_midway "$LEVIN" cp $web/plain/f killed
    rm -f killed # only what remains of those that were interrupted
done
check [ $kills -gt 0 ]
code 0 cp_ $web/plain/f killed
same_file web/f killed
# a stopped transfer reports that, and the same command downloads only the rest; damage to the first part is detected
random_file web/g 40000000
ask control/slow/1 >/dev/null # one second for each piece, so that the signal arrives during the transfer
start_slowly() { LEVIN_STORE_THREADS=1 "$LEVIN" cp $web/cut/8388608/g half >out 2>err & pid=$!; }
some_pieces() { # until some have arrived
    while kill -0 $pid 2>/dev/null; do [ -f half.part.done ] && [ "$(wc -l <half.part.done)" -gt 2 ] && break || sleep 0.01; done
}
for _ in 1 2 3 4 5; do # on a busy machine it may end before the signal arrives
    start_slowly
    some_pieces
    kill -INT $pid 2>/dev/null || true
    ended
    [ $got != 75 ] || break
    rm -f half
done
check [ $got = 75 ]
says "stopped" err
check [ ! -e half ] && check [ -e half.part ]
ask control/slow/off >/dev/null
ask log >/dev/null
code 0 cp_ $web/cut/8388608/g half
same_file web/g half
ask log >requests
lacks "bytes=0-8388607" requests
ask control/slow/1 >/dev/null
for _ in 1 2 3 4 5; do
    rm -f half
    start_slowly
    some_pieces
    kill -9 $pid 2>/dev/null || true
    ended
    [ $got != 137 ] || break
done
check [ $got = 137 ]
ask control/slow/off >/dev/null
printf XXXX | dd of=half.part bs=1 seek=100 conv=notrunc 2>dd.err
code 0 cp_ $web/cut/8388608/g half
same_file web/g half
# three at a time: one fetches until the others wait for it
ask control/slow/60 >/dev/null
ask log >/dev/null
pids=()
for i in 1 2 3; do
    LEVIN_STORE_THREADS=8 timeout -k 3 600 "$LEVIN" cp $web/plain/g together >out.$i 2>&1 &
    pids+=($!)
done
all_open() { [ "$(find /proc/[0-9]*/fd -lname "$PWD/together.part" 2>/dev/null | cut -d/ -f3 | sort -u | wc -l)" = 3 ]; }
soon all_open
ask control/slow/off >/dev/null
for pid in "${pids[@]}"; do wait $pid; done
same_file web/g together
ask log >requests
check [ "$(grep -c 'plain/g bytes=0-8388607' requests)" = 1 ]
# a process that waits for another one's download can be stopped
exec 9>stuck.part
flock 9
ask log >/dev/null
: >requests
asked() { ask log >>requests && grep -q "plain/f bytes=0-0" requests; } # what was answered once is not answered again
"$LEVIN" cp $web/plain/f stuck >out 2>err 9>&- &
pid=$!
soon asked
kill -INT $pid
ended
check [ $got = 75 ]
exec 9>&-
rm stuck.part
# the disk is full
(ulimit -f 4096 && code 1 cp_ $web/plain/f full && one_error && says "cannot write" err)
check [ ! -e full ]
