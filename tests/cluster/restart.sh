# levin launch --max-restarts on one machine, with each MPI: a rank is killed, the job resumes from its last checkpoint and ends
# with the bits of an undisturbed run. The output of each rank is in a separate file.
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
mpis_here
bare=("${launch[@]}")
use() { # MPI
    launch=("${bare[@]}" --launcher="$1")
    [ "$1" != intel ] || launch=(env PATH="$intel/bin:$PATH" "${launch[@]}")
}
heads() { grep -c '^--- 20.* rank '"$2 of $3" "$1/logs/rank-$2.log"; } # heads RUN RANK RANKS

# the cost of the restart: in status.json, in the rows of the second attempt only, and in levin watch
goodput_of() { # RUN
    python3 - "$1" <<'END'
import csv, json, sys
status = json.load(open(sys.argv[1] + "/status.json"))
g, rows = status["goodput"], list(csv.DictReader(open(sys.argv[1] + "/metrics.csv")))
assert g["steps_kept"] == status["step"] == int(rows[-1]["step"]), (g, rows[-1])
assert g["restarts"] == 1 and g["restart_seconds"] > 0, g
assert g["steps_computed"] >= g["steps_kept"] and abs(g["ratio"] - g["steps_kept"] / g["steps_computed"]) < 1e-5, g
assert abs(float(rows[-1]["goodput"]) - g["ratio"]) < 1e-5 and rows[-1]["restarts"] == "1", rows[-1]
assert abs(float(rows[-1]["restart_seconds"]) - g["restart_seconds"]) < 0.01, rows[-1]
assert not rows[0]["goodput"], rows[0]
END
    code 0 "$LEVIN" watch "$1" --once
    grep -qE "^goodput [0-9.]+ % \([0-9]+ of [0-9]+ steps kept\), 1 restart, the last took " out || { cat out && fail "watch"; }
}

for mpi in "${mpis[@]}"; do
    use $mpi
    lose_rank 1 $mpi "${launch[@]}" --max-restarts=1 -n 2 --
    check [ $got = 0 ]
    grep -qE "^error: ranks? .* sent no heartbeat since" err || { cat err && fail "$mpi: no rank reports what happened"; }
    grep -qE "^restart 1 of 1: continuing from step [1-9][0-9]* with 2 ranks$" err || { cat err && fail "$mpi: no restart"; }
    same_run alone $mpi
    goodput_of $mpi
    for rank in 0 1; do check [ "$(heads $mpi $rank 2)" = 2 ]; done
    grep -qE "^step +10/" $mpi/logs/rank-0.log || fail "rank 0's lines are not in its file"
    grep -hqE "^error: ranks? .* sent no heartbeat" $mpi/logs/rank-[01].log || fail "its end is not in the file of the rank"
    ! grep -q '^\[0\]' $mpi/logs/*.log || fail "lines have a prefix"
done

# one rank is restarted without a launcher
lose_rank "" single timeout -k 3 600 "$LEVIN" launch --max-restarts=1 -n 1 --
check [ $got = 0 ]
says "restart 1 of 1: continuing from step" err
same_run alone single
check [ "$(heads single 0 1)" = 2 ]
# --overwrite removes the logs with the run, and no other file there
touch single/logs/notes
arguments single "${exact[@]}"
code 2 "$LEVIN" "${all[@]}" --overwrite
says "'single/logs/notes' was not written by levin" err
rm single/logs/notes
code 0 "$LEVIN" "${all[@]}" --overwrite
check [ ! -e single/logs ]
nobody_left
