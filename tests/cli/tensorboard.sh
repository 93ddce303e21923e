# logger.tensorboard: every row of metrics.jsonl is an event, also in a resumed run; without the option there are none.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
events() { # events RUN: STEP TAG VALUE of each scalar, without what depends on the time; files in the order of their names
    python3 - "$1" <<'P'
import glob, struct, sys
def varint(b, i):
    x = shift = 0
    while True:
        x |= (b[i] & 127) << shift
        shift, i = shift + 7, i + 1
        if b[i - 1] < 128: return x, i
def fields(b):
    i = 0
    while i < len(b):
        key, i = varint(b, i)
        kind = key & 7
        if kind == 0: v, i = varint(b, i)
        elif kind == 1: v, i = b[i:i + 8], i + 8
        elif kind == 5: v, i = b[i:i + 4], i + 4
        else:
            n, i = varint(b, i)
            v, i = b[i:i + n], i + n
        yield key >> 3, v
for path in sorted(glob.glob(sys.argv[1] + "/tensorboard/*")):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        n, = struct.unpack_from("<Q", data, at)
        event = dict(fields(data[at + 12:at + 12 + n]))
        at += 12 + n + 4
        if 5 not in event: continue
        for _, scalar in fields(event[5]):
            value = dict(fields(scalar))
            tag = value[1].decode()
            if tag != "tokens_per_s": print(event.get(2, 0), tag, "%.6g" % struct.unpack("<f", value[2]))
P
}
rows() { python3 -c 'import json, struct, sys
for line in open(sys.argv[1] + "/metrics.jsonl"):
    row = json.loads(line)
    for tag in row:
        if tag not in ("step", "tokens_per_s", "epoch", "time", "memory_bytes", "goodput", "restarts", "restart_seconds"): print(row["step"], tag, "%.6g" % struct.unpack("<f", struct.pack("<f", row[tag])))' "$1"; }
same() { diff <(rows "$1") <(events "$1") || fail "the events of $1 are not its rows"; }

code 0 train run
same run
check [ "$(events run | wc -l)" = $((8 * 3 + 2 * 3)) ]
code 0 train run --trainer.max_steps=12 --resume
check [ "$(ls run/tensorboard | wc -l)" = 2 ]
same run
code 0 train run --overwrite # --overwrite removes the events of the former run
check [ "$(ls run/tensorboard | wc -l)" = 1 ]
same run
# but nothing that another program wrote there
cp run/tensorboard/* run/tensorboard/events.out.tfevents.0000000001.other
code 2 train run --overwrite
one_error
says "'run/tensorboard/events.out.tfevents.0000000001.other' was not written by levin" err
rm run/tensorboard/*.other
code 0 train plain --logger.tensorboard=false
check [ ! -e plain/tensorboard ]
same_run plain run
