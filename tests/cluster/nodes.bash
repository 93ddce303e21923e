# nodes.bash - a launch of two nodes, each with its own levin launch and two ranks, on hosts.bash's hosts: node 0 on h1,
# found by the name `first`, node 1 on h2. Sourced in the first line of a test, after HOSTS is set.
#
#   both [OPTIONS] -- COMMAND...   node 1 in the background, with its output in out.1, and node 0 in front; codes in code.I
#   node HOST I [OPTIONS] -- ...   the launcher of node I, on host HOST
#   launcher I                     its process
#   first_is HOST                  the name of node 0 leads there from now on
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
export MASTER_ADDR=first MASTER_PORT=6002
first_is() {
    sed '/ first$/d' "$net/hosts" >"$net/hosts.new"
    echo "10.77.0.$1 first" >>"$net/hosts.new"
    cat "$net/hosts.new" >"$net/hosts" # in place: it is mounted
}
node() {
    local host=$1 i=$2 got=0
    shift 2
    on "$host" "$LEVIN" launch --node-rank "$i" --nodes 2 --nproc-per-node 2 "$@" || got=$?
    echo $got >"code.$i"
    return $got
}
both() {
    rm -f code.?
    node 2 1 "$@" >out.1 2>&1 &
    node 1 0 "$@"
}
launcher() { pgrep -x -f "[^ ]*levin launch --node-rank $1 .*"; }
code_of() { # code_of I: once it has ended
    until [ -e "code.$1" ]; do sleep 0.1; done
    cat "code.$1"
}
both_end() { # both_end CODE
    local i
    for i in 0 1; do [ "$(code_of $i)" = "$1" ] || { cat out err out.1 && fail "node $i ends with $(cat code.$i), not with $1"; }; done
}
