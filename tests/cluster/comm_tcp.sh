# comm_tcp.sh - every call of src/ranks/comm over levin's own TCP connections: on one host, with connections of other
# programs, between hosts.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/comm.bash"
. "$LEVIN_SOURCE/tests/cluster/tcp.bash"
hosts_up 3

for n in 2 3 4 8; do good "$n ranks" apart $n "$program" --tcp; done
good "6 ranks as of 3 hosts" apart 6 "$program" --tcp --per-host 2
good "3 ranks, messages cut" apart 3 "$program" --tcp --cut 4096

# other programs connect to every open port of rank 0 before the other ranks do: junk, half a message, silence
cat >others.py <<'E2'
import os, socket, subprocess, sys, time
ports = set()
while len(ports) < 2:  # that of the rendezvous, and that of its own connections
    time.sleep(0.02)
    held = {os.readlink(f"/proc/{sys.argv[1]}/fd/{f}") for f in os.listdir(f"/proc/{sys.argv[1]}/fd")}
    for name in filter(os.path.exists, ("/proc/net/tcp", "/proc/net/tcp6")):  # the second requires IPv6
        for line in open(name).readlines()[1:]:
            w = line.split()
            if w[3] == "0A" and f"socket:[{w[9]}]" in held:
                ports.add(int(w[1].split(":")[1], 16))
kept = []
for port in ports:
    for k in range(300):
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall([b"", b"levin ", b"levin " + b"0" * 32 + b" rank 1 to 0" + b"\0" * 60, os.urandom(300)][k % 4])
        kept.append(s)
open("knocked", "w").close()
time.sleep(20)
E2
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29474 WORLD_SIZE=2
RANK=0 timeout -k 3 600 "$program" --tcp >out.0 2>&1 &
first=$!
until inner=$(pgrep -P $first); do kill -0 $first || { cat out.0 && exit 1; }; sleep 0.02; done
python3 others.py "$inner" &
others=$!
until [ -e knocked ]; do kill -0 $others || { echo "others.py has ended" && exit 1; }; sleep 0.05; done
RANK=1 timeout -k 3 600 "$program" --tcp >out.1 2>&1
wait $first
grep -q "all as it should be" out.0
unset MASTER_ADDR MASTER_PORT WORLD_SIZE
echo "with other programs' connections: ok"

# a rank on each host, and two; rank 0 is on h1
cat >there <<'E2'
#!/bin/bash
# there RANK COMMAND...: on the host of that rank
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
net=$NET i=$1
shift
on $((i % HOSTS + 1)) "$@"
E2
chmod +x there
export NET=$net HOSTS=3
master=10.77.0.1 place=./there
good "3 hosts" apart 3 "$program" --tcp
HOSTS=2 good "2 ranks on each of 2 hosts" apart 4 "$program" --tcp
