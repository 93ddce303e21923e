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
refused "no command to launch" -n 2
refused "write -- before the command, as in: levin launch" -n 2 train
refused "keys of the recipe go after --" -n 2 --trainer.max_steps=3 -- train
refused "levin has no command 'trian'" -n 2 -- trian
refused "omit 'levin'" -n 2 -- levin train
refused "there is no recipe 'none.yaml'" -n 2 -- train none.yaml
refused "unknown key 'trainer.max_step'" -n 2 -- train --trainer.max_step=3
refused "put -- before the command that levin launch runs: levin launch -- train my.txt" -n 2 train my.txt
refused "the number of ranks is missing" -- doctor
refused "--max-restarts requires \`train\`" -n 2 --max-restarts=1 -- doctor
arguments run
refused "--min-ranks requires restarts: give --max-restarts, too" -n 2 --min-ranks=1 -- "${all[@]}"
refused "--min-ranks 3 exceeds the 2 ranks of this launch; give at most 2" -n 2 --max-restarts=1 --min-ranks=3 -- "${all[@]}"
refused "but trainer.num_nodes requires a fixed number of ranks" -n 2 --max-restarts=1 --min-ranks=1 -- "${all[@]}" --trainer.num_nodes=1
refused "but trainer.shares requires a fixed number of ranks" -n 2 --max-restarts=1 --min-ranks=1 -- "${all[@]}" --trainer.shares=2,2
refused "--threads is 2, but ranks use trainer.threads, which is 1: omit one of the two" -n 2 --threads=2 -- "${all[@]}" --trainer.threads=1
code 0 "$LEVIN" launch --dry-run -n 1 --max-restarts=1 --min-ranks=1 -- "${all[@]}"
says "warning: --min-ranks is ignored: it applies when a host is lost, and all ranks are on this one" err
code 1 bash -c 'ulimit -n 250; exec "$@"' x "$LEVIN" ranks --hosts=127.0.0.1:20 -- "${all[@]}"
one_error
says "the limit of 250 open files is below the 260 that 20 ranks require" err
code 1 "$LEVIN" launch -n 1 --log-dir=text.txt -- "${all[@]}"
one_error
[ ! -e run ]
refused "-n needs a value, as in -n VALUE" -n
refused "-n must be a whole number" -n two -- doctor
refused "do not fit on 1 host with --nproc-per-node 2" -n 2 -n 3 --nproc-per-node 2 -- doctor # the last -n is used
refused "do not fit on 1 host with --nproc-per-node 2" -n 5 --nproc-per-node 2 -- doctor
if command -v srun >/dev/null; then
    refused "srun requires an allocation" -n 2 --launcher=srun -- doctor
else
    refused "there is no srun in PATH" -n 2 --launcher=srun -- doctor
fi
refused "--launcher must be auto, srun" -n 2 --launcher=nix -- doctor
refused "is not an mpirun of Open MPI, MPICH or Intel MPI" -n 2 --launcher=/bin/true -- doctor

# the hosts file
hosts() { printf '%b' "$1" >hosts; }
refused "the hosts file 'none' does not exist" -n 2 --hostfile none -- doctor
hosts '# nothing\n\n'
refused "the hosts file 'hosts' contains no host" -n 2 --hostfile hosts -- doctor
hosts 'localhost\nno-such-host.invalid # here\n'
refused "hosts:2: the host 'no-such-host.invalid' cannot be resolved" -n 2 --hostfile hosts -- doctor
hosts 'localhost:2\n\nlocalhost slots=2\n'
refused "hosts:3: the host 'localhost' is already on line 1" -n 2 --hostfile hosts -- doctor
hosts 'localhost:2\n127.0.0.1\n'
refused "hosts:2: '127.0.0.1' is the same machine as 'localhost' on line 1" -n 2 --hostfile hosts -- doctor
hosts '\xef\xbb\xbflocalhost:none\n' # a byte order mark is not part of a name
refused "hosts:1: the number of ranks of host 'localhost' must be an integer, at least 1, not 'none'" -n 2 --hostfile hosts -- doctor
hosts 'localhost cores=2\n'
refused "hosts:1: unknown word 'cores=2'" -n 2 --hostfile hosts -- doctor
hosts 'local;host\n'
refused "hosts:1: 'local;host' is not a valid host name" -n 2 --hostfile hosts -- doctor
hosts 'localhost slots=2\n'
refused "-n is 3 ranks, but the hosts file has 2 slots" -n 3 --hostfile hosts -- doctor

