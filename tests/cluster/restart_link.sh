# levin launch --max-restarts over hosts of which two lose the link between them: which of the two is at fault is not known, and the
# second time one of them is replaced by a spare host. Also a spare host that answers but cannot connect back.
HOSTS=4
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
printf 'h%d:1\n' 1 2 3 4 >hosts
apart() { # packets between two hosts are dropped silently
    for pair in "$1 $2" "$2 $1"; do on "${pair% *}" ip neigh replace "10.77.0.${pair#* }" lladdr 02:00:00:00:00:09 dev eth0 nud permanent; done
}
together() { for pair in "$1 $2" "$2 $1"; do on "${pair% *}" ip neigh del "10.77.0.${pair#* }" dev eth0; done; }

undisturbed 2000
arguments link "${exact[@]}" --trainer.max_steps=2000 --checkpoint.every_n_steps=50 --trainer.stall_timeout=6
"${launch[@]}" --launcher=levin --max-restarts=2 -n 3 -- "${all[@]}" >out 2>err &
pid=$!
until [ -e link/checkpoints/last ]; do kill -0 $pid; sleep 0.005; done
apart 2 3
ended
check [ $got = 0 ]
grep -qE "^restart 1 of [12]: .* with 3 ranks on h1, h2, h3$" err || { cat err && fail "no first restart"; }
grep -qE "^restart [12] of 2: .* with 3 ranks on h1, h2, h4; excluded: h3 \(link to h2 failed twice\)$" err ||
    { cat err && fail "h3 is not left out"; }
[ "$(grep -c '^restart ' err)" = 2 ] || { cat err && fail "not two restarts"; }
[ "$(grep -c '^error: .*rank 1 on h2 and rank 2 on h3 wait for each other: check the link between them' err)" -ge 1 ] ||
    { cat err && fail "the link is not named"; }
! grep -qE "(is|are) computing" err || { cat err && fail "ranks that connect are said to compute"; }
same_run alone link
together 2 3

# the launch succeeds; before the restart h3 answers, but cannot connect to the others
cat >remote <<END
#!/bin/bash
host=\$1 script=\$2
[ ! -e "$PWD/mute" ] || [ "\$host" != h3 ] || script=\$(sed "s/--check-connection=[^;]*/--check-connection=10.77.0.1:1/" <<<"\$script")
exec $ssh "\$host" "\$script"
END
chmod +x remote
launch=(on 1 timeout -k 3 600 "$LEVIN" launch --ssh="$PWD/remote" --hostfile hosts)
lose_it() { touch mute && unplug 2; }
lose=lose_it lose_rank 1 mute-run "${launch[@]}" --launcher=levin --max-restarts=1 -n 2 --
check [ $got = 0 ]
says "with 2 ranks on h1, h4; excluded: h2 (does not respond), h3 (cannot connect back to this machine)" err
same_run alone mute-run
