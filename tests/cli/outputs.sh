# Output paths: a symbolic link is followed and kept; pipes and devices are written to or refused, and never replaced.
# Files in a run's own folder follow no link.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
head -c 20000 text.txt >input.txt
code 0 train tiny --trainer.max_steps=2 --checkpoint.every_n_steps=2

linked() { # linked NAME: a link in links/ to real/NAME, which exists
    mkdir -p links real
    printf old >"real/$1"
    ln -sfn "../real/$1" "links/$1"
}
followed() { # followed NAME: the link stayed, and its target is new and complete
    [ -L "links/$1" ] || fail "links/$1 is no link any more"
    ! cmp -s "real/$1" <(printf old) || fail "real/$1 was not written"
    [ "$(find links real -name '*.part*' -o -name '.*.tmp-*' | wc -l)" = 0 ] || fail "something is left: $(ls -A links real)"
}
taken() { # taken FIFO COMMAND...: what comes out of the pipe goes to `took`
    local pipe=$1
    shift
    rm -f "$pipe"
    mkfifo "$pipe"
    timeout 600 cat "$pipe" >took &
    code 0 "$@"
    wait $!
    [ -p "$pipe" ] || fail "$pipe was replaced"
}
nowhere() { # nowhere PATH COMMAND...: refused with one sentence about PATH
    local path=$1
    shift
    code "$@"
    one_error
    says "$path" err
}

# --- cp ---
linked copy.txt
code 0 "$LEVIN" cp text.txt links/copy.txt
followed copy.txt
same_file text.txt real/copy.txt
ln -s ../real/new.txt links/new.txt # its target does not exist yet
code 0 "$LEVIN" cp text.txt links/new.txt
same_file text.txt real/new.txt
taken pipe "$LEVIN" cp text.txt pipe
same_file text.txt took
"$LEVIN" cp text.txt /dev/stdout | cmp - text.txt || fail "cp to standard output, a pipe"
"$LEVIN" cp text.txt /dev/stdout >got.txt
same_file text.txt got.txt
"$LEVIN" cp text.txt /dev/stdout >>got.txt
cat text.txt text.txt | cmp - got.txt || fail "cp to the end of a file"
sum=$(sha256sum text.txt | cut -d' ' -f1)
"$LEVIN" cp text.txt /dev/stdout --sha256="$sum" | cmp - text.txt || fail "cp with a checksum"
if "$LEVIN" cp text.txt /dev/stdout --sha256="${sum//[1-9a-f]/0}" >got.txt 2>err; then fail "a wrong checksum"; fi
one_error
says "nevertheless" err
nowhere "/dev/stdout" 2 "$LEVIN" cp text.txt /dev/stdout --json
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
nowhere "it is a socket" 1 "$LEVIN" cp text.txt socket
check [ -S socket ]
if mknod null c 1 3 2>/dev/null && { : >null; } 2>/dev/null; then # only where devices can be created
    code 0 "$LEVIN" cp text.txt null
    check [ -c null ]
    code 0 "$LEVIN" config null --job=chars --data.path=text.txt
    code 0 "$LEVIN" launch --slurm --out=null "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml"
    nowhere "null" 1 "$LEVIN" evaluate tiny --data.path=input.txt --gradients=null
    nowhere "null" 1 "$LEVIN" export tiny null
    check [ -c null ]
    mkdir -p device
    mv null device/train.bin
    nowhere "device/train.bin" 1 "$LEVIN" prepare input.txt --out=device --overwrite
    check [ -c device/train.bin ]
    rm -r device
fi

# --- config and batch scripts ---
linked recipe.yaml
code 0 "$LEVIN" config links/recipe.yaml --job=chars --data.path=text.txt --overwrite
followed recipe.yaml
"$LEVIN" config /dev/stdout --job=chars --data.path=text.txt 2>err >got.yaml
diff <(tail -n +6 got.yaml) <(tail -n +6 real/recipe.yaml) || fail "another recipe on standard output" # its name is above
linked job.sh
code 0 "$LEVIN" launch --slurm --out=links/job.sh links/recipe.yaml
followed job.sh
"$LEVIN" launch --slurm --out=/dev/stdout links/recipe.yaml >got.sh
diff <(tail -n +5 got.sh) <(tail -n +5 real/job.sh) || fail "another script on standard output" # its name is above

# --- reports ---
mkdir run
echo '{"step": 1, "loss": 3}' >run/metrics.jsonl
linked report.html
code 0 "$LEVIN" report run --overwrite --out links/report.html
followed report.html
"$LEVIN" report run --out /dev/stdout >got.html
[ "$(head -c 9 got.html)" = "$(head -c 9 real/report.html)" ] || fail "another report on standard output"
taken pipe "$LEVIN" report run --out pipe
[ "$(head -c 9 took)" = "$(head -c 9 real/report.html)" ] || fail "another report in a pipe"
code 2 "$LEVIN" report run --watch --out /dev/stdout
says "--watch draws the report again and again" err
[ -h /dev/stdout ] || fail "/dev/stdout is replaced"

# --- data, tokenizers, models ---
for name in train.bin train.bin.json val.bin val.bin.json; do linked $name; done
code 0 "$LEVIN" prepare input.txt --out=links --overwrite
for name in train.bin train.bin.json val.bin val.bin.json; do followed $name; done
for name in tokenizer.json vocab.json; do linked $name; done
code 0 "$LEVIN" tokenizer train --input=input.txt --vocab-size=300 --out=links --overwrite
for name in tokenizer.json vocab.json; do followed $name; done
for name in train.bin val.bin; do linked $name; done
code 0 "$LEVIN" prepare text --input=input.txt --tokenizer=links --out=links --overwrite
for name in train.bin val.bin train.bin.json; do followed $name; done
rm links/train.bin
mkfifo links/train.bin
nowhere "links/train.bin" 1 "$LEVIN" prepare text --input=input.txt --tokenizer=real --out=links --overwrite
check [ -p links/train.bin ]
linked gradients.safetensors
code 0 "$LEVIN" evaluate tiny --data.path=input.txt --gradients=links/gradients.safetensors
followed gradients.safetensors
mkdir exported elsewhere
ln -s ../elsewhere/weights exported/model.safetensors
ln -s elsewhere/checkpoint model.pt
code 0 "$LEVIN" export tiny exported
check [ -L exported/model.safetensors ]
check [ -s elsewhere/weights ]
code 0 "$LEVIN" export tiny model.pt
check [ -L model.pt ]
check [ -s elsewhere/checkpoint ]

# --- a run's own folder: a link in it is not followed ---
printf mine >mine.txt
code 0 train tiny --trainer.max_steps=2 --checkpoint.every_n_steps=2 --sample.every_n_steps=1 --overwrite
for name in .lock metrics.csv metrics.jsonl samples.txt; do
    cp -r tiny planted
    ln -sf ../mine.txt "planted/$name"
    train planted --trainer.max_steps=3 --sample.every_n_steps=1 --resume >out 2>err || true
    [ "$(cat mine.txt)" = mine ] || fail "planted/$name was followed: $(cat mine.txt)"
    [ ! -L "planted/$name" ] || says "planted/$name" err # replaced, or named in the message
    rm -r planted
done
mkdir -p planted/logs
ln -s ../../mine.txt planted/logs/rank-0.log
code 0 "$LEVIN" launch --launcher=levin -n 1 --log-dir=planted/logs -- help
[ "$(cat mine.txt)" = mine ] || fail "rank-0.log was followed: $(cat mine.txt)"
says "symbolic link" err
