# levin launch on each of two nodes, here two processes of one machine: the bits are those of levin launch -n 4, node 0 prints and
# keeps what ranks write, places come from options or from variables of Kubernetes, torchrun and PyTorchJob, strangers are
# rejected, and what does not fit is refused in one sentence.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
secret=0123456789abcdef-of-this-test
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29521
keys=(--trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1)
pair() { # pair CODE0 CODE1 RUN [keys]: $zero and $one are the variables and options of the two launchers
    local wanted=("$1" "$2") i pids=() got
    shift 2
    arguments "$@"
    timeout -k 3 600 env "${zero[@]}" -- "${all[@]}" >out.0 2>&1 &
    pids[0]=$!
    timeout -k 3 600 env "${one[@]}" -- "${all[@]}" "${more[@]}" >out.1 2>&1 &
    pids[1]=$!
    for i in 0 1; do
        got=0
        wait ${pids[i]} || got=$?
        [ $got = "${wanted[i]}" ] || { cat out.0 out.1 && fail "node $i: exit $got, wanted ${wanted[i]}"; }
    done
}
places() { # places [OPTIONS]: by options, for both
    zero=("$LEVIN" launch --node-rank 0 --nodes 2 --nproc-per-node 2 "$@")
    one=("$LEVIN" launch --node-rank 1 --nodes 2 --nproc-per-node 2 "$@")
}
more=()
arguments alone "${keys[@]}"
code 0 "$LEVIN" launch --launcher=levin -n 4 -- "${all[@]}"

# by options
places
pair 0 0 options "${keys[@]}"
same_run alone options
says "[0] options: step 8" out.0
check [ ! -s out.1 ]
check grep -q "^--- .* rank 3 of 4 on " options/logs/rank-3.log
code 0 "$LEVIN" launch --node-rank 1 --nodes 2 --dry-run -- "${all[@]}"
says "levin ranks --part -- train" out

# by variables, with a token and the name of a job
by() { # by RUN VARIABLE...: the same variables for both nodes; @ is replaced by the number of the node
    local run=$1
    shift
    zero=("LEVIN_TOKEN=$secret" LEVIN_JOB_ID="$run" "${@//@/0}" "$LEVIN" launch)
    one=("LEVIN_TOKEN=$secret" LEVIN_JOB_ID="$run" "${@//@/1}" "$LEVIN" launch)
    pair 0 0 "$run" "${keys[@]}"
    same_run alone "$run"
}
by kubernetes JOB_COMPLETION_INDEX=@ NNODES=2 GPUS_PER_NODE=2
by torchrun PET_NODE_RANK=@ PET_NNODES=2:2 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=127.0.0.1 MASTER_ADDR=
by pytorchjob RANK=@ WORLD_SIZE=2 NPROC_PER_NODE=2
! grep -rF "$secret" kubernetes out.0 out.1 || fail "the token is written down"
zero=(JOB_COMPLETION_INDEX=0 NNODES=1 GPUS_PER_NODE=4 LEVIN_JOB_ID=one "$LEVIN" launch)
arguments one "${keys[@]}"
code 0 env "${zero[@]}" -- "${all[@]}"
same_run alone one
arguments one "${keys[@]}" --trainer.max_steps=12
code 0 env "${zero[@]}" -- "${all[@]}" # the job finds its own run
says "this job has already begun its run: continuing from its last checkpoint" err
zero[3]=LEVIN_JOB_ID=another
code 2 env "${zero[@]}" -- "${all[@]}" # another job does not

