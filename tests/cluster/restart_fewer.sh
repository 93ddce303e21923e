# levin launch --min-ranks: if a host is cut off and there is no spare one, fewer ranks continue, with the same bits; with an MPI
# and with levin's own connections.
HOSTS=2
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
launchers=(levin)
for m in openmpi mpich; do ! mpi_here $m || launchers[1]=$m; done # the last installed one: restart_hosts.sh uses the first

printf 'h1:1\nh2:1\n' >hosts
for launcher in "${launchers[@]}"; do
    # without a spare host there are too few hosts, ...
    lose=cut_off lose_rank 1 few "${launch[@]}" --launcher="$launcher" --max-restarts=1 -n 2 --
    check [ $got = 76 ]
    says "no restart: there are slots for 1 of 2 ranks; excluded: h2 (does not respond); --min-ranks would continue with fewer" err
    plug 2
    nobody_left

    # ... or fewer ranks continue
    lose=cut_off lose_rank 1 fewer "${launch[@]}" --launcher="$launcher" --max-restarts=1 --min-ranks=1 -n 2 --
    check [ $got = 0 ]
    grep -qE "^restart 1 of 1: continuing from step [0-9]+ with 1 rank on h1; excluded: h2" err || { cat err && fail "not on h1 alone"; }
    same_run alone fewer
    plug 2
    nobody_left
done
