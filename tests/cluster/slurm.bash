# slurm.bash - a real Slurm over the hosts of hosts.bash: the controller on h1, a node on each.
#
#   slurm_up N ["LINE"...]      further lines of slurm.conf; SLURM_CONF is exported
#   job_state ID                "RUNNING"; "COMPLETED"; ...
#   all_idle N                  whether its N nodes are up and have no job
#   job_wait ID STATE           until the job is in one of the states (STATE|STATE)
#   job_field ID NAME           of `scontrol show job`
#   mpi_plugin                  pmix, pmi2, or nothing
# Commands of Slurm run on h1: on 1 sbatch ...
#
# /etc is not changed; munge authenticates with a separate key.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"

slurm_passwords() { # of host I
    on "$1" munged --force --key-file="$PWD/slurm/key" --socket=/run/munge.sock --pid-file=/run/munged.pid \
        --log-file=/run/munged.log --seed-file=/run/munged.seed --num-threads=2
}
slurm_up() {
    local n=$1 at=$PWD/slurm user
    shift
    for program in slurmctld slurmd munged srun; do
        PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
            skip "no $program (apt install slurmctld slurmd slurm-client munge)"
    done
    PATH=$PATH:/usr/sbin
    user=$(id -un)
    mkdir -p "$at/state" "$at/log"
    dd if=/dev/urandom of="$at/key" bs=1 count=1024 status=none
    chmod 400 "$at/key"
    {
        cat <<END
ClusterName=test
SlurmctldHost=h1(10.77.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=/run/munge.sock,cred_expire=20
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool-%n
TmpFS=$at/tmp-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$at/log/slurmctld
SlurmdLogFile=$at/log/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdTimeout=30
KillWait=20
MinJobAge=600
SlurmdParameters=config_overrides
NodeName=h[1-$n] NodeAddr=10.77.0.[1-$n] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
        printf '%s\n' "$@"
    } >"$at/slurm.conf"
    export SLURM_CONF=$at/slurm.conf
    for i in $(seq "$n"); do
        mkdir -p "$at/spool-h$i" "$at/tmp-h$i"
        slurm_passwords "$i"
    done
    on 1 slurmctld -c
    for i in $(seq "$n"); do on "$i" slurmd; done
    (soon all_idle "$n") || { tail -n 20 "$at"/log/* && exit 1; }
}
all_idle() { [ "$(on 1 sinfo -h -o '%t %D')" = "idle $1" ]; }

mpi_plugin() { # the value of --mpi for the installed MPI
    case $(ldconfig -p) in
    *libmpi.so.40*) echo pmix ;;
    *libmpich.so.12* | *libmpi.so.12*) echo pmi2 ;;
    esac
}
# As code(), of srun, or of a levin launch that calls it: repeated if Open MPI crashed while it started
# (src/ranks/comm/mpi_start.c), which happens on a busy host once in some hundreds.
srun_code() { # WANTED COMMAND...
    local got=0
    (code "$@") >log || got=$?
    if [ $got != 0 ] && grep -qF "crashed in MPI_Init" err; then
        echo "again: Open MPI crashed while it started"
        (code "$@") >log || { cat log && exit 1; }
    elif [ $got != 0 ]; then
        cat log && exit 1
    fi
}
job_field() { on 1 scontrol -o show job "$1" | tr ' ' '\n' | awk -v n="$2=" 'index($0, n) == 1 && !found++ { print substr($0, length(n) + 1) }'; }
job_state() { job_field "$1" JobState; }
job_in() { [[ $(job_state "$1") =~ ^($2)$ ]]; }
job_wait() { (soon job_in "$@") || { on 1 squeue && tail -n 5 "$PWD"/slurm/log/* && fail "job $1 is $(job_state "$1")"; }; }
