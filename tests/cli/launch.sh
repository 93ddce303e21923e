# levin launch on one machine without an MPI: each refusal is one sentence, before anything starts; a run of one rank;
# the command line for a launcher that is only a stub.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text

refused() { # refused TEXT ARGUMENTS...
    local text=$1
    shift
    code 2 "$LEVIN" launch "$@"
    one_error
    says "$text" err
    [ ! -s out ]
}
refused "say what to launch" -n 2
refused "put -- before the command, as in: levin launch" -n 2 train
refused "keys of the recipe go after --" -n 2 --trainer.max_steps=3 -- train
refused "no command 'trian' to launch" -n 2 -- trian
refused "leave 'levin' out" -n 2 -- levin train
refused "there is no recipe 'none.yaml'" -n 2 -- train none.yaml
refused "unknown key 'trainer.max_step'" -n 2 -- train --trainer.max_step=3
refused "put -- before the command that levin launch runs: levin launch -- train my.txt" -n 2 train my.txt
refused "say how many ranks" -- doctor
refused "--max-restarts is for \`train\`" -n 2 --max-restarts=1 -- doctor
arguments run
refused "--min-ranks needs restarts: give --max-restarts, too" -n 2 --min-ranks=1 -- "${all[@]}"
refused "--min-ranks 3 is above the 2 ranks of this launch; give 2 at most" -n 2 --max-restarts=1 --min-ranks=3 -- "${all[@]}"
refused "but trainer.num_nodes is for one number of ranks" -n 2 --max-restarts=1 --min-ranks=1 -- "${all[@]}" --trainer.num_nodes=1
refused "but trainer.shares is for one number of ranks" -n 2 --max-restarts=1 --min-ranks=1 -- "${all[@]}" --trainer.share=measured --trainer.shares=2,2
code 0 "$LEVIN" launch --dry-run -n 1 --max-restarts=1 --min-ranks=1 -- "${all[@]}"
says "warning: --min-ranks is not used: it matters when hosts are lost, and all ranks are on this one" err
code 1 bash -c 'ulimit -n 250; exec "$@"' x "$LEVIN" ranks --hosts=127.0.0.1:20 -- "${all[@]}"
one_error
says "250 open files are fewer than the 260 that 20 ranks need" err
code 1 "$LEVIN" launch -n 1 --log-dir=text.txt -- "${all[@]}"
one_error
[ ! -e run ]
refused "-n needs a value, as in -n VALUE" -n
refused "-n must be a whole number" -n two -- doctor
refused "do not fit on 1 host with --nproc-per-node 2" -n 2 -n 3 --nproc-per-node 2 -- doctor # the last -n counts
refused "do not fit on 1 host with --nproc-per-node 2" -n 5 --nproc-per-node 2 -- doctor
refused "srun needs an allocation" -n 2 --launcher=srun -- doctor
refused "--launcher is auto, srun" -n 2 --launcher=nix -- doctor
refused "is not an mpirun of Open MPI, MPICH or Intel MPI" -n 2 --launcher=/bin/true -- doctor

# the hosts file
hosts() { printf '%b' "$1" >hosts; }
refused "there is no hosts file 'none'" -n 2 --hostfile none -- doctor
hosts '# nothing\n\n'
refused "the hosts file 'hosts' names no host" -n 2 --hostfile hosts -- doctor
hosts 'localhost\nno-such-host.invalid # here\n'
refused "hosts:2: the host 'no-such-host.invalid' is not known here" -n 2 --hostfile hosts -- doctor
hosts 'localhost:2\n\nlocalhost slots=2\n'
refused "hosts:3: the host 'localhost' is on line 1 already" -n 2 --hostfile hosts -- doctor
hosts 'localhost:2\n127.0.0.1\n'
refused "hosts:2: '127.0.0.1' is the same machine as 'localhost' on line 1" -n 2 --hostfile hosts -- doctor
hosts '\xef\xbb\xbflocalhost:none\n' # a byte order mark is not part of a name
refused "hosts:1: the ranks of host 'localhost' are a whole number from 1, not 'none'" -n 2 --hostfile hosts -- doctor
hosts 'localhost cores=2\n'
refused "hosts:1: 'cores=2' is not understood" -n 2 --hostfile hosts -- doctor
hosts 'local;host\n'
refused "hosts:1: 'local;host' is not the name of a host" -n 2 --hostfile hosts -- doctor
hosts 'localhost slots=2\n'
refused "-n 3 ranks, and the hosts file has room for 2" -n 3 --hostfile hosts -- doctor

