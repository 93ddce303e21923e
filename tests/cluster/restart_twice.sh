# levin launch --max-restarts over a hosts file: a host that answers and loses its rank for the second time is left out.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
unset OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
RANK_TIMEOUT=2
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
hosts_up 3
sshd_up 3
make_text
mpis_here
launch=(on 1 timeout -k 3 120 "$LEVIN" launch --ssh="$ssh" --hostfile hosts)

printf 'h1:1\nh2:1\nh3:1\n' >hosts
lose=twice restarts=2 lose_rank 1 twice "${launch[@]}" --launcher="${mpis[0]}" --max-restarts=1 -n 2 --
check [ $got = 0 ]
says "restart 1 of 1: going on from step" err
grep -qE "^restart 1 of 1: going on .* with 2 ranks on h1, h3; left out: h2 \(at fault twice\)$" err || { cat err && fail "h2 is not left out"; }
same_run alone twice
nobody_left
