# A batch script of levin launch --slurm under a real Slurm: if a rank is killed, the job resumes in its allocation; if a node is
# lost, the job is requeued and returns without that node or, with --min-ranks, continues on the remaining nodes. The result has
# the bits of an undisturbed run.
. "$LEVIN_SOURCE/tests/cluster/slurm.bash"
HOSTS=3
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
slurm_up 3
[ -n "$(mpi_plugin)" ] || skip "no MPI library (apt install openmpi-bin)"
lose() { # FAULT RUN, options of levin launch --slurm: the job, on two nodes, has its fault after a checkpoint
    local fault=$1 run=$2 many
    shift 2
    for many in 1000 4000 16000; do # a longer run if this one ended before the fault
        undisturbed $many
        soon all_idle 3
        rm -rf "$run" "$run"-*.out
        arguments "$run" "${exact[@]}" --trainer.max_steps=$many --checkpoint.every_n_steps=50
        code 0 on 1 "$LEVIN" launch --slurm --out "$run.sbatch" --job-name "$run" --nodes 2 --ntasks-per-node 1 "$@" -- "${all[@]}"
        job=$(on 1 sbatch --parsable "$run.sbatch")
        until [ -e "$run/checkpoints/last" ]; do
            [ "$(job_state "$job")" != FAILED ] || { cat "$run"-*.out && fail "$run failed"; }
            sleep 0.05
        done
        check [ "$(job_field "$job" NodeList)" = "h[1-2]" ]
        $fault || true
        job_wait "$job" "COMPLETED|FAILED|CANCELLED|NODE_FAIL|PENDING|REQUEUED|COMPLETING"
        plug 2
        job_wait "$job" "COMPLETED|FAILED|CANCELLED|NODE_FAIL"
        cat "$run"-*.out >out
        grep -qE "^error: " out || continue # ended before the fault
        [ "$(job_state "$job")" = COMPLETED ] || { cat out && fail "$run is $(job_state "$job")"; }
        same_run alone "$run"
        return
    done
    fail "$run was over too soon, three times"
}
restarts() { job_field "$job" Restarts; }

# a rank is killed: the node remains
lose "kill_rank 1" killed
check [ "$(restarts)" = 0 ]
grep -qE "^restart 1 of 3: continuing from step [0-9]+ with 2 ranks on h1, h2$" out || { cat out && fail "no restart"; }

# the same under an mpirun within the job
if command -v mpirun.openmpi >/dev/null; then
    lose "kill_rank 1" mpirun --launcher openmpi
    check [ "$(restarts)" = 0 ]
    grep -qE "^restart 1 of 3: continuing from step [0-9]+ with 2 ranks on h1, h2$" out || { cat out && fail "no restart"; }
fi

# a node is cut off: the job is requeued, and continues without it
lose "unplug 2" queued
check [ "$(restarts)" = 1 ]
says "no restart: there are slots for 1 of 2 ranks; excluded: h2 (does not respond)" out
says "job $job is back in the queue, to run without h2" out
check [ "$(job_field "$job" ExcNodeList)" = h2 ]
check [ "$(job_field "$job" NodeList)" = "h[1,3]" ]
says "this job was requeued: continuing" out

# or continues on the remaining node
lose "unplug 2" fewer --min-ranks=1
check [ "$(restarts)" = 0 ]
grep -qE "^restart 1 of 3: continuing from step [0-9]+ with 1 rank on h1; excluded: h2 \(does not respond\)$" out || { cat out && fail "not on h1"; }
