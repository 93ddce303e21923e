# levin launch on clusters: batch systems that name hosts, scripts that wrap an mpirun, hosts with IPv6 only, hosts that
# cannot connect back, hosts without the MPI.
HOSTS=2
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
mpis_here
keys=(--trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1)
arguments one "${keys[@]}"
code 0 "$LEVIN" "${all[@]}"
by_ssh=(timeout -k 3 600 "$LEVIN" launch --ssh="$ssh")

# the hosts of a job of PBS, LSF and Grid Engine
printf 'h1\nh2\nh2\n' >slots
printf 'h1 1 all.q@h1 UNDEFINED\nh2 2 all.q@h2 UNDEFINED\n' >pe
for job in PBS_NODEFILE=slots LSB_DJOB_HOSTFILE=slots PE_HOSTFILE=pe; do
    for launcher in levin "${mpis[0]}"; do
        rm -rf job
        arguments job "${keys[@]}"
        code 0 on 1 env ${job%=*}="$PWD/${job#*=}" "${by_ssh[@]}" --launcher=$launcher -- "${all[@]}"
        check grep -q "^--- .* rank 2 of 3 on h2" job/logs/rank-2.log
        same_run one job
    done
done

# a wrapper script: its exit code is that of the mpirun; the run saves on signals, and no process is left
mpi=${mpis[0]}
cat >wrapped <<END
#!/bin/bash
# of this cluster
"$(mpi_program "$mpi")" "\$@"
code=\$?
[ "\$1" = --version ] || echo "the wrapper has ended" >&2
exit \$code
END
chmod +x wrapped
wrapper=(timeout -k 3 600 "$LEVIN" launch --launcher="$PWD/wrapped" -n 2)
arguments saved "${keys[@]}"
code 0 "${wrapper[@]}" -- "${all[@]}"
same_run one saved
for signal in USR1 INT; do
    arguments at-$signal "${keys[@]}" --trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0
    "${wrapper[@]}" -- "${all[@]}" >out 2>err &
    pid=$!
    wait_rows at-$signal 10
    kill -$signal "$(pgrep -P $pid -x levin)"
    [ $signal != INT ] || kill -INT "$(pgrep -P $pid -x levin)" || true
    ended
    check [ $got != 0 ]
    if [ $signal = USR1 ]; then
        check [ $got = 75 ]
        says "the wrapper has ended" err
    fi
    nobody_left
    check [ -z "$(pgrep -f "$PWD/wrapped -")" ]
done

# hosts without levin, without the MPI, or that cannot connect back: detected before anything starts
printf 'h1\nh2\n' >hosts
arguments no "${keys[@]}"
if [ "$mpi" = openmpi ] && [ -x /usr/bin/orted ]; then
    on 2 mount --bind /dev/null "$(readlink -f /usr/bin/orted)"
    code 2 "${launch[@]}" --launcher=openmpi -n 2 -- "${all[@]}"
    one_error
    says "hosts:2: the host 'h2' has no Open MPI" err
    on 2 umount "$(readlink -f /usr/bin/orted)"
fi
printf '#!/bin/sh\necho "levin: error while loading shared libraries: libm.so.6" >&2\nexit 127\n' >broken
chmod +x broken
on 2 mount --bind broken "$LEVIN"
code 2 "${launch[@]}" --launcher=levin -n 2 -- "${all[@]}"
one_error
says "hosts:2: '$LEVIN' does not run on the host 'h2' (levin: error while loading shared libraries: libm.so.6); install the same version there" err
on 2 umount "$LEVIN"
# launched from a machine that is not one of the hosts: they reach each other, but one of them cannot reach this machine
cat >reach <<END
#!/bin/bash
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
net=$net host=\${1#h}
shift
on \$host sh -c "\$*"
END
chmod +x reach
on 2 ip route add blackhole 10.77.0.254/32
code 2 timeout 600 "$LEVIN" launch --ssh="$PWD/reach" --hostfile hosts -n 2 -- "${all[@]}"
one_error
says "hosts:2: the host 'h2' cannot connect back to this one at 10.77.0.254" err
check [ ! -e no ]
on 2 ip route del blackhole 10.77.0.254/32

# hosts with IPv6 addresses only
printf 'h1:1\nh2:1\n' >hosts
for i in 1 2; do
    on $i ip addr flush dev eth0 scope global
    on $i ip -6 addr add fd00::$i/64 dev eth0 nodad 2>/dev/null || { echo "left out: hosts with IPv6 addresses only, because there is no IPv6 here" && exit 0; }
done
printf '127.0.0.1 localhost\nfd00::1 h1\nfd00::2 h2\n' >"$net/hosts"
for launcher in levin "${mpis[@]}"; do
    with=()
    [ $launcher != intel ] || with=(env PATH="$intel/bin:$PATH")
    rm -rf six
    arguments six "${keys[@]}"
    case $launcher in
    levin | openmpi)
        code 0 on 1 "${with[@]}" "${by_ssh[@]}" --hostfile hosts --launcher=$launcher -- "${all[@]}"
        same_run one six
        ;;
    *)
        code 2 on 1 "${with[@]}" "${by_ssh[@]}" --hostfile hosts --launcher=$launcher -- "${all[@]}"
        one_error
        says "requires IPv4 between hosts" err
        ;;
    esac
done
