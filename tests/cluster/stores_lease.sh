# One job per run: of two jobs that begin in the same run of a store, or of a folder that two machines share, one trains and the
# other is refused with the first one's name. After an owner is killed, another job waits until its
# lease expires; the same job, or one on the same machine, starts immediately. An owner that was stopped for longer than its lease
# ends, and overwrites nothing.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
export USER=tester
make_text
jobs=()
trap 'for job in "${jobs[@]}"; do kill -KILL "$job" 2>/dev/null || true; done
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; done' EXIT
forever=(--trainer.max_steps=100000000 --trainer.val_check_interval=0 --logger.curve=false --trainer.threads=1)
often=--checkpoint.every_n_steps=300 never=--checkpoint.every_n_steps=1000000000
alive="--trainer.rank_timeout=5 $often" dying="--trainer.rank_timeout=1.5 $often" # leases of 10 and 3 seconds
refused="another job is training in '%s', which belongs to %s of user tester on host $(hostname) (pid %s), since 20"
# begin NAME RUN [keys]: a job with its own cache folder, which simulates a separate machine; its output is in NAME.err, its process number in NAME.pid
begin() {
    local name=$1
    shift
    : >"$name.err"
    arguments "$@" "${forever[@]}" --resume
    LEVIN_CACHE=$PWD/cache.$name "$LEVIN" "${all[@]}" >"$name.out" 2>"$name.err" &
    jobs+=($!)
    echo $! >"$name.pid"
}
signal() { kill -"$2" "$(cat "$1.pid")"; } # signal NAME SIGNAL
over() { # over NAME: its exit code, in $got
    pid=$(cat "$1.pid")
    ended
}
trains() { has "saved " "$1.err"; } # trains NAME: it has saved a checkpoint, so it has the lease
named() { printf "$refused" "$@"; }  # named RUN JOB PID
one_won() { # one of the two jobs has saved a checkpoint, and the other one has ended; sets w (winner) and l (loser)
    for w in one two; do
        [ $w = one ] && l=two || l=one
        if has "saved " $w.err && ! kill -0 "$(cat $l.pid)" 2>/dev/null; then return; fi
    done
    return 1
}
race() { # race RUN: two jobs that start at the same time
    LEVIN_JOB_ID=first begin one "$1" $alive
    LEVIN_JOB_ID=second begin two "$1" $alive
    soon one_won
    [ $w = one ] && job=first || job=second
    over $l
    check [ $got = 1 ]
    says "$(named "$1" "job $job" "$(cat $w.pid)")" $l.err
    silent_about "saved " $l.err
    check [ "$(grep -c '^error: ' $l.err)" = 1 ]
}
stop() { # stop NAME: as a scheduler does
    signal "$1" TERM
    over "$1"
    check [ $got = 75 ]
}
away() { # away RUN: job `one` is stopped for longer than its lease, and job `two` takes over the run
    begin one "$1" --trainer.rank_timeout=1.5 $never --trainer.log_every_n_steps=300
    soon has "step  " one.err
    signal one STOP
    begin two "$1" $alive
    soon trains two
    says "waiting 3 s to see whether it is alive" two.err
    says "the job did not renew its lease of '$1' for 3 s: this job takes over the lease" two.err
}
back() { # back RUN: job `one` continues while job `two` has the lease
    signal one CONT
    over one
    check [ $got = 1 ]
    says "'$1' belongs to another job now, a run of user tester on host $(hostname) (pid $(cat two.pid)), since 20" one.err
    check [ "$(grep -c '^error: ' one.err)" = 1 ]
}

# --- a store of S3's protocol with conditions ---
s3_server
SECONDS=0
there=s3root/bucket/runs
race s3://bucket/runs/race
silent_about "ignores the conditions" $w.err
check [ -s $there/race/.lease ]
# a third job, on the winner's machine: the lock of the cache folder refuses it
LEVIN_CACHE=$PWD/cache.$w code 1 "$LEVIN" "${all[@]}"
one_error
says "another process is training in 's3://bucket/runs/race' (job $job of user tester" err
stop $w
check [ ! -e $there/race/.lease ]
# Expected PUTs: two creations (one refused), the probe for conditional writes, and three renewals per ten seconds.
check [ "$(grep -cE 'PUT .*/\.lease' s3.log)" -le $((8 + SECONDS / 3)) ]

# killed: a restart on the same machine, or of the same job, does not wait
begin one s3://bucket/runs/killed $alive
soon trains one
soon test -s $there/killed/checkpoints/last
signal one KILL
over one
check [ -s $there/killed/.lease ]
code 0 "$LEVIN" ls --recursive s3://bucket/runs/killed
lacks .lease out
code 0 cp_ --recursive s3://bucket/runs/killed copied
check [ ! -e copied/.lease ]
mv cache.one cache.again
LEVIN_JOB_ID=job begin again s3://bucket/runs/killed $alive
soon trains again
signal again KILL
over again
LEVIN_JOB_ID=job begin pod s3://bucket/runs/killed $alive
soon trains pod
silent_about waiting again.err
silent_about waiting pod.err
stop pod

