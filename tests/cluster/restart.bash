# restart.bash - a run that loses a rank after a checkpoint, and the same run undisturbed. Sourced in the first line of a test,
# which then continues inside namespaces (hosts.bash) that hold its processes alone, with HOSTS hosts (1).
#
#   lose_rank RANK RUN COMMAND...   COMMAND with a program and arguments starts ranks; RANK ("": the only one) is killed, or
#                                   $lose is run, once there is a checkpoint; expects $restarts (1) restarts and waits for
#                                   the end: out, err, $got. `alone` is the same run, undisturbed
#   $launch                         levin launch, over the hosts file `hosts` if there are several
#   cut_off                         a value of $lose: h2 is cut off
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
hosts_up "${HOSTS:=1}"
make_text
launch=(timeout -k 3 600 "$LEVIN" launch)
if [ "$HOSTS" -gt 1 ]; then
    unset OMPI_MCA_oob_tcp_if_include OMPI_MCA_btl_tcp_if_include
    sshd_up "$HOSTS"
    launch=(on 1 "${launch[@]}" --ssh="$ssh" --hostfile hosts)
fi
cut_off() { unplug 2; }
exact=(--trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1 --trainer.val_check_interval=0
    --trainer.rank_timeout=5 --trainer.log_every_n_steps=10)
steps=0
undisturbed() { # STEPS
    [ "$steps" != "$1" ] || return 0
    steps=$1
    rm -rf alone
    arguments alone "${exact[@]}" --trainer.max_steps=$steps --checkpoint.every_n_steps=50
    code 0 "$LEVIN" "${all[@]}"
}
rank() { # the process of rank $1
    local p
    for p in $(pgrep -x levin); do
        if grep -zqxE "(OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID|LEVIN_RANK)=$1" "/proc/$p/environ" 2>/dev/null; then echo "$p" && return; fi
    done
    return 1
}
kill_rank() { # "": the process under levin launch
    local p
    if [ -n "$1" ]; then p=$(rank "$1"); else p=$(pgrep -x -n levin); fi && kill -KILL "$p"
}
twice() { # a value of $lose: rank 1, and again after a later checkpoint than that of the restart
    local first
    kill_rank 1
    soon has "restart 1 of 1" err
    first=$(sed -n 's/^restart .* from step \([0-9]*\) .*/step-\1/p' err)
    while kill -0 $pid && [ "$(readlink "$run/checkpoints/last")" = "$first" ]; do sleep 0.005; done
    kill_rank 1
}
lose_rank() {
    local lost=$1 many wanted=${restarts:-1}
    run=$2
    shift 2
    for many in 1000 4000 16000; do # a longer run if this one ended before the loss
        many=$((many * wanted * wanted))
        undisturbed $many
        rm -rf "$run"
        arguments "$run" "${exact[@]}" --trainer.max_steps=$many --checkpoint.every_n_steps=50
        "$@" "${all[@]}" --overwrite >out 2>err &
        pid=$!
        until [ -e "$run/checkpoints/last" ]; do
            kill -0 $pid 2>/dev/null || { cat out err && fail "$run ended before its first checkpoint"; }
            sleep 0.005
        done
        ${lose:-kill_rank "$lost"} || true
        ended
        [ $got = 0 ] && [ "$(grep -c "^restart " err)" -lt "$wanted" ] || return 0
    done
    fail "$run was over too soon, three times"
}
