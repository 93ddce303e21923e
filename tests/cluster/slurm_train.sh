# Training in jobs of a real Slurm: the same weights under every launcher, signals, time limits, lost nodes.
. "$LEVIN_SOURCE/tests/cluster/slurm.bash"
hosts_begin
hosts_up 3
slurm_up 3
make_text
exact=(--trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1)
plugin=$(mpi_plugin)
[ -n "$plugin" ] || skip "no MPI library (apt install openmpi-bin)"

arguments alone "${exact[@]}"
code 0 "$LEVIN" "${all[@]}"

# --- srun, with the number of tasks given in each way ---
layout() { # name, options of srun
    local name=$1
    shift
    arguments "$name" "${exact[@]}"
    srun_code 0 on 1 timeout -k 3 600 srun --mpi=$plugin -K1 "$@" "$LEVIN" "${all[@]}"
    same_run alone "$name"
}
layout two-by-two -N2 --ntasks-per-node=2
layout three -n3
layout one -n1
arguments launched "${exact[@]}"
srun_code 0 on 1 timeout -k 3 600 salloc -Q -N2 --ntasks-per-node=2 "$LEVIN" launch -- "${all[@]}"
same_run alone launched

# --- a task with other settings: one sentence, and all tasks end ---
arguments differs "${exact[@]}"
for kill in "" -K1; do
    srun_code 2 on 1 timeout -k 3 600 srun --mpi=$plugin $kill -w h1,h2 --ntasks-per-node=2 \
        bash -c '[ $SLURM_PROCID != 2 ] || set -- "$@" --trainer.seed=7; exec "$@"' x "$LEVIN" "${all[@]}"
    one_error
    says "rank 2 on h2 was started with trainer.seed 7, but rank 0 on h1 with 1337; give all ranks the same recipe" err
    check [ ! -e differs/checkpoints ]
    nobody_left
done

# --- without an MPI: by levin's own connections, with the same bits; or one sentence that says what to do ---
arguments single "${exact[@]}"
code 0 on 1 timeout -k 3 600 srun --mpi=none -K1 -w h1,h2 --ntasks-per-node=2 "$LEVIN" "${all[@]}"
says "4 ranks on 2 hosts" err
same_run alone single
arguments mpi "${exact[@]}"
code 2 on 1 timeout -k 3 600 srun --mpi=none -n2 "$LEVIN" "${all[@]}" --trainer.transport=mpi
one_error
says "srun started these ranks without MPI: use srun --mpi=pmix" err
check [ ! -e mpi/checkpoints ]

# --- from Python: a job of two nodes, followed until its end ---
python=(env PYTHONPATH="$LEVIN_SOURCE/python:$LEVIN_SOURCE/parts/tensorboard" python3)
if "${python[@]}" -c 'import numpy' 2>/dev/null; then
    arguments cell "${exact[@]}"
    code 0 on 1 "${python[@]}" - "${all[@]:1}" <<'PY'
import levin, sys
keys = dict(word[2:].split("=", 1) for word in sys.argv[1:])
job = levin.launch(keys, nodes=2, nproc_per_node=2, slurm=True, sbatch={"time": "10", "job_name": "cell"})
steps = [row["step"] for row in job.attach().rows(timeout=600) if "loss" in row]
print(job, steps[-1], job.wait())
print(job.log.read_text())
PY
    says "run $PWD/cell, log $PWD/cell-" out
    says "4 ranks on 2 hosts" out
    same_run alone cell
else
    echo "skipped Python: numpy is not installed"
fi

# --- jobs ---
cat >job.yaml <<END
name: job
model: {n_layer: 1, n_head: 2, n_embd: 16, block_size: 16}
data: {path: text.txt}
trainer: {batch_size: 4, limit_val_batches: 1, val_check_interval: 1000, max_steps: 1000000000, log_every_n_steps: 100}
checkpoint: {every_n_steps: 50}
END
shorter() { # so that a resumed job ends: max_steps is 100 from the last checkpoint
    local last
    last=$(readlink "$1/checkpoints/last")
    sed -i "s/max_steps: [0-9]*/max_steps: $((${last#step-} + 100))/" job.yaml
}
longer() { sed -i "s/max_steps: [0-9]*/max_steps: 1000000000/" job.yaml; }
script() { # name, arguments of levin launch --slurm
    local name=$1
    shift
    longer
    code 0 on 1 "$LEVIN" launch --slurm job.yaml --job-name "$name" --out "$name.sbatch" --run_dir="$name" "$@"
}
submit() { job=$(on 1 sbatch --parsable "$1.sbatch"); }
has_saved() { (soon test -e "$1/checkpoints/last") || { cat "$1"*.out && exit 1; }; } # has_saved RUN

