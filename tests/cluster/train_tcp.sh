# Training over levin's own connections, with ranks started as torchrun, Kubeflow and pods do: the bits of one rank, faults that
# are named, bad input. label: core
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cluster/train.bash"
. "$LEVIN_SOURCE/tests/cluster/tcp.bash"
hosts_up 2
mode=(--trainer.deterministic=true --trainer.micro_batch_size=1)
code 0 train one "${sizes[@]}" "${mode[@]}"
for n in 2 3 4; do
    arguments "tcp-$n" "${sizes[@]}" "${mode[@]}"
    code 0 apart $n "$LEVIN" "${all[@]}"
    same_run one "tcp-$n"
    arguments "zero1-$n" "${sizes[@]}" "${mode[@]}" --trainer.strategy=zero1
    code 0 apart $n "$LEVIN" "${all[@]}"
    same_run one "zero1-$n"
done
says "4 ranks" out
# without the fixed order: buckets, also in bf16
arguments plain "${sizes[@]}" --trainer.reduce_dtype=bf16
code 0 apart 2 "$LEVIN" "${all[@]}"
# pods of an indexed job meet by MASTER_ADDR, too
arguments pods "${sizes[@]}" "${mode[@]}"
for i in 1 0; do
    env JOB_COMPLETION_INDEX=$i NNODES=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29475 "$LEVIN" "${all[@]}" >"pod.$i" 2>&1 &
    pods[i]=$!
done
wait "${pods[0]}"
wait "${pods[1]}"
same_run one pods

# torchrun itself listens at MASTER_PORT; also the real one, if it is installed
python3 -c 'import socket, time
s = socket.socket(); s.bind(("", 29474)); s.listen(); open("listens", "w"); time.sleep(3600)' &
store=$!
soon test -e listens
export TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=True
arguments agent "${sizes[@]}" "${mode[@]}"
port=29474 code 0 apart 2 "$LEVIN" "${all[@]}"
same_run one agent
unset TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE
kill $store
if command -v torchrun >/dev/null; then
    arguments torchrun "${sizes[@]}" "${mode[@]}"
    code 0 timeout 600 torchrun --no-python --nproc-per-node 3 --master-addr=127.0.0.1 --master-port=29476 "$LEVIN" "${all[@]}"
    same_run one torchrun
fi

# doctor reports all ranks, measures their links, and trains
code 0 apart 3 "$LEVIN" doctor --train
says "3 ranks" out
check [ "$(grep -c "same bits" out)" -ge 1 ]

# --- a rank that is killed, and a host that is cut off: named by the remaining ranks, which end ---
cat >there <<'E2'
#!/bin/bash
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
net=$NET i=$1
shift
on $((i % 2 + 1)) "$@"
E2
chmod +x there
export NET=$net
# packets to a host's first address are dropped: that is detected once, not for each rank
for i in 1 2; do
    on $i ip addr flush dev eth0 scope global
    for n in 99 77; do on $i ip addr add "10.$n.0.$i/24" dev eth0; done
    on $i ip neigh replace "10.99.0.$((3 - i))" lladdr 02:00:00:00:00:09 dev eth0 nud permanent
done
arguments far "${sizes[@]}" "${mode[@]}" --trainer.rank_timeout=3
master=10.77.0.1 place=./there code 0 apart 6 "$LEVIN" "${all[@]}"
same_run one far

forever=("${sizes[@]/max_steps=5/max_steps=1000000000}" --trainer.rank_timeout=3 --trainer.log_every_n_steps=1 --checkpoint.every_n_steps=100)
fault() { # NAME: what happens
    rm -rf lost
    arguments lost "${forever[@]}"
    master=10.77.0.1 place=./there apart 3 "$LEVIN" "${all[@]}" >said 2>&1 &
    pid=$!
    wait_rows lost 3
    "$@"
    got=0
    wait $pid || got=$?
    check [ $got != 0 ]
    check grep -q "rank 1 on h2" out.0
    nobody_left
}
kill_rank() { on 2 pkill -KILL -x levin; }
fault kill_rank
cut_off() { unplug 2; }
fault cut_off
plug 2

# if rank 0 dies, all ranks detect it at the same time, by a closed connection and by the heartbeat: exactly one rank reports it
for try in 1 2 3; do
    rm -rf first out.*
    arguments first "${forever[@]}"
    port=2948$try apart 3 "$LEVIN" "${all[@]}" >said 2>&1 &
    pid=$!
    wait_rows first 2
    for p in $(pgrep -x levin); do ! grep -zqx RANK=0 "/proc/$p/environ" || kill -KILL "$p"; done
    wait $pid || true
    check [ "$(cat out.[0-9] | grep -c "^error: rank 0 on ")" = 1 ]
    check [ "$(jq -r .state first/status.json)" = fault ]
done

# --- one rank is asked to stop during a validation that lasts for many minutes: all save the step before it ends ---
for i in $(seq 300); do cat text.txt; done >long.txt
held=("${sizes[@]/val_check_interval=5/val_check_interval=2}" --data.val_path=long.txt)
validates() { grep -q '"activity": "a validation' held/status.json; }
for strategy in ddp fsdp; do
    rm -rf held
    arguments held "${held[@]}" --trainer.strategy=$strategy --trainer.limit_val_batches=1.0
    port=29484 apart 2 "$LEVIN" "${all[@]}" >said 2>&1 &
    pid=$!
    soon validates
    for p in $(pgrep -x levin); do ! grep -zqx RANK=1 "/proc/$p/environ" || kill -TERM "$p"; done
    soon test -e held/checkpoints/step-2
    pkill -KILL -x levin
    wait $pid || true
    lacks "step 2: validation" out.0
    code 0 "$LEVIN" "${all[@]/limit_val_batches=1.0/limit_val_batches=1}" --resume
    says "step 2: validation" err
done

# --- bad input: one sentence each ---
arguments alone "${sizes[@]}" --trainer.transport=mpi
code 2 env TORCHELASTIC_RUN_ID=1 RANK=0 WORLD_SIZE=2 "$LEVIN" "${all[@]}"
one_error
says "trainer.transport is mpi, and this is rank 0 of 2 of torchrun (RANK, WORLD_SIZE): torchrun starts ranks without MPI" err
arguments alone "${sizes[@]}"
code 2 env TORCHELASTIC_RUN_ID=1 RANK=0 WORLD_SIZE=2 "$LEVIN" "${all[@]}"
one_error
says "MASTER_ADDR is not set; set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port there" err
code 2 env WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29479 "$LEVIN" "${all[@]}"
one_error
says "WORLD_SIZE is set, but RANK is not" err
check [ ! -e alone ]
code 0 env RANK=0 WORLD_SIZE=2 MASTER_ADDR= "$LEVIN" "${all[@]}"
says "warning: a run of one rank: RANK and WORLD_SIZE ignored: MASTER_ADDR is not set" err
# a rank that joins a second time, after the others have begun
arguments late "${forever[@]}"
port=29479 apart 2 "$LEVIN" "${all[@]}" >said 2>&1 &
pid=$!
wait_rows late 3
code 76 env RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29479 "$LEVIN" "${all[@]}"
one_error
says "the rendezvous server (127.0.0.1:29479) rejected this rank: the run has begun without it, or has ended" err
pkill -TERM -x levin
wait $pid || [ $? = 75 ]
check grep -q "stopped on request after step" out.0
