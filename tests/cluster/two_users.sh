# Two users of one machine: neither can read, change or block the files of the other.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
[ "$(id -u)" = 0 ] || { echo "skipped: only root can be two users" && exit 77; }
command -v setpriv >/dev/null || { echo "skipped: no setpriv here" && exit 77; }
one=54321 two=54322
rm -rf /tmp/levin-$one /tmp/levin-$two
trap 'rm -rf /tmp/levin-$one /tmp/levin-$two; for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done' EXIT
chmod 755 .
cp "$LEVIN" levin
as() { # as UID COMMAND...: without a home, as batch systems start it
    local uid=$1
    shift
    (cd "$uid" && env -u HOME -u LEVIN_CACHE -u XDG_CACHE_HOME OMP_NUM_THREADS=1 setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@")
}
levin=$PWD/levin
for user in $one $two; do mkdir $user && chown $user:$user $user && chmod 700 $user; done
as $one "$levin" --version >/dev/null || { echo "skipped: another user cannot come here" && exit 77; }
web_server
make_text
cp text.txt web/text.txt
keys=("${tiny[@]}")
for i in "${!keys[@]}"; do [[ ${keys[i]} != --data.path=* ]] || unset "keys[i]"; done
keys+=("--data.path=$web/plain/text.txt")
# at the same moment, with the same names
for user in $one $two; do
    as $user "$levin" train --run_dir=run "${keys[@]}" >$user.out 2>$user.err &
    eval "pid_$user=$!"
done
wait "$(eval "echo \$pid_$one")" || fail "$(cat $one.err)"
wait "$(eval "echo \$pid_$two")" || fail "$(cat $two.err)"
same_weights $one/run $two/run
for user in $one $two; do
    check [ "$(stat -c '%u %a' /tmp/levin-$user)" = "$user 700" ]
    check [ "$(stat -c '%u %a' /tmp/levin-$user/files)" = "$user 700" ]
done
cached=$(echo /tmp/levin-$two/files/http/*/plain/text.txt)
same_file text.txt "$cached"
if as $one cat "$cached" >/dev/null 2>&1; then fail "one user reads the other's cache"; fi
# files of another user at the place of the cache are refused
rm -rf /tmp/levin-$two
as $one mkdir -p /tmp/levin-$two/files
chmod 777 /tmp/levin-$two /tmp/levin-$two/files
code 1 as $two "$levin" evaluate run "--data.path=$web/plain/text.txt"
one_error
says "belongs to another user" err
rm -rf /tmp/levin-$two
as $one ln -s /tmp/levin-$one /tmp/levin-$two
code 1 as $two "$levin" evaluate run "--data.path=$web/plain/text.txt"
one_error
rm -f /tmp/levin-$two
# runs of two users at once, each with its own rendezvous
if command -v mpirun.openmpi >/dev/null || command -v mpiexec.mpich >/dev/null; then
    launch_as() { # launch_as USER [keys]: in the background, as $!
        as $1 env HOME="$PWD/$1" TMPDIR="$PWD/$1/tmp" OMPI_MCA_rmaps_base_oversubscribe=1 timeout -k 3 600 "$levin" launch -n 2 -- \
            train "${keys[@]}" "${@:2}" >$1.out 2>$1.err &
    }
    for user in $one $two; do
        mkdir $user/tmp && chown $user:$user $user/tmp
        launch_as $user --run_dir=ranks
        eval "pid_$user=$!"
    done
    wait "$(eval "echo \$pid_$one")" || fail "$(cat $one.err)"
    wait "$(eval "echo \$pid_$two")" || fail "$(cat $two.err)"
    same_weights $one/ranks $two/ranks
    # the rendezvous refuses processes without its token, which only its owner can read
    for i in "${!keys[@]}"; do [[ ${keys[i]} != --trainer.max_steps=* ]] || keys[i]=--trainer.max_steps=1000000000; done
    launch_as $one --run_dir=endless
    pid=$!
    soon test -s $one/endless/metrics.jsonl
    tokens=0
    for process in $(pgrep -u $one -x levin); do
        if setpriv --reuid=$two --regid=$two --clear-groups cat "/proc/$process/environ" >/dev/null 2>&1; then fail "one user sees the other's token"; fi
        if tr '\0' ' ' <"/proc/$process/cmdline" | grep -q TOKEN=; then fail "the token is in a command line"; fi
        if grep -zq TOKEN= "/proc/$process/environ"; then tokens=$((tokens + 1)); fi
    done
    check [ $tokens -ge 2 ] # those of both ranks
    pkill -TERM -u $one -x levin
    ended
    check [ $got != 0 ]
    left=$(find /dev/shm /tmp -maxdepth 1 \( -user $one -o -user $two \) ! -name 'levin-*' -perm /022 ! -type l 2>/dev/null || true)
    [ -z "$left" ] || fail "files remain to which others may write: $left"
fi
