# links.bash - times steps of two ranks on two hosts over links of several kinds: a line of JSON for each.
#
# bench/ranks runs it in an empty folder. The hosts are network namespaces of this machine, as in tests/cluster, so it
# needs root or user namespaces (ends with 77 without them). LEVIN is the program, LEVIN_SOURCE and LEVIN_BUILD
# its folders, LEVIN_BENCH the arguments of `levin bench`, LEVIN_BENCH_MPI the launcher.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
hosts_up 2
sshd_up 2
printf 'h1:1\nh2:1\n' >hosts
on 2 bash -c 'taskset -cp 1 $(cat /run/sshd.pid)' >/dev/null # each host has its own core
measure() { # name of the link
    read -ra words <<<"$LEVIN_BENCH"
    on 1 timeout -k 3 200 taskset -c 0 "$LEVIN" launch --launcher="$LEVIN_BENCH_MPI" --ssh="$ssh" --hostfile hosts --bind=false --prefix=false -n 2 -- \
        bench "${words[@]}" --parts --json --quiet >out 2>err || { cat out err >&2; exit 1; }
    sed "s|^{|{\"link\":\"$1\",|" out
}
measure "no limit"
at_switch tc qdisc add dev v1 root tbf rate 1gbit burst 256kb latency 20ms
at_switch tc qdisc add dev v2 root tbf rate 1gbit burst 256kb latency 20ms
measure "1 Gbit/s"
at_switch tc qdisc del dev v1 root
at_switch tc qdisc del dev v2 root
# the second cable goes through a relay that holds each frame for a millisecond
ip link set v2 nomaster
ip link add near type veth peer name far
ip link set near master br0 up
ip link set far up
"$LEVIN_BUILD/delay" far v2 1 &
relay=$!
measure "1 ms"
kill "$relay"
