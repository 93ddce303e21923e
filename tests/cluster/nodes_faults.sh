# Two nodes with a levin launch each: a rank, a node's launcher, node 0's launcher are killed, a node is cut off and comes back
# with another address, a node is asked to stop, and nodes that come back after the end have nothing to do. Each job ends with the bits of an undisturbed run, and each node with its code.
HOSTS=3
. "$LEVIN_SOURCE/tests/cluster/nodes.bash"
first_is 1
begin() { # begin RUN: of $steps steps, until it has its first checkpoint; all nodes continue in the background
    run=$1
    arguments "$run" "${exact[@]}" --trainer.max_steps=$steps --checkpoint.every_n_steps=50
    both --max-restarts=1 -- "${all[@]}" >out 2>err &
    until [ -e "$run/checkpoints/last" ]; do kill -0 $!; sleep 0.005; done
}

# a rank of node 1 is killed: the ranks are started again where they are
lose_rank 2 rank both --max-restarts=1 --
both_end 0
grep -qE "^restart 1 of 1: continuing from step [0-9]+ with 4 ranks on node 0, node 1$" err || { cat out err out.1 && fail "no restart in place"; }
same_run alone rank

# the launcher of node 1 is killed; the node comes back on another host
new_agent() {
    kill -KILL "$(launcher 1)"
    soon has "waiting for 1 of 2 nodes: node 1" err
    rm -f code.1
    node 3 1 --max-restarts=1 -- "${all[@]}" --overwrite >out.1 2>&1 &
}
lose=new_agent lose_rank 2 agent both --max-restarts=1 --
both_end 0
same_run alone agent

# a node disappears without closing its connections, and is replaced; when its network is back, it is not mistaken for the new node
replaced() {
    unplug 2
    soon has "error: rank" err
    node 3 1 --max-restarts=1 -- "${all[@]}" --overwrite >out.1 2>&1 &
}
lose=replaced lose_rank 2 vanished both --max-restarts=1 --
[ "$(code_of 0)" = 0 ] || { cat out err out.1 && fail "node 0"; }
same_run alone vanished
plug 2
kill -KILL $(launcher 1) || true
nobody_left

# node 0 is killed, and comes back with another address: the job's name lets it resume the run that it had begun
export LEVIN_JOB_ID=a-job
undisturbed 2000
begin leader
kill -KILL "$(launcher 0)"
soon has "waiting for node 0 at first:6002" out.1
while pgrep -x -f '[^ ]*levin train .*' >/dev/null; do sleep 0.05; done
first_is 3
rm -f code.0
node 3 0 --max-restarts=1 -- "${all[@]}" >out 2>err &
both_end 0
says "this job has already begun its run: continuing from its last checkpoint" err
same_run alone leader
# a node that returns after the run has ended finds this in the run's folder; with a different recipe it has not ended
ended_says="this job has already ended its run: nothing to do"
rm -f code.?
node 2 1 --max-restarts=1 -- "${all[@]}" >out.1 2>&1 &
code 0 node 3 0 --max-restarts=1 -- "${all[@]}"
says "$ended_says" err
both_end 0
says "$ended_says" out.1
code 76 node 3 0 -- "${all[@]}" --trainer.batch_size=8 --trainer.start_timeout=1
unset LEVIN_JOB_ID
first_is 1

# a node is asked to stop: all nodes save and end with 75, and the job is resumed from there
begin asked
kill -TERM "$(launcher 1)"
both_end 75
says "stop requested: the whole job saves and stops" out.1
says "stopped on request after step" err
both -- "${all[@]}" --resume >out 2>err
both_end 0
same_run alone asked
nobody_left
