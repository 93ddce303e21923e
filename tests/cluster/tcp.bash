# tcp.bash - ranks with levin's own connections, started as torchrun and Kubeflow do, with environment variables only.
#
#   apart N COMMAND...   N processes that meet at MASTER_ADDR; the output of rank i is in out.i; status 0 if all end with 0
apart() {
    local n=$1 i pids=() bad=0
    shift
    for ((i = 0; i < n; i++)); do
        env RANK=$i WORLD_SIZE="$n" MASTER_ADDR="${master:-127.0.0.1}" MASTER_PORT="${port:-29473}" ${place:+$place $i} \
            timeout -k 3 600 "$@" >"out.$i" 2>&1 &
        pids[i]=$!
    done
    for ((i = 0; i < n; i++)); do wait "${pids[i]}" || bad=$?; done
    cat out.[0-9]*
    return $bad
}
