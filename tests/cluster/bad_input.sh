# An error of a run over several ranks is reported in one sentence by one rank, whichever rank has it; and variables left over
# from outer shells are ignored.
. "$LEVIN_SOURCE/tests/cluster/train.bash"
short=("${sizes[@]/max_steps=5/max_steps=2}")
rank='rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}'
refused() { # code (levin's; +: any failure of the launcher), sentence, MPI, ranks, shell commands of rank $rank ("$@" trains), keys
    local wanted=$1 sentence=$2 mpi=$3 n=$4 script=$5
    shift 5
    rm -rf run
    arguments run "${short[@]}" "$@"
    got=0
    ranks "$mpi" "$n" bash -c "$rank; $script" train "$LEVIN" "${all[@]}" >out 2>err || got=$?
    check [ "$got" = "$wanted" -o "$wanted" = + -a "$got" != 0 ]
    one_error
    says "$sentence" err
    check [ ! -e run/checkpoints ]
}
cp text.txt other.txt
echo "one more line" >>other.txt
cat >recipe.yaml <<END
data: {path: text.txt}
END
"$LEVIN" prepare text.txt --out=shards --shard-size=100000 >/dev/null
cp "$LEVIN" newer
printf x >>newer
here=$(hostname)

each() {
    local mpi=$1 rank_variable=PMI_RANK size_variable=PMI_SIZE
    [ "$mpi" != openmpi ] || rank_variable=OMPI_COMM_WORLD_RANK size_variable=OMPI_COMM_WORLD_SIZE
    # input that only some ranks have, or that differs between ranks
    refused 2 "rank 1 on $here: there is no recipe 'recipe.yaml'" "$mpi" 3 '[ $rank = 0 ] || cd /; exec "$1" train recipe.yaml'
    refused 2 "rank 2 on $here was started with trainer.seed 7, but rank 0 on $here with 1337; give all ranks the same recipe" \
        "$mpi" 3 '[ $rank != 2 ] || set -- "$@" --trainer.seed=7; exec "$@"'
    refused 2 "rank 2 on $here was started with model.freeze h." "$mpi" 3 '[ $rank != 2 ] || set -- "$@" \
        --model.freeze="$(seq -s, -f h.%g 0 300),h.300"; [ $rank = 2 ] || set -- "$@" --model.freeze="$(seq -s, -f h.%g 0 300),h.301"; exec "$@"'
    refused 1 "rank 1 on $here: cannot open 'text.txt'" "$mpi" 3 '[ $rank != 1 ] || cd /; exec "$@"'
    refused 2 "rank 2 on $here reads other data than rank 0 on $here; give all hosts the same files" \
        "$mpi" 3 'mkdir -p $rank.d; cp $([ $rank = 2 ] && echo other.txt || echo text.txt) $rank.d/text.txt; cd $rank.d; exec "$@"'
    refused 1 "rank 1 on $here: 'shards/train.bin.json' counts 3 shards, and its folder has 2" "$mpi" 3 \
        'mkdir -p $rank.d; cp -r shards $rank.d; [ $rank != 1 ] || rm -f $rank.d/shards/train-00001.bin; cd $rank.d; exec "$@"' --data.path=shards
    # numbers of ranks and batch sizes that cannot be combined
    refused 2 "13 ranks cannot share the 12 sequences of a step (trainer.batch_size): start at most 12" "$mpi" 13 'exec "$@"'
    refused 2 "5 ranks cannot share the 4 micro-batches of a step" "$mpi" 5 'exec "$@"' --trainer.micro_batch_size=3
    refused 2 "trainer.num_nodes is 2, but the 3 ranks of this run" "$mpi" 3 'exec "$@"' --trainer.num_nodes=2
    refused 2 "trainer.devices is 4, but 3 ranks run on $here" "$mpi" 3 'exec "$@"' --trainer.devices=4
    # variables of the launcher
    refused 2 "$size_variable is set, but $rank_variable is not" "$mpi" 3 "unset $rank_variable; exec \"\$@\""
    refused 2 "$rank_variable is set, but $size_variable is not" "$mpi" 3 "unset $size_variable; exec \"\$@\""
    refused 2 "$rank_variable is 'two'; a rank is an integer, at least 0" "$mpi" 3 "export $rank_variable=two; exec \"\$@\""
    refused 2 "$size_variable is '-3'; a number of ranks is an integer, at least 1" "$mpi" 3 "export $size_variable=-3; exec \"\$@\""
    refused + "rank 0 of " "$mpi" 2 "export $rank_variable=0; exec \"\$@\"" --trainer.rank_timeout=3
    # another build is only a warning; a run folder that only rank 0 can write is sufficient
    rm -rf run folder && mkdir folder
    arguments folder/run "${short[@]}"
    code 0 ranks "$mpi" 2 bash -c "$rank"'; [ $rank = 0 ] || { shift; set -- ./newer "$@"; }; exec "$@"' train "$LEVIN" "${all[@]}"
    says "rank 1 on $here runs another program than rank 0 on $here" err
    if unshare -m true 2>/dev/null; then
        rm -rf folder/run
        code 0 ranks "$mpi" 2 bash -c "$rank"'; [ $rank = 0 ] || exec unshare -m bash -c "mount --bind folder folder &&
            mount -o remount,bind,ro folder && ! touch folder/x 2>/dev/null && exec \"\$@\"" train "$@"; exec "$@"' train "$LEVIN" "${all[@]}"
        check [ -e folder/run/checkpoints/last ]
        if [ "$mpi" = openmpi ]; then # others need /proc themselves
            rm -rf folder/run
            code 0 ranks "$mpi" 2 bash -c "$rank"'; [ $rank = 0 ] || exec unshare -m bash -c "mount -t tmpfs none /proc &&
                exec \"\$@\"" train "$@"; exec "$@"' train "$LEVIN" "${all[@]}"
            says "rank 1 on $here cannot read its own program file" err
            silent_about "runs another program" err
        fi
    fi
    # variables left over from other launchers
    rm -rf left
    arguments left "${short[@]}"
    code 0 env SLURM_JOB_ID=7 SLURM_PROCID=3 SLURM_NTASKS=8 SLURM_LOCALID=3 SLURM_NODEID=1 RANK=5 WORLD_SIZE=9 LOCAL_RANK=1 \
        MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=2 \
        $([ "$mpi" = openmpi ] && echo PMI_RANK=1 PMI_SIZE=4 || echo OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4) \
        bash -c '. "$LEVIN_SOURCE/tests/cluster/mpis.bash"; ranks "$@"' x "$mpi" 2 "$LEVIN" "${all[@]}"
    says "2 ranks" err
}
each_mpi each