# no MPI: if one is requested, the message names the package; else levin starts the ranks; one rank needs no launcher
mkdir bin
code 2 env PATH="$PWD/bin" "$LEVIN" launch -n 2 -- doctor --trainer.transport=mpi
one_error
says "2 ranks require an MPI, but there is no mpirun in PATH" err
code 0 env PATH="$PWD/bin" "$LEVIN" launch --dry-run -n 2 -- doctor
says "ranks --hosts=127.0.0.1:2 -- doctor" out
code 2 env PATH="$PWD/bin" "$LEVIN" launch -n 2 -- doctor --trainer.mpi_library=libmpi.so.40
one_error
says "2 ranks require an MPI" err
code 2 "$LEVIN" launch --launcher=levin -n 2 -- doctor --trainer.mpi_library=libmpi.so.40
one_error
says "--launcher=levin connects ranks with TCP, but trainer.mpi_library requires an MPI" err
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
says "which does not describe a part of a run" err
printf '0 1 1 0 1 1\0/none\0\0doctor\0' >part
code 2 "$LEVIN" ranks --part <part
says "cannot change to the folder '/none' on this host" err

# commands that do not work on ranks run once
for option in "-n 2" --nproc-per-node=2 "--nodes 2 --node-rank 0"; do
    code 0 "$LEVIN" launch $option -- help
    says "'help' does not use several ranks: it runs once, on this machine" err
