# levin launch --max-restarts: it restarts as often as allowed, and never after an error that no restart cures; two launches into
# one run.
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
mpis_here
launch+=(--launcher="${mpis[0]}")
[ "${mpis[0]}" != intel ] || launch=(env PATH="$intel/bin:$PATH" "${launch[@]}")
one_said() { [ "$(grep -c 'error: ' err)" = 1 ] || { cat err && fail "not one error"; }; }

# as many restarts as allowed, and no more; without a run folder there are no logs, unless --log-dir names one
cat >fake <<E2
#!/bin/bash
[ "\$1" != --version ] || exec "$(mpi_program "${mpis[0]}")" --version
echo again >>attempts
exit 9
E2
chmod +x fake
arguments never
code 76 "$LEVIN" launch --launcher="$PWD/fake" --max-restarts=2 -n 2 -- "${all[@]}"
check [ "$(wc -l <attempts)" = 3 ]
says "restart 2 of 2: from the beginning, because nothing is saved yet, with 2 ranks" err
says "no restart: 2 in a row saved no new checkpoint" err
check [ ! -e never ]
rm attempts
code 76 "$LEVIN" launch --launcher="$PWD/fake" -n 2 -- "${all[@]}"
check [ "$(wc -l <attempts)" = 1 ]
one_said

# faults that a restart does not cure
wild=(--optimizer.lr=1e6 --optimizer.kind=sgd --trainer.gradient_clip_val=0 --trainer.max_steps=200 --trainer.threads=1)
arguments wild "${wild[@]}"
code 1 "${launch[@]}" --max-restarts=3 -n 2 -- "${all[@]}"
silent_about "restart" err
one_said
arguments many
code 2 "${launch[@]}" --max-restarts=3 -n 5 -- "${all[@]}"
silent_about "restart" err
one_said
check [ ! -e many ]

# two launches into one run: the second is refused, and does not change the first one's logs
arguments one "${exact[@]}" --trainer.max_steps=1000000000 --checkpoint.every_n_steps=100
"${launch[@]}" -n 2 --log-dir=aside/logs -- "${all[@]}" >first.out 2>first.err &
pid=$!
soon test -e one/checkpoints/last
code 1 "${launch[@]}" --max-restarts=3 -n 2 -- "${all[@]}" --resume
one_said
says "another process is training in 'one'" err
silent_about "restart" err
check [ ! -e one/logs ]
kill -USR1 "$(pgrep -P $pid -x levin || pgrep -x -o levin)"
ended
check [ $got = 75 ]
says "stopped on request" aside/logs/rank-0.log
check [ -s aside/logs/rank-1.log ]
# a host that was at fault twice is used again if there is no other
echo localhost:2 >hosts
lose=twice restarts=2 lose_rank 1 stays "${launch[@]}" --hostfile hosts --max-restarts=1 -n 2 --
check [ $got = 0 ]
check [ "$(grep -cE "^restart 1 of 1: continuing .* with 2 ranks on localhost$" err)" = 2 ]
same_run alone stays
nobody_left
