# Ranks that find each other by environment variables: on one machine they listen on the loopback alone; with LEVIN_TOKEN a process
# without the token can neither end nor join the run, which warns once; the token is printed nowhere.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
port=29493
secret=0123456789abcdef-of-this-test
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
listening() { # "ADDRESS" of each port on which a process listens, in hexadecimal
    local inodes
    inodes=$(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n' | paste -sd'|')
    awk -v wanted="^($inodes)\$" '$4 == "0A" && $10 ~ wanted { sub(":.*", "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6
}
listens() { [ "$(listening "$1" | wc -l)" -gt 1 ]; }
stranger() { # stranger LINE: the answer, until the other side closes
    python3 - "$port" "$1" <<'P'
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30)
s.sendall(sys.argv[2].encode() + b"\n")
try:
    while d := s.recv(4096):
        sys.stdout.write(d.decode("latin1"))
except ConnectionResetError:
    pass
P
}

# rank 0 waits for rank 1, and other connections come first: invalid bytes, a HELLO without the token, one with a wrong token
arguments run --trainer.max_steps=30 --trainer.threads=1 --trainer.transport=tcp
RANK=0 LEVIN_TOKEN=$secret "$LEVIN" "${all[@]}" >out.0 2>&1 &
zero=$!
soon listens $zero # the port of the rendezvous, and the one for rank 1
[ "$(listening $zero)" = "$(printf '0100007F\n0100007F')" ] || fail "rank 0 listens at $(listening $zero)"
! tr '\0' ' ' <"/proc/$zero/cmdline" | grep -F "$secret" || fail "the token is on a command line"
check [ -z "$(stranger "GET / HTTP/1.1")" ]
stranger "HELLO % 1 2 17 there" >answer
says "REFUSE its%20token%20is%20not%20this%20run's" answer
stranger "HELLO 0123456789abcdef-of-another 0 7 17 there" >answer
says "REFUSE its%20token%20is%20not%20this%20run's" answer
RANK=1 code 76 "$LEVIN" "${all[@]}" # a rank without the token
one_error
says "its token is not this run's: give all ranks the same LEVIN_TOKEN" err
RANK=1 LEVIN_TOKEN=$secret "$LEVIN" "${all[@]}" >out.1 2>&1 &
one=$!
wait $zero || { cat out.0 && fail "rank 0"; }
wait $one || { cat out.1 && fail "rank 1"; }
[ "$(cat out.[01] | grep -c "rejected by the rendezvous server")" = 1 ] || { cat out.0 out.1 && fail "not said once"; }
says "warning: a process at 127.0.0.1 that does not speak levin's protocol was rejected by the rendezvous server" out.0
! grep -rF "$secret" run out.0 out.1 || fail "the token is written down"

# a token that is too short
RANK=0 LEVIN_TOKEN=short code 2 "$LEVIN" "${all[@]}"
one_error
says "LEVIN_TOKEN has 5 characters, which can be guessed" err
silent_about short err
