# levin launch as far as one machine without any MPI can go: what is refused, in one sentence each, and before anything
# starts; a run of one rank; the command line of a launcher that is only said to be there.
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
refused "what is launched stands behind --" -n 2 train
refused "keys of the recipe stand behind --" -n 2 --trainer.max_steps=3 -- train
refused "no command 'trian' to launch" -n 2 -- trian
refused "leave 'levin' out" -n 2 -- levin train
refused "there is no recipe 'none.yaml'" -n 2 -- train none.yaml
refused "unknown key 'trainer.max_step'" -n 2 -- train --trainer.max_step=3
refused "say how many ranks" -- doctor
refused "-n wants a value, as in -n VALUE" -n
refused "-n wants a whole number" -n two -- doctor
refused "-n is given twice" -n 2 -n 3 -- doctor
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
refused "hosts:3: the host 'localhost' stands on line 1 already" -n 2 --hostfile hosts -- doctor
hosts 'localhost:2\n127.0.0.1\n'
refused "hosts:2: '127.0.0.1' is the same machine as 'localhost' on line 1" -n 2 --hostfile hosts -- doctor
hosts 'localhost:none\n'
refused "hosts:1: the ranks of host 'localhost' are a whole number from 1, not 'none'" -n 2 --hostfile hosts -- doctor
hosts 'localhost cores=2\n'
refused "hosts:1: 'cores=2' is not understood" -n 2 --hostfile hosts -- doctor
hosts 'local;host\n'
refused "hosts:1: 'local;host' is not the name of a host" -n 2 --hostfile hosts -- doctor
hosts 'localhost slots=2\n'
refused "-n 3 ranks, and the hosts file has room for 2" -n 3 --hostfile hosts -- doctor

# no MPI: the package is named; one rank needs none
mkdir bin
code 2 env PATH="$PWD/bin" "$LEVIN" launch -n 2 -- doctor
one_error
says "2 ranks need an MPI, and there is no mpirun in PATH" err
arguments one
code 0 "$LEVIN" launch -n 1 -- "${all[@]}"
arguments two
code 0 "$LEVIN" "${all[@]}"
same_run one two

# launchers that are only said to be there
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
says "bin/mpirun -n 2 -prepend-rank" out
says "-iface lo" out
says "doctor --measure=no" out
fake mpirun "Intel(R) MPI Library for Linux* OS, Version 2021.18.1"
dry -n 4096 -- doctor
says "I_MPI_PIN=0" out
says "warning: 4096 ranks of" err
# what another launcher left in the environment does not reach the ranks
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