# no MPI: if one is requested, the message names the package; else levin starts the ranks; one rank needs no launcher
mkdir bin
code 2 env PATH="$PWD/bin" "$LEVIN" launch -n 2 -- doctor --trainer.transport=mpi
one_error
says "2 ranks need an MPI, and there is no mpirun in PATH" err
code 0 env PATH="$PWD/bin" "$LEVIN" launch --dry-run -n 2 -- doctor
says "ranks --hosts=127.0.0.1:2 -- doctor" out
code 2 env PATH="$PWD/bin" "$LEVIN" launch -n 2 -- doctor --trainer.mpi_library=libmpi.so.40
one_error
says "2 ranks need an MPI" err
code 2 "$LEVIN" launch --launcher=levin -n 2 -- doctor --trainer.mpi_library=libmpi.so.40
one_error
says "--launcher=levin joins ranks by TCP connections, and trainer.mpi_library asks for an MPI" err
code 0 "$LEVIN" launch --dry-run -n 2 -- doctor --trainer.mpi_library=libmpi.so.40 --trainer.transport=tcp
says "trainer.mpi_library is not used, because trainer.transport is tcp" err
for wrong in "" "--hosts=localhost" "--hosts=a:0" "--hosts=a:1,,b:1" "--hosts=a:1x"; do
    code 2 "$LEVIN" ranks $wrong -- doctor
    one_error
done
code 2 "$LEVIN" ranks --part
one_error
printf '0 2 1 0 1 1\0/\0\0doctor\0' >part
code 2 "$LEVIN" ranks --part <part
says "which describes no part of a run" err
printf '0 1 1 0 1 1\0/none\0\0doctor\0' >part
code 2 "$LEVIN" ranks --part <part
says "there is no folder '/none' on this host" err

# commands that do not work on ranks run once
code 0 "$LEVIN" launch -n 2 -- help
says "'help' is the work of one process: it runs once, on this machine" err
check [ "$(grep -c "levin help COMMAND explains one" out)" = 1 ]

# hosts of a job: PBS and LSF name a host for each slot, Grid Engine says how many it has
mkdir -p jobs
printf 'localhost\nlocalhost\n' >jobs/lines
printf 'localhost 3 all.q@localhost UNDEFINED\n' >jobs/counted
for job in PBS_NODEFILE=lines:2 LSB_DJOB_HOSTFILE=lines:2 PE_HOSTFILE=counted:3; do
    code 0 env PATH="$PWD/bin" "${job%%=*}=$PWD/jobs/$(sed 's/.*=//; s/:.*//' <<<"$job")" "$LEVIN" launch --dry-run -- doctor
    says "ranks --hosts=localhost:${job##*:} -- doctor" out
done
refused_in() { # VARIABLE CONTENT TEXT ARGUMENTS...
    local variable=$1 text=$3
    printf "$2" >jobs/wrong
    shift 3
    code 2 env PATH="$PWD/bin" "$variable=$PWD/jobs/wrong" "$LEVIN" launch "$@"
    one_error
    says "$text" err
}
refused_in PE_HOSTFILE 'localhost\n' "wrong:1: the number of slots is missing behind 'localhost'" -- doctor
refused_in PE_HOSTFILE 'localhost two\n' "the ranks of host 'localhost' are a whole number from 1, not 'two'" -- doctor
refused_in PBS_NODEFILE 'local;host\n' "wrong:1: 'local;host' is not the name of a host" -- doctor
refused_in PBS_NODEFILE '\n' "names no host" -- doctor
refused_in LSB_DJOB_HOSTFILE 'localhost\n' "-n 2 ranks, and $PWD/jobs/wrong has room for 1; ask the queue for more, or -n 1" -n 2 -- doctor
code 0 env PATH="$PWD/bin" PBS_NODEFILE=/none "$LEVIN" launch --dry-run -n 2 -- doctor
says "PBS_NODEFILE=/none is left over: there is no such file; it is not used" err
arguments one
code 0 "$LEVIN" launch -n 1 -- "${all[@]}"
arguments two
code 0 "$LEVIN" "${all[@]}"
same_run one two