# a Slurm job that was requeued resumes its run, which --overwrite must not remove. Its processes are below slurmstepd
cp "$(readlink -f /bin/bash)" slurmstepd
places
zero=(SLURM_JOB_ID=5 SLURM_RESTART_COUNT=1 ./slurmstepd -c '"$@"; exit $?' x "${zero[@]}")
pair 0 0 options "${keys[@]}" --trainer.max_steps=12 --overwrite
says "this job was requeued: continuing" out.0
says "continuing after step 8 from options/checkpoints/step-8" out.0
cp -r alone longer
arguments longer "${keys[@]}" --trainer.max_steps=12
code 0 "$LEVIN" launch --launcher=levin -n 4 -- "${all[@]}" --resume
same_run longer options
# Slurm sends a signal to all processes of a step, here a session: all ranks save
places
arguments signal "${keys[@]}" --trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0
setsid "${zero[@]}" -- "${all[@]}" >out.0 2>&1 &
pid=$!
setsid "${one[@]}" -- "${all[@]}" >out.1 2>&1 &
pids=($pid $!)
wait_rows signal 3
pkill -USR1 -x levin -s "${pids[0]},${pids[1]}"
for i in 0 1; do
    got=0
    wait ${pids[i]} || got=$?
    [ $got = 75 ] || { cat out.0 out.1 && fail "node $i: exit $got, wanted 75"; }
done
check [ -s signal/checkpoints/last/model.safetensors ]

# contradictions
short=(--trainer.start_timeout=4 --trainer.rank_timeout=2)
places
more=(--optimizer.lr=1e-1)
pair 76 2 differs "${keys[@]}" "${short[@]}"
says "error: node 0 rejects this node: node 1 on " out.1
says "but node 0 has" out.1
says "error: 1 of 2 nodes: node 1 has not joined within 4 s" out.0
says "only nodes on this machine can reach it, because MASTER_ADDR is 127.0.0.1: set it to this machine's name or address" out.0
says "; the last rejected launcher: node 1 on " out.0
more=()
pair 2 2 differs "${keys[@]}" --trainer.devices=3
says "error: trainer.devices is 3, but 4 ranks run on " out.0 # here the two nodes are one machine
check [ "$(cat out.1)" = "node 0 has ended the job with exit code 2: see its output for the reason" ]
one=("$LEVIN" launch --node-rank 0 --nodes 2 --nproc-per-node 2)
two_zeros() { # two launchers of node 0 on one machine; either of them may listen first
    arguments differs "${short[@]}"
    for i in 0 1; do
        { got=0 && timeout -k 3 600 "${one[@]}" -- "${all[@]}" >out.$i 2>&1 || got=$?; echo $got >code.$i; } &
    done
    wait
    [ "$(sort -n code.? | paste -sd' ')" = "1 76" ] || { cat out.0 out.1 && fail "exit codes of two node 0: $(cat code.?)"; }
    check grep -qF "error: cannot listen on port 29521: Address already in use; stop the other program, or set another MASTER_PORT" out.0 out.1
}
two_zeros
arguments differs "${short[@]}"
code 76 env MASTER_ADDR=192.0.2.1 "${one[@]}" -- "${all[@]}" # of another machine
says "MASTER_ADDR, 192.0.2.1, is not an address of this machine: if another one is node 0, give this one its own --node-rank (NODE_RANK)" err
one=("$LEVIN" launch --node-rank 1 --nodes 3 --nproc-per-node 2)
pair 76 2 differs "${short[@]}"
says "was started as one of 3 nodes with 2 ranks each, and node 0 as one of 2 with 2: give all the same --nodes" out.1
places
one=("LEVIN_TOKEN=$secret" "${one[@]}")
pair 76 76 differs "${short[@]}"
says "error: node 0 could not be reached at 127.0.0.1:29521 for 4 s (a levin launch with another LEVIN_TOKEN or LEVIN_JOB_ID answers there)" out.1
check [ ! -e differs ]

# another levin, and a clock that is an hour ahead
sed 's/0\.1\.0/0.1.9/g' "$LEVIN" >other
chmod +x other
places
one[0]=$PWD/other
pair 76 2 differs "${short[@]}"
says "has levin 0.1.9, but node 0 has 0.1.0: install the same on all nodes (one image)" out.1
if command -v cc >/dev/null && ! grep -q __asan_init "$LEVIN"; then
    cat >ahead.c <<'END'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    int bad = (int)syscall(SYS_clock_gettime, id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += 3600;
    return bad;
}
END
    cc -shared -fPIC -O1 -o ahead.so ahead.c
    places
    one=("LD_PRELOAD=$PWD/ahead.so" "${one[@]}")
    pair 0 0 clock "${keys[@]}"
    same_run alone clock
    [ "$(grep -cE "warning: the clock of node 1 \(.*\) is 3[56][0-9][0-9] s ahead of that of this node" out.0)" = 1 ] || { cat out.0 && fail "no word about the clock"; }
