# levin doctor under real launchers: one report of all ranks, which finds mismatches.
. "$LEVIN_SOURCE/tests/cli/common.bash"
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
export OMP_NUM_THREADS=1

report() { # MPI, ranks, then more arguments: a report as JSON in out
    local mpi=$1 n=$2
    shift 2
    ranks "$mpi" "$n" "$LEVIN" doctor --measure=false "$@" >out 2>err || { cat out err; exit 1; }
}
mpis_here
for mpi in "${mpis[@]}"; do
    report $mpi 2 --json
    json 'd["hosts"] == 1 and [r["rank"] for r in d["ranks"]] == [0, 1] and len({r["pid"] for r in d["ranks"]}) == 2'
    json 'd["mpi"] and all(r["mpi"] == d["mpi"] and r["cpus"] and r["threads"] == 1 for r in d["ranks"])'
    json 'len(d["links"]) == 1 and d["links"][0]["latency_s"] > 0 and d["links"][0]["bytes_per_s"] > 0'
    json 'd["all_reduce_s"] > 0 and d["clocks_apart_s"] < 1'
    json 'd["rank_from"] == {"openmpi": "OMPI_COMM_WORLD_RANK"}.get(d["launcher"], "PMI_RANK")'
    report $mpi 3
    check [ "$(grep -c '^launched by' out)" = 1 ]
    check [ "$(grep -c '^all-reduce' out)" = 1 ]
    says "ranks              3 on 1 host" out
    report $mpi 3 --train --json
    json 'd["training_equal"] and d["training_apart"] < 1e-4'
    cpus=$(nproc --all)
    OMP_NUM_THREADS=$cpus report $mpi 2
    says "OMP_NUM_THREADS makes $((2 * cpus)) threads of the 2 ranks on $(hostname)" out
    SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=4 report $mpi 2 --json
    json 'any("SLURM_PROCID" in f["finding"] and "unset" in f["cure"] for f in d["findings"])'

    # two hosts by name, one with another program, and with fewer instructions
    if unshare -u true 2>/dev/null && [ $mpi != openmpi ]; then
        cp "$LEVIN" other && printf x >>other
        ranks $mpi 2 bash -c 'program=$0; [ $PMI_RANK = 0 ] && exec "$program" doctor --measure=false --json
            export LEVIN_ISA=generic; exec unshare -u bash -c "hostname other-host; exec ./other doctor --measure=false --json"' \
            "$LEVIN" >out 2>err || { cat out err; exit 1; }
        json 'd["hosts"] == 2 and d["ranks"][1]["host"] == "other-host"'
        json 'any("build" in f["finding"] and "other-host" in f["finding"] for f in d["findings"])'
        json 'd["instructions"] == "generic" or any("instruction set" in f["finding"] for f in d["findings"])'
    fi
done

# without a launcher: the report says which variables count, and which do not
code 0 env -u OMP_NUM_THREADS OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 "$LEVIN" doctor --measure=false --json
json 'd["launcher"] == "local" and any("OMPI_COMM_WORLD_RANK" in f["finding"] for f in d["findings"])'
code 0 "$LEVIN" doctor --measure=false --train
says "the same bits on 1 thread and on 1 in fixed order" out
code 0 env PMI_RANK=x PMI_SIZE=2 "$LEVIN" doctor --measure=false
says "PMI_RANK is 'x'" out