# stubs of launchers
fake() { # fake NAME VERSION
    printf '#!/bin/sh\necho "%s"\n' "$2" >bin/"$1"
    chmod +x bin/"$1"
}
dry() { PATH=$PWD/bin:/usr/bin:/bin code 0 "$LEVIN" launch --dry-run --launcher="$PWD/bin/mpirun" "$@"; }
fake mpirun "mpirun (Open MPI) 4.1.4"
OMP_NUM_THREADS=1 dry -n 3 -- doctor
says "bin/mpirun -n 3 --tag-output --oversubscribe" out
says "--mca oob_tcp_if_include lo" out
says "OMP_NUM_THREADS=1" out
fake mpirun "HYDRA build details: Version: 4.0.2"
dry -n 2 -- doctor --measure=no
says "bin/mpirun -n 2 -prepend-pattern '[%r]<rank>:'" out
says "-iface lo" out
says "doctor --measure=no" out
fake mpirun "Intel(R) MPI Library for Linux* OS, Version 2021.18.1"
dry -n 4096 -- doctor
says "I_MPI_PIN=0" out
says "warning: 4096 ranks of" err
dry -n 2 -- doctor
says "I_MPI_ROOT=$PWD " out
# variables that another launcher left do not reach the ranks
RANK=3 OMPI_COMM_WORLD_RANK=7 PMI_RANK=1 dry -n 2 -- doctor
says "-u RANK" out
says "-u OMPI_COMM_WORLD_RANK" out
says "-u PMI_RANK" out
code 0 "$LEVIN" launch --json --dry-run -n 1 -- doctor
json 'd["ranks"] == 1 and "doctor" in d["command"]'

# codes of the launched command
code 2 "$LEVIN" launch -n 1 -- doctor --nix
code 1 "$LEVIN" launch -n 1 -- evaluate none
one_error

# batch scripts: those of deploy/ equal the output of the commands in their README, and are valid shell scripts
mkdir -p path recipes
ln -s "$LEVIN" path/levin
cp "$LEVIN_SOURCE"/recipes/*.yaml recipes/
mkdir -p deploy/slurm
scripts=0
while read -r line; do
    # a Slurm on this machine does not change them
    env -u SLURM_CONF PATH="$PWD/path:/usr/bin:/bin" bash -c "$line" >out 2>err || fail "$line: $(cat err)"
    scripts=$((scripts + 1))
done < <(sed -n 's/^    \(levin launch --slurm .*\)/\1/p' "$LEVIN_SOURCE/deploy/slurm/README.md")
check [ $scripts -ge 3 ]
for script in deploy/slurm/*.sbatch; do
    bash -n "$script"
    diff -u "$LEVIN_SOURCE/$script" "$script" || fail "$script is not what its command writes: make docs"
done
slurm=(--slurm recipes/demo.yaml)
code 0 "$LEVIN" launch "${slurm[@]}" --nodes 2 --ntasks-per-node 2 --trainer.max_steps=7 --requeue=no --mem 4G
for text in "#SBATCH --nodes=2" "#SBATCH --ntasks-per-node=2" "#SBATCH --no-requeue" "#SBATCH --mem=4G" \
    "#SBATCH --signal=B:USR1@90" "launch --nproc-per-node 2 --max-restarts=3 -- train recipes/demo.yaml --trainer.max_steps=7"; do
    says "$text" out
done
silent_about "--no-kill" out
code 0 "$LEVIN" launch "${slurm[@]}" --nodes 2 --ntasks-per-node 2 --min-ranks=2 --max-restarts=5 --log-dir="a b"
for text in "#SBATCH --no-kill" "--max-restarts=5 --min-ranks=2 '--log-dir=a b' -- train"; do says "$text" out; done
code 0 "$LEVIN" launch --slurm --launcher=openmpi -n 3 -- train recipes/demo.yaml --trainer.max_steps=7
for text in "#SBATCH --ntasks=3" "#SBATCH --signal=B:USR1@90" "launch --launcher=openmpi -n 3 --max-restarts=3 -- train recipes/demo.yaml" \
    "trap 'kill -USR1 \$launch' USR1"; do
    says "$text" out
done
code 0 "$LEVIN" launch "${slurm[@]}" --json
json '"#SBATCH" in d["script"]'
refused "say for which recipe" --slurm
refused "there is no recipe 'none.yaml'" --slurm none.yaml
refused "--time is HH:MM:SS" "${slurm[@]}" --time soon
refused "--signal is USR1@SECONDS" "${slurm[@]}" --signal TERM@30
refused "--partition: 'a b' has a letter" "${slurm[@]}" --partition "a b"
refused "--ntasks and -n mean the same and differ" "${slurm[@]}" --ntasks 2 -n 3
refused "2 nodes with 2 ranks each are not 5 ranks" "${slurm[@]}" --nodes 2 --ntasks-per-node 2 --ntasks 5
refused "--min-ranks 5 is above the 4 ranks of this job" "${slurm[@]}" --nodes 2 --ntasks-per-node 2 --min-ranks=5
refused "--min-ranks needs restarts: give --max-restarts, too" "${slurm[@]}" --min-ranks=1 --max-restarts=0
refused "a batch script is for \`train\`" --slurm -- doctor
