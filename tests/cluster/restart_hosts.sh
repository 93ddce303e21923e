# levin launch --max-restarts over a hosts file: a spare host replaces one that is cut off, and the run ends with the bits of an
# undisturbed one.
HOSTS=3
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
mpis_here

# spare hosts are probed, too; errors are reported before anything starts
printf 'h1:1\nh2:1\nh3:1\n' >hosts
unplug 3
arguments no
code 2 "${launch[@]}" -n 2 -- "${all[@]}"
one_error
says "hosts:3: the spare host 'h3'" err
plug 3

# it replaces a host that is cut off
lose=cut_off lose_rank 1 spare "${launch[@]}" --launcher="${mpis[0]}" --max-restarts=1 -n 2 --
check [ $got = 0 ]
grep -qE "^restart 1 of 1: continuing from step [0-9]+ with 2 ranks on h1, h3; excluded: h2 \(does not respond\)$" err || { cat err && fail "no h3"; }
same_run alone spare
grep -qE "^--- .* rank 1 of 2 on h3, pid" spare/logs/rank-1.log || fail "rank-1.log does not say where the rank is"
plug 2