done
check [ "$(grep -c "levin help COMMAND\` explains a command" out)" = 1 ]

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
refused_in PE_HOSTFILE 'localhost\n' "wrong:1: the number of slots is missing after 'localhost'" -- doctor
refused_in PE_HOSTFILE 'localhost two\n' "the number of ranks of host 'localhost' must be an integer, at least 1, not 'two'" -- doctor
refused_in PBS_NODEFILE 'local;host\n' "wrong:1: 'local;host' is not a valid host name" -- doctor
refused_in PBS_NODEFILE '\n' "contains no host" -- doctor
refused_in LSB_DJOB_HOSTFILE 'localhost\n' "-n is 2 ranks, but $PWD/jobs/wrong has 1 slots; request more from the queue, or use -n 1" -n 2 -- doctor
code 0 env PATH="$PWD/bin" PBS_NODEFILE=/none "$LEVIN" launch --dry-run -n 2 -- doctor
says "PBS_NODEFILE=/none is ignored: the file does not exist" err
arguments one
code 0 "$LEVIN" launch -n 1 -- "${all[@]}"
arguments two
code 0 "$LEVIN" "${all[@]}"
same_run one two

# stub launchers
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
# neither do those of an outer levin launch, also not through -x of Open MPI, which is needed for other hosts
fake mpirun "mpirun (Open MPI) 4.1.4"
# the login shell of a host may be csh, so sh reads the probe's commands; a connection that a jump host drops is tried again
cat >bin/ssh <<'END'
#!/bin/bash
[ -e dropped ] || { touch dropped; echo "kex_exchange_identification: Connection closed by remote host"; exit 255; }
[[ ${@: -1} = "exec sh -c '"*"'" ]]
END
chmod +x bin/ssh
printf '127.0.0.1:1\n192.0.2.7:1\n' >far
if LEVIN_RANK=1 LEVIN_TERMINAL=90 LEVIN_RENDEZVOUS=old LEVIN_RENDEZVOUS_TOKEN=old LEVIN_CACHE=$PWD/cache PATH=$PWD/bin:/usr/bin:/bin \
    "$LEVIN" launch --dry-run -n 2 --hostfile far --ssh="$PWD/bin/ssh" --launcher="$PWD/bin/mpirun" -- doctor >out 2>err; then
    says "-x LEVIN_CACHE" out
    for name in LEVIN_RANK LEVIN_TERMINAL LEVIN_RENDEZVOUS LEVIN_RENDEZVOUS_TOKEN; do
        says "-u $name" out
        lacks "-x $name" out
    done
else
    says "this machine has no route to the host" err
fi
# a Slurm that does not respond for a moment is asked again: its job must not run on its first node only
cat >bin/squeue <<'END'
#!/bin/bash
# the first line of the file `answers`, which is then removed unless it is the last
answer=$(head -n 1 answers)
[ "$(wc -l <answers)" = 1 ] || sed -i 1d answers
case $answer in slurm_load_jobs* | *fatal*) echo "squeue: error: first line" && echo "$answer" && exit 1 ;; esac
echo "$answer"
END
printf '#!/bin/sh\n' >bin/srun
chmod +x bin/squeue bin/srun
in_job() { # in_job CODE ANSWERS ARGUMENTS...: levin launch in a job of four nodes
    local code=$1
    printf "$2" >answers
    shift 2
    SLURM_JOB_ID=5 SLURM_JOB_NUM_NODES=${nodes:-4} SLURM_NTASKS=32 PATH=$PWD/bin:/usr/bin:/bin code "$code" "$LEVIN" launch --dry-run "$@"
}
down="slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
in_job 0 "$down\nRUNNING\n" -- doctor --trainer.transport=tcp
says "bin/srun --ntasks=32 --mpi=none" out
in_job 2 "RUNNING\n" --launcher=levin -- doctor
says "--launcher=levin would start all ranks on the first of the 4 nodes of Slurm job 5: omit it, so that srun starts them" err
cp "$(readlink -f /bin/bash)" slurmstepd
for step in 1 2; do # a job step, such as a run of a sweep: on one node levin ranks start on it
    SLURM_JOB_ID=5 SLURM_JOB_NUM_NODES=4 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=$step SLURM_PROCID=0 SLURM_NTASKS=1 \
        PATH=$PWD/bin:/usr/bin:/bin code $((step == 1 ? 0 : 2)) ./slurmstepd -c '"$@"; exit $?' x \
        "$LEVIN" launch --dry-run --launcher=levin --nproc-per-node=3 -- doctor
    [ $step = 2 ] || says "levin ranks --hosts=127.0.0.1:3 -- doctor" out
done
in_job 0 "RUNNING\n" --launcher="$PWD/bin/mpirun" --nproc-per-node=1 --bind=false -- doctor
says "bin/mpirun -n 4 " out
says "--map-by ppr:1:node --bind-to none" out
silent="SLURM_JOB_ID=5: squeue does not report whether this job is running"
in_job 1 "$down\n" -n 2 -- doctor --trainer.start_timeout=1 # with $down as the reason, unless squeue needs longer
one_error
says "$silent (" err
error="slurm_load_jobs error: Protocol authentication error"
in_job 1 "$error\n" -n 2 -- doctor
one_error
says "$silent ($error): try again, or unset SLURM_JOB_ID to start ranks outside of Slurm" err
# ignored in a job of one node, and if squeue has no configuration, as in a container
nodes=1 in_job 0 "$error\n" -n 2 -- doctor
says "SLURM_JOB_ID=5 is ignored: squeue does not report whether this job is running ($error)" err
for error in "squeue: fatal: Could not establish a configuration source" "squeue: fatal: Unable to process configuration file"; do
    in_job 0 "$error\n" -n 2 -- doctor
    says "SLURM_JOB_ID=5 is ignored: squeue does not report whether this job is running ($error)" err
done
printf '#!/bin/sh\necho "srun: fatal: no configuration"\nexit 1\n' >bin/srun
in_job 1 "RUNNING\n" -- doctor
says "\`srun --mpi=list\` failed, so the MPIs of this Slurm are unknown (srun: fatal: no configuration)" err
for answer in "slurm_load_jobs error: Invalid job id specified" COMPLETING; do
    in_job 0 "$answer\n" -n 2 -- doctor
    says "SLURM_JOB_ID=5 is ignored: no such job is running" err
    says "-u SLURM_NTASKS" out
done
rm bin/squeue bin/srun
# in a container, which has no squeue, a requeued job resumes, too; its processes are below slurmstepd
arguments one --trainer.max_steps=12
SLURM_JOB_ID=5 SLURM_RESTART_COUNT=1 PATH=$PWD/bin code 0 ./slurmstepd -c '"$@"; exit $?' x "$LEVIN" launch --launcher=levin -n 2 -- "${all[@]}" --overwrite
says "SLURM_JOB_ID=5 is ignored: there is no squeue in PATH" err
says "this job was requeued: continuing" err
says "continuing after step 8 from one/checkpoints/step-8" err
SLURM_JOB_ID=5 SLURM_RESTART_COUNT=1 PATH=$PWD/bin code 0 ./slurmstepd -c '"$@"; exit $?' x "$LEVIN" launch --launcher=levin -n 2 -- doctor --measure=no
silent_about "continuing" err
code 0 "$LEVIN" launch --json --dry-run -n 1 -- doctor
json 'd["ranks"] == 1 and "doctor" in d["command"]'

# codes of the launched command
code 2 "$LEVIN" launch -n 1 -- doctor --nix
code 2 "$LEVIN" launch -n 1 -- evaluate none
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
lacks "--no-kill" out
code 0 "$LEVIN" launch "${slurm[@]}" --nodes 2 --ntasks-per-node 2 --min-ranks=2 --max-restarts=5 --log-dir="a b"
for text in "#SBATCH --no-kill" "--max-restarts=5 --min-ranks=2 '--log-dir=a b' -- train"; do says "$text" out; done
code 0 "$LEVIN" launch --slurm --launcher=openmpi -n 3 -- train recipes/demo.yaml --trainer.max_steps=7
for text in "#SBATCH --ntasks=3" "#SBATCH --signal=B:USR1@90" "launch --launcher=openmpi -n 3 --max-restarts=3 -- train recipes/demo.yaml" \
    "trap 'kill -USR1 \$launch' USR1"; do
    says "$text" out
done
code 0 "$LEVIN" launch "${slurm[@]}" --json
json '"#SBATCH" in d["script"]'
refused "the recipe is missing" --slurm
refused "there is no recipe 'none.yaml'" --slurm none.yaml
refused "--time must be HH:MM:SS" "${slurm[@]}" --time soon
refused "--signal must be USR1@SECONDS" "${slurm[@]}" --signal TERM@30
refused "--partition: 'a b' has a character" "${slurm[@]}" --partition "a b"
refused "--ntasks and -n have the same meaning but differ" "${slurm[@]}" --ntasks 2 -n 3
refused "2 nodes with 2 ranks each are not 5 ranks" "${slurm[@]}" --nodes 2 --ntasks-per-node 2 --ntasks 5
refused "2 nodes with 2 ranks each are not 5 ranks" "${slurm[@]}" --trainer.num_nodes=2 --ntasks-per-node 2 --ntasks 5
refused "--min-ranks 5 exceeds the 4 ranks of this job; give at most 4" "${slurm[@]}" --nodes 2 --ntasks-per-node 2 --min-ranks=5
refused "--min-ranks requires restarts: give --max-restarts, too" "${slurm[@]}" --min-ranks=1 --max-restarts=0
refused "a batch script is for \`train\`" --slurm -- doctor
refused "--launcher=levin starts ranks on the first node of a Slurm job only" "${slurm[@]}" --launcher=levin
code 0 "$LEVIN" launch "${slurm[@]}" --launcher=levin --nodes 1 --ntasks 2
says "# levin launch runs levin ranks, which need no MPI, " out
says "launch --launcher=levin -n 2 --max-restarts=3 -- train" out
code 0 "$LEVIN" launch "${slurm[@]}" --bind=false --prefix=false --log-dir=logs
says "--log-dir=logs --bind=false --prefix=false -- train" out
# an option without effect is refused
for option in --hostfile=hosts --ssh=rsh --node-rank=1 --dry-run; do
    refused "${option%=*} has no effect on the script that --slurm writes: omit it" "${slurm[@]}" $option
done
for option in --out=x --job-name=x --ntasks=2 --ntasks-per-node=2 --cpus-per-task=1 --mem=4G --partition=x --account=x --time=1 \
    --signal=USR1@9 --requeue=no --array=1-2 --module=x; do
    refused "${option%=*} is for the script that --slurm writes: add --slurm, or omit ${option%=*}" -n 2 $option -- doctor
done
check [ "$("$LEVIN" help launch | grep -c "with --slurm: ")" = 13 ]
refused "--ssh is for hosts that this machine reaches with ssh, but with --nodes each node starts its own" --nodes 2 --node-rank 0 --ssh=rsh -- doctor

# Every value reaches the ranks unchanged, as one argument: through a batch script, through the command line of each
# launcher, through a remote shell, and in the command that is printed.
values=("it's" 'a "b" c' '$(touch hit)' '`touch hit`' 'a; touch hit #' $'line\ntouch hit\n#' $'line\n#SBATCH --uid=0\ntab\t' '&& touch hit |'
    '한국어 ä' '-x' '*' '~x' '\' '%j' '!1' "'\$(touch hit)'")
mkdir words
printf '#!/bin/bash\nprintf "%%s\\0" "$@" >"%s/got"\n' "$PWD" >words/levin
chmod +x words/levin
given() { # given WORD: one of the arguments
    local word
    while IFS= read -r -d '' word; do [ "$word" != "$1" ] || return 0; done <got
    fail "not an argument: $1; $(tr '\0' '|' <got)"
}
plain=(train recipes/demo.yaml)
for launcher in "mpirun (Open MPI) 4.1.4" "mpirun (Open MPI) 5.0.3" "HYDRA build details: Version: 4.0.2" "Intel(R) MPI Library for Linux* OS, Version 2021.18.1" batch direct; do
    printf '#!/bin/bash\n[ "$1" = --version ] && echo "%s" && exit\nprintf "%%s\\0" "$@" >"%s/got"\n' "$launcher" "$PWD" >bin/mpirun
    for value in "${values[@]}"; do
        rm -f got
        case $launcher in
        batch)
            for array in "" --array=1-2; do
                echo 'data: {kind: chars}' >"$value.yaml"
                code 0 "$LEVIN" launch --slurm ${array:+"$array"} -- train "./$value.yaml" --run_dir="$value" --data.path="$value" --sample.prompt="$value"
                # levin by its path in the script, in place of which a program writes down its arguments
                sed "s|^$(readlink -f "$LEVIN") launch|$PWD/words/levin launch|" out >script
                bash -n script
                ! grep -q '^#SBATCH --uid' <(sed '/^set -e/q' script) || fail "an #SBATCH line out of a value"
                SLURM_ARRAY_TASK_ID=2 bash script
                given "./$value.yaml"
                given "--run_dir=$value${array:+-2}"
                given "--data.path=$value"
                rm "./$value.yaml"
            done ;;
        direct) code 0 "$LEVIN" launch -n 1 --json --dry-run -- "${plain[@]}" --sample.prompt="$value" ;;
        *) PATH=$PWD/bin:/usr/bin:/bin code 0 "$LEVIN" launch -n 2 --launcher="$PWD/bin/mpirun" -- "${plain[@]}" --sample.prompt="$value" --run_dir="$value" ;;
        esac
        [ "$launcher" != direct ] || { # the printed command is read by a shell
            python3 -c 'import json; print(json.load(open("out"))["command"])' | sed "s|$(readlink -f "$LEVIN") |$PWD/words/levin |" >script
            bash script
        }
        given "--sample.prompt=$value"
        check [ ! -e hit ]
    done
done
# a levin whose own path needs quotes, and a remote shell
mkdir "it's \$(touch hit)"
cp -L "$LEVIN" "it's \$(touch hit)/levin"
printf '#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n' >bin/remote
chmod +x bin/remote
code 0 "./it's \$(touch hit)/levin" ranks --hosts=192.0.2.1:1 --ssh="$PWD/bin/remote" -- help train
says "levin train" out
check [ ! -e hit ]
# a name is also a job's name, and a file's; one with a control character is refused, wherever it comes from
for value in $'x\nexec >F; id\n#' $'a\tb' $'a\x7f' $'a\u202eb'; do
    code 2 "$LEVIN" launch --slurm recipes/demo.yaml --name="$value"
    one_error
    says "has a control character" err
    code 2 "$LEVIN" train text.txt --name="$value"
    says "has a control character" err
done
printf 'name: "x\\nexec >F; id\\n#"\n' >bad.yaml
code 2 "$LEVIN" launch --slurm bad.yaml
says "has a control character" err
code 0 "$LEVIN" launch --slurm recipes/demo.yaml --name='a b$(id)"%j é'
says '#SBATCH --job-name=a_b__id___j_é' out

# the settings of several ranks are printed once
code 0 "$LEVIN" launch -n 2 -- train text.txt --show-settings --json
json '"trainer.seed" in d["settings"]'
