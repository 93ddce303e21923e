# Two hosts that share no folder: a run resumes only on the host that has its last checkpoint; elsewhere the error names that host.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up 2
sshd_up 2
make_text
mkdir own
on 2 mount -t tmpfs tmpfs "$PWD/own"
mpis_here
launcher=${mpis[0]}
[ "$launcher" != intel ] || PATH=$intel/bin:$PATH
launch() { # FIRST SECOND CODE [keys]: rank 0 on FIRST, where the command starts (Open MPI takes that host first)
    local at=$1 wanted=$3
    printf 'h%d:1\n' "$1" "$2" >hosts
    shift 3
    arguments "$PWD/own/run" --trainer.threads=1 "$@"
    code "$wanted" on "$at" timeout -k 3 600 "$LEVIN" launch --launcher="$launcher" --ssh="$ssh" --hostfile hosts -n 2 -- "${all[@]}"
}
refused() { # PATTERN
    [ "$(grep -c '^\[0\] error: ' err)" = 1 ] || { cat err && fail "not one sentence"; }
    grep -qE "^\[0\] error: the last checkpoint of '[^']*/own/run' is $1; start with rank 0 on h2, or " err || { cat err && fail "not refused so: $1"; }
    says "run_dir=s3://" err
}
last() { on "$1" readlink "$PWD/own/run/checkpoints/last" || true; }
launch 2 1 0
check [ "$(last 2)" = step-8 ]
check [ -z "$(last 1)" ]
# no checkpoint on the first host: the run must not start from the beginning
launch 1 2 2 --resume --trainer.max_steps=12
refused "step 8 on h2, where rank 1 runs, but none on h1, where rank 0 would resume from it"
silent_about "starting from the beginning" err
check [ -z "$(last 1)" ]
# an older checkpoint on the first host
launch 1 2 0 --trainer.max_steps=4
launch 1 2 2 --resume --trainer.max_steps=12
refused "step 8 on h2, where rank 1 runs, but step 4 on h1, where rank 0 would resume from it"
check [ "$(last 1)" = step-4 ]
# on the host that has it the run resumes; older checkpoints elsewhere do not matter
launch 2 1 0 --resume --trainer.max_steps=12
check [ "$(last 2)" = step-12 ]
# a folder that both hosts share
on 2 umount "$PWD/own"
launch 2 1 0 --resume --trainer.max_steps=12
check [ "$(last 1)" = step-12 ]
# no checkpoint on any host: the run starts from the beginning, and says so once
rm -r own/run
launch 1 2 0 --resume
[ "$(grep -c "^\[0\] warning: no checkpoint in '.*/own/run' to resume from; starting from the beginning$" err)" = 1 ] || { cat err && fail "a start from the beginning is not reported"; }