fi

# two launchers of node 1, before node 2 is there: the second is rejected
arguments twice "${short[@]}"
launch3() { # launch3 NODE NAME: its output in out.NAME, its code in code.NAME
    got=0
    timeout -k 3 600 "$LEVIN" launch --node-rank "$1" --nodes 3 --nproc-per-node 1 -- "${all[@]}" >"out.$2" 2>&1 || got=$?
    echo $got >"code.$2"
}
launch3 0 0 &
launch3 1 1 &
launch3 1 1again &
wait
codes="$(cat code.0) $(sort -n code.1 code.1again | paste -sd' ')"
[ "$codes" = "76 2 76" ] || { cat out.0 out.1 out.1again && fail "exit codes of node 0 and of two of node 1: $codes"; }
check grep -q "two launchers claim to be node 1, on .* and on .*: give each node its own --node-rank (NODE_RANK)" out.1 out.1again

# refused before anything starts
refused() { # refused SENTENCE VARIABLES AND OPTIONS...
    local sentence=$1
    shift
    code 2 env "$@" -- "${all[@]}"
    one_error
    says "$sentence" err
}
refused "--node-rank is 2, but the last of the 2 nodes of --nodes is 1" "$LEVIN" launch --node-rank 2 --nodes 2
refused "NODE_RANK is 'x'; expected the number of this node, from 0 on" NODE_RANK=x NNODES=2 "$LEVIN" launch
refused "NODE_RANK is 3, but the last of the 2 nodes of NNODES is 1" NODE_RANK=3 NNODES=2 "$LEVIN" launch
refused "the index of this node among 2 is missing: give --node-rank, 0 to 1, or set NODE_RANK" "$LEVIN" launch --nodes 2
refused "--node-rank is 1, but the number of nodes is missing: give --nodes, or set NNODES" "$LEVIN" launch --node-rank 1
refused "PET_NNODES is '1:4', but levin launch requires one number of nodes" PET_NODE_RANK=0 PET_NNODES=1:4 "$LEVIN" launch
refused "GPUS_PER_NODE is 'many'; expected the ranks of a node: a whole number, auto or gpu" NODE_RANK=0 NNODES=2 GPUS_PER_NODE=many "$LEVIN" launch
refused "this is node 1 of 2, but MASTER_ADDR is not set" MASTER_ADDR= "$LEVIN" launch --node-rank 1 --nodes 2
refused "MASTER_PORT is '70000'; expected a port, 1 to 65535" MASTER_PORT=70000 "$LEVIN" launch --node-rank 0 --nodes 2
refused "-n is 3, but 2 nodes of 2 ranks are 4: omit -n" "$LEVIN" launch -n 3 --node-rank 0 --nodes 2 --nproc-per-node 2
refused "--launcher=openmpi starts ranks on all hosts" "$LEVIN" launch --launcher=openmpi --node-rank 0 --nodes 2
refused "LEVIN_TOKEN has 5 characters, which can be guessed" LEVIN_TOKEN=short "$LEVIN" launch --node-rank 0 --nodes 2
arguments mpi --trainer.transport=mpi
refused "trainer.transport is mpi, but if each node starts its own levin launch no MPI connects the ranks" "$LEVIN" launch --node-rank 0 --nodes 2
# a pod with several ranks, without levin launch
arguments pod
code 2 env JOB_COMPLETION_INDEX=0 NNODES=2 GPUS_PER_NODE=8 "$LEVIN" "${all[@]}"
one_error
says "each pod runs several ranks, but levin launch did not start this process: start it with \`levin launch -- train ...\`" err

# a name that is not in DNS yet is resolved again, and at last named in the error; a connection without the token gets no answer
arguments never "${short[@]}"
code 76 env MASTER_ADDR=no-such-host.invalid "$LEVIN" launch --node-rank 1 --nodes 2 -- "${all[@]}"
says "error: node 0 could not be reached at no-such-host.invalid:29521 for 4 s (no-such-host.invalid: " err
