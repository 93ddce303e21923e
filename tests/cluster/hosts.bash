# hosts.bash - several hosts on one machine: network namespaces with names, addresses and a switch between them.
#
#   hosts_begin            first line of a test: it continues inside its own namespaces, where no process outlives the test
#   hosts_up N             hosts h1..hN, 10.77.0.1 .. .N: own network, host name, processes, /dev/shm, /run; one file system
#   on I COMMAND...        run on host I
#   unplug I; plug I        take the cable of host I out (silently: no reset is sent), and put it back
#   at_switch COMMAND...   run where the other ends of the cables are, v1..vN: `at_switch tc qdisc add dev v2 ...`
#   nobody_left            check that no levin is alive on any host, soon: before ranks that nobody ends would, after a minute (trainer.start_timeout)
#   sshd_up N              an sshd on each; $ssh is the program that reaches them, without a password
#
# As root, or as an ordinary user where user namespaces are allowed; elsewhere the test is skipped.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

skip() {
    echo "skipped: $*"
    exit 77
}

hosts_begin() {
    [ -z "${LEVIN_INSIDE:-}" ] || return 0
    local user=()
    command -v ip >/dev/null && command -v unshare >/dev/null || skip "no ip or unshare (apt install iproute2 util-linux)"
    [ "$(id -u)" = 0 ] || user=(-U --map-current-user --keep-caps)
    unshare "${user[@]}" -m -n -u -i -p -f --mount-proc --propagation private ip link add type bridge 2>/dev/null ||
        skip "namespaces are not allowed here"
    # All processes of the namespace die with its first one.
    LEVIN_INSIDE=1 exec timeout -k 5 "${HOSTS_LIMIT:-7000}" unshare "${user[@]}" -m -n -u -i -p -f --kill-child --mount-proc \
        --propagation private bash -eu -o pipefail "$0"
}

hosts_up() {
    net=$PWD/net
    mkdir -p "$net"
    echo "127.0.0.1 localhost" >"$net/hosts"
    for i in $(seq "$1"); do echo "10.77.0.$i h$i" >>"$net/hosts"; done
    mount --bind "$net/hosts" /etc/hosts
    ip link set lo up
    ip link add br0 address 02:00:00:00:00:fe type bridge
    ip link set br0 up
    ip addr add 10.77.0.254/24 dev br0
    for i in $(seq "$1"); do one_host "$i"; done
}
one_host() { # its first process only reaps orphans
    local i=$1 outer first
    mkdir -p "$net/h$i/run" "$net/h$i/shm"
    echo "h$i" >"$net/h$i/hostname"
    unshare -n -u -m -i -p -f --mount-proc --propagation private bash -c "
        hostname h$i
        mount --bind $net/h$i/hostname /etc/hostname
        mount --bind $net/h$i/run /run
        mount -t tmpfs tmpfs /dev/shm
        ip link set lo up
        touch $net/h$i/ready
        exec env --ignore-signal=CHLD sleep infinity" </dev/null &
    outer=$!
    until [ -e "$net/h$i/ready" ]; do sleep 0.01; done
    first=$(tr -d " " <"/proc/$outer/task/$outer/children")
    echo "$first" >"$net/h$i/pid"
    ip link add "v$i" type veth peer name eth0 netns "/proc/$first/ns/net"
    ip link set "v$i" master br0 up
    on "$i" ip addr add "10.77.0.$i/24" dev eth0
    on "$i" ip link set eth0 up
}
on() {
    local i=$1
    shift
    nsenter -t "$(cat "$net/h$i/pid")" -n -u -m -i -p --wdns="$PWD" -- "$@"
}
at_switch() { "$@"; }
unplug() { ip link set "v$1" down; }
plug() { ip link set "v$1" up; }

sshd_up() {
    local at=$net/ssh server
    server=$(command -v sshd || echo /usr/sbin/sshd)
    [ -x "$server" ] || skip "no sshd (apt install openssh-server)"
    mkdir -p "$at"
    chmod 700 "$at"
    ssh-keygen -q -t ed25519 -N '' -f "$at/host"
    ssh-keygen -q -t ed25519 -N '' -f "$at/user"
    cp "$at/user.pub" "$at/allowed"
    printf '%s\n' "Port 22" "HostKey $at/host" "AuthorizedKeysFile $at/allowed" "StrictModes no" "UsePAM no" \
        "PasswordAuthentication no" "KbdInteractiveAuthentication no" "UseDNS no" "PidFile /run/sshd.pid" \
        "LogLevel ERROR" "PrintMotd no" "PrintLastLog no" >"$at/server"
    printf '%s\n' "Host *" "IdentityFile $at/user" "IdentitiesOnly yes" "StrictHostKeyChecking no" \
        "UserKnownHostsFile /dev/null" "GlobalKnownHostsFile /dev/null" "LogLevel ERROR" "BatchMode yes" \
        "ConnectTimeout 5" >"$at/client"
    ssh=$at/ssh
    printf '#!/bin/sh\nexec ssh -F %s "$@"\n' "$at/client" >"$ssh"
    chmod +x "$ssh"
    for i in $(seq "$1"); do on "$i" bash -c "mkdir -p /run/sshd && chmod 755 /run/sshd && $server -f $at/server -E /run/sshd.log"; done
}
nobody_left() {
    for _ in $(seq 500); do
        pgrep -x levin >/dev/null || return 0
        sleep 0.1
    done
    ps -ef
    fail "processes are left"
}