# stopped for longer than its lease: the first job overwrites nothing of the second
away s3://bucket/runs/away
stop two
(cd $there/away && find . -type f -exec cksum {} + | sort) >before
signal one CONT
over one
check [ $got = 1 ]
check [ "$(grep -c '^error: ' one.err)" = 1 ]
says "the lease of 's3://bucket/runs/away' was removed while it could not be renewed" one.err
(cd $there/away && find . -type f -exec cksum {} + | sort) | diff before - || fail "the lost run has changed the store"
away s3://bucket/runs/away
back s3://bucket/runs/away
check kill -0 "$(cat two.pid)"
stop two

# --- no bucket, no permission: refused before the first step, for the run and for the data ---
no_bucket() { # no_bucket RUN SENTENCE [keys]
    arguments "$1" "${@:3}"
    code 1 "$LEVIN" "${all[@]}"
    one_error
    says "$2" err
    silent_about "step " err
}
denied() { AWS_SECRET_ACCESS_KEY=wrong no_bucket "$@"; }
no_bucket s3://nobucket/runs/a "NoSuchBucket"
denied s3://bucket/runs/a "SignatureDoesNotMatch"
no_bucket local "NoSuchBucket" --data.path=s3://nobucket/text.txt
denied local "SignatureDoesNotMatch" --data.path=s3://bucket/text.txt
check [ ! -e local ] && check [ ! -e $there/a ]

# --- an address without a server, and unusable key files of Google ---
web_server
AWS_ENDPOINT_URL=http://127.0.0.1:9 no_bucket s3://bucket/runs/a "check the address, and this machine's network"
key() { NO_GCE_CHECK=true GOOGLE_APPLICATION_CREDENTIALS=key.json no_bucket local "$1" --data.path=gs://bucket/text.txt; }
key "GOOGLE_APPLICATION_CREDENTIALS is 'key.json', but this file does not exist: set it to a key file, or unset it"
echo '{"type": "service_account"' >key.json
key "key.json:2: invalid JSON"
echo '{"type": "service_account", "client_email": "a@b"}' >key.json
key "key.json: 'private_key' is missing"
if command -v openssl >/dev/null; then # a key that the server rejects
    : >web/token
    openssl genrsa 2048 2>/dev/null | python3 -c 'import json, sys
print(json.dumps({"type": "service_account", "client_email": "a@b", "private_key": sys.stdin.read(), "token_uri": sys.argv[1]}))' \
        "$web/always/400/token" >key.json
    key "if the key was removed, create a new one; if this machine's clock is wrong, set it"
fi

# --- Google's protocol: with conditions, and a server that ignores them ---
for server in fake-gcs-server gcp-storage-emulator; do
    gs_server $server || { echo "skipped $server, which is not installed"; continue; }
    race gs://bucket/race
    if [ $server = gcp-storage-emulator ]; then
        says "the store of 'gs://bucket/race' ignores the conditions of writes" $w.err
    else
        silent_about "ignores the conditions" $w.err
    fi
    stop $w
    begin one gs://bucket/killed $dying
    soon trains one
    signal one KILL
    over one
    begin two gs://bucket/killed $alive
    soon trains two
    says "waiting 3 s to see whether it is alive" two.err
    stop two
    no_bucket gs://nobucket/run "'gs://nobucket/run/.lease'"
    no_bucket local "'gs://nobucket/text.txt'" --data.path=gs://nobucket/text.txt
done

# --- servers of S3's protocol that ignore conditions, or refuse them; and a server that is unreachable for some time ---
export AWS_ENDPOINT_URL=$web/s3 AWS_ACCESS_KEY_ID=new AWS_SECRET_ACCESS_KEY=s
for how in off 501; do
    ask control/conditions/$how >/dev/null
    race s3://bucket/race$how
    says "the store of 's3://bucket/race$how' ignores the conditions of writes" $w.err
    stop $w
done
LEVIN_STORE_TRIES=1 begin one s3://bucket/down $dying
soon trains one
ask control/down/1 >/dev/null
soon has "the lease of 's3://bucket/down' could not be renewed for 3 s: the run continues, but writes nothing there until it can" one.err
ask control/down/off >/dev/null
ask log >/dev/null
renewed() { ask log >>requests && grep -q 'PUT /s3/bucket/down/checkpoints' requests; }
: >requests
soon renewed
stop one

# --- a folder that two machines share, whose file locks are not shared between machines ---
command -v cc >/dev/null && ! grep -q __asan_init "$LEVIN" || { echo "without a shared folder: no compiler, or a sanitizer" && exit; }
cat >shared.c <<'EOF'
/* Every file system is NFS, without locks. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

int statfs(const char *path, struct statfs *s)
{
    int bad = (int)syscall(SYS_statfs, path, s);
    s->f_type = 0x6969;
    return bad;
}
int flock(int fd, int operation)
{
    (void)fd, (void)operation;
    errno = ENOLCK;
    return -1;
}
EOF
cc -shared -fPIC -O1 -o shared.so shared.c || { echo "without a shared folder: the compiler makes no library" && exit; }
export LD_PRELOAD=$PWD/shared.so
race shared
check [ "$(find shared -maxdepth 1 -name '.lease*')" = shared/.lease-1 ]
stop $w
check [ -z "$(find shared -maxdepth 1 -name '.lease*')" ]
away shared
back shared
check kill -0 "$(cat two.pid)"
soon grep -q '"state": "running"' shared/status.json
stop two
check [ -z "$(find shared -maxdepth 1 -name '.lease*')" ]