# cancelled by its owner: saved, not requeued
script cancelled --nodes 2 --ntasks-per-node 2
submit cancelled
has_saved cancelled
on 1 scancel "$job"
job_wait "$job" "CANCELLED"
says "stopped on request" cancelled-"$job".out
silent_about "back in the queue" cancelled-"$job".out
check [ "$(job_field "$job" Restarts)" = 0 ]

# the time limit: a signal, a save, and requeued until it is done
script limit --ntasks 3 --time 2 --signal USR1@80
submit limit
has_saved limit
job_wait "$job" "PENDING|REQUEUED|COMPLETING"
soon has "back in the queue" limit-"$job".out # the job is requeued before rank 0 receives the answer
shorter limit
job_wait "$job" COMPLETED
check [ "$(job_field "$job" Restarts)" = 1 ]
says "this job was requeued: continuing" limit-"$job".out
says "all steps are done" limit-"$job".out

# mpirun in the script: it gets the signal and forwards it
if command -v mpirun.openmpi >/dev/null; then
    script mpirun --nodes 2 --ntasks-per-node 2 --launcher openmpi
    submit mpirun
    has_saved mpirun
    on 1 scancel --batch --signal=USR1 "$job"
    job_wait "$job" "PENDING|REQUEUED|COMPLETING"
    shorter mpirun
    job_wait "$job" COMPLETED
    says "is back in the queue" mpirun-"$job".out
    says "all steps are done" mpirun-"$job".out
fi

# --no-requeue: a message, and 75
script once --ntasks 2 --requeue=false
submit once
has_saved once
on 1 scancel --batch --signal=USR1 "$job"
job_wait "$job" FAILED
check [ "$(job_field "$job" ExitCode)" = 75:0 ]
says "is not requeued" once-"$job".out

# a user's script without levin launch: rank 0 requeues the job
longer
job=$(on 1 sbatch --parsable --job-name=own -N2 --ntasks-per-node=1 --requeue --open-mode=append --output=own-%j.out \
    --wrap "srun --mpi=$plugin -K1 $LEVIN train job.yaml --run_dir=own")
has_saved own
on 1 scancel --signal=USR1 "$job"
soon has "job $job is back in the queue" own-"$job".out
on 1 scancel "$job"

# an array job: every task is a separate run
script array --ntasks 2 --array 1-2
submit array
has_saved array-1
has_saved array-2
on 1 scancel --batch --signal=USR1 "${job}_2"
job_wait "${job}_2" "PENDING|REQUEUED|COMPLETING"
soon has "job ${job}_2 is back in the queue" array-"$job"_2.out
on 1 scancel "${job}_1" "${job}_2"
silent_about "back in the queue" array-"$job"_1.out
check [ "$(grep -m1 '"loss"' array-1/metrics.jsonl | cut -d, -f2)" != "$(grep -m1 '"loss"' array-2/metrics.jsonl | cut -d, -f2)" ] # seeds differ

# a node goes down: Slurm requeues the job, and it resumes
script down --nodes 2 --ntasks-per-node 1
submit down
has_saved down
lost=$(job_field "$job" NodeList)
on 1 scontrol update nodename=h"${lost: -2:1}" state=down reason=test
job_wait "$job" "PENDING" # rank 0 is gone, so there is no later checkpoint
shorter down
on 1 scontrol update nodename=h"${lost: -2:1}" state=resume 2>/dev/null || true # it may have returned already
job_wait "$job" COMPLETED
check [ "$(job_field "$job" Restarts)" -ge 1 ]
says "all steps are done" down-"$job".out
