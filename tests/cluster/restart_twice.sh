# levin launch --max-restarts over a hosts file: a host that answers but loses its rank a second time is left out.
HOSTS=3
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
mpis_here

printf 'h1:1\nh2:1\nh3:1\n' >hosts
lose=twice restarts=2 lose_rank 1 twice "${launch[@]}" --launcher="${mpis[0]}" --max-restarts=1 -n 2 --
check [ $got = 0 ]
says "restart 1 of 1: continuing from step" err
grep -qE "^restart 1 of 1: continuing .* with 2 ranks on h1, h3; excluded: h2 \(at fault twice\)$" err || { cat err && fail "h2 is not excluded"; }
same_run alone twice
nobody_left
