# All ranks send heartbeats, but the run hangs: the link between two of three hosts is cut, or a file of rank 0 or of another host
# blocks, with levin launch and without. A warning comes at half of trainer.stall_timeout, then the end, with where each rank waits,
# which rank is behind, and which link is at fault.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up 3
sshd_up 3
make_text
mkdir own
cp text.txt own/
mpis_here
printf 'h%d:1\n' 1 2 3 >hosts
keys=(--data.path="$PWD/own/text.txt" --trainer.threads=1 --trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000
    --trainer.val_check_interval=0 --trainer.log_every_n_steps=0 --model.n_embd=48 --trainer.stall_timeout=3)
launch=()
use() { # MPI
    launch=(timeout -k 3 600 "$LEVIN" launch --launcher="$1" --ssh="$ssh" --hostfile hosts -n 3 --)
    [ "$1" != intel ] || launch=(env PATH="$intel/bin:$PATH" "${launch[@]}")
}
apart() { # packets between two hosts are dropped silently
    for pair in "$1 $2" "$2 $1"; do on "${pair% *}" ip neigh replace "10.77.0.${pair#* }" lladdr 02:00:00:00:00:09 dev eth0 nud permanent; done
}
together() { for pair in "$1 $2" "$2 $1"; do on "${pair% *}" ip neigh del "10.77.0.${pair#* }" dev eth0; done; }
export LD_PRELOAD=$LEVIN_BUILD/tests/double/libstill.so STILL_FILE=/samples.txt # the same for a regular file, while FILE.still exists
told() { # PATTERN: the error and the warning match it
    [ "$got" != 0 ] && [ "$got" -lt 124 ] || { cat out err && fail "exit code $got"; }
    [ "$(grep -cE '^error: ' err)" = 1 ] || { cat out err && fail "not one sentence"; }
    grep -qE "^error: no rank has made progress for [0-9.]+ s$1" err || { cat err && fail "no error says which rank waits for which: $1"; }
    grep -qE "warning: no rank has made progress for [0-9.]+ s$1; the run ends in [0-9.]+ s unless" err || { cat err && fail "no warning: $1"; }
}

for mpi in "${mpis[@]}"; do
    use "$mpi"
    # vectors of more than 64 KiB are sent from every rank to every other one, so both ranks wait, or one is complete and starts
    # the next reduction. The cut may hit a short reduction, which the MPI does itself without naming peers: then try again. In at least
    # one run of all MPIs the link must be named
    link='(rank 1 on h2 and rank 2 on h3 wait for each other|messages of rank [12] on h[23] do not reach rank [12] on h[23]): check the link between them'
    for try in 1 2 3 4 5 6; do
        arguments "link-$mpi-$try" "${keys[@]}"
        on 1 "${launch[@]}" "${all[@]}" >out 2>err &
        pid=$!
        wait_rows "link-$mpi-$try" 20
        apart 2 3
        ended
        grep -q '"fault": "no rank has made progress' "link-$mpi-$try/status.json" || fail "status.json does not tell"
        together 2 3
        nobody_left
        ! grep -qE "^error: .*; $link" err || break
    done
    ! grep -qE "^error: .*; $link" err || named=yes
    told ", since step [0-9]+: .*; ($link|messages do not reach (rank [12] on h[23]: check its links|all of ranks 1,2: check their links))"
done
[ -n "${named:-}" ] || fail "no MPI's run has named the link"

# long packets to and from a host get lost: packets are not joined into larger ones, which the switch would let pass
mpi=${mpis[0]}
use "$mpi"
for try in 1 2 3; do # a long packet of a reduction by the MPI itself, which names no peers, may be lost: then try again
    arguments "long-$try" "${keys[@]}"
    on 1 "${launch[@]}" "${all[@]}" >out 2>err &
    pid=$!
    wait_rows "long-$try" 20
    for i in 1 2 3; do on $i ip link set dev eth0 gso_max_segs 1 || lossless=1; done
    [ -z "${lossless:-}" ] || { echo "without lost long packets, which ip cannot make here" && kill -KILL $pid && ended && nobody_left && break; }
    ip link set v3 mtu 1000
    ended
    ip link set v3 mtu 1500
    for i in 1 2 3; do on $i ip link set dev eth0 gso_max_segs 65535; done
    nobody_left
    grep -qE "^error: .*(; all have the same progress|are computing)" err || break
done
# rank 2 waits as well, or it sent all of its messages before the others waited for it, and has made more progress
[ -n "${lossless:-}" ] ||
    told ', since step [0-9]+: .*; (rank [01] on h[12] and rank 2 on h3 wait for each other: check the link between them|rank [0-2] on h[1-3] is .*|.*messages of rank (2 on h3 do not reach rank [01] on h[12]|[01] on h[12] do not reach rank 2 on h3): check the link between them|.*messages do not reach (rank 2 on h3: check its links|all of ranks [012],[012]: check their links))'

# a file of the reporting rank, which also has the server, without levin launch
arguments sample "${keys[@]}" --sample.every_n_steps=10 --sample.max_new_tokens=4
ranks "$mpi" 3 "$LEVIN" "${all[@]}" >out 2>err &
pid=$!
wait_rows sample 20
echo yes >sample/samples.txt.still
ended
told ', since step [0-9]+: ranks 1,2 wait in .*; rank 0 on [^ ]+ is busy: a sample'
nobody_left

# status.json itself is in that file system: its thread hangs, and all messages appear nevertheless
arguments folder "${keys[@]}" --sample.every_n_steps=10 --sample.max_new_tokens=4
use "$mpi"
on 1 "${launch[@]}" "${all[@]}" >out 2>err &
pid=$!
wait_rows folder 20
first=$(on 1 pgrep -x -n levin)
until mkfifo "folder/.status.json.tmp-$first" 2>/dev/null; do :; done # its open() never returns
echo yes >folder/samples.txt.still
ended
told ', since step [0-9]+: ranks 1,2 wait in .*; rank 0 on h1 is busy: a sample'
rm "folder/.status.json.tmp-$first"
nobody_left

# a validation that is longer than half of the limit is not a stall, even before the duration of a step is known
arguments slow --trainer.threads=1 --data.path="$PWD/own/text.txt" --trainer.max_steps=1 --trainer.num_sanity_val_steps=-1 \
    --trainer.limit_val_batches=1.0 --model.n_layer=8 --model.n_embd=192 --model.block_size=128 --trainer.stall_timeout=4
code 0 on 1 "${launch[@]}" "${all[@]}"
silent_about "no rank has made progress" err

# before the first step: the data of a host
export STILL_FILE=/text.txt
echo yes >still
: >own/text.txt.still
on 1 mount --bind still own/text.txt.still
arguments data "${keys[@]}" --data.kind=chars --model.kind=nanogpt
on 1 "${launch[@]}" "${all[@]}" >out 2>err &
pid=$!
ended
told ': ranks 1,2 wait in an agreement; rank 0 on h1 is busy: opening the data'
nobody_left
