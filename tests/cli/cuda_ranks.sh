# Ranks with a CUDA device each, over test doubles of the driver, NVRTC and NCCL: 2 and 3 ranks have one rank's losses,
# with captured reductions on a separate stream, in both orders of the double; zero1, bf16, stopped and resumed runs;
# without NCCL, or where sums have a fixed order, sums go through host memory; errors, a lost rank and a wrong library
# end in a sentence, and nothing hangs.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
doubles=$(dirname "$LEVIN")/tests/double
double() { timeout 1800 "$LEVIN_SOURCE/tests/run_double" "$doubles" "$@"; }
make_text
export LEVIN_DOUBLE_DEVICES=4
sizes=(--data.kind=chars --data.path=text.txt --model.kind=nanogpt --model.n_layer=2 --model.n_head=2 --model.n_embd=96
    --model.block_size=8 --model.dropout=0.1 --trainer.batch_size=6 --trainer.limit_val_batches=2
    --checkpoint.every_n_steps=2 --trainer.val_check_interval=2 --trainer.accelerator=cuda --trainer.max_steps=4
    --trainer.threads=1)
double_of_cuda
one_error() { [ "$(grep -cE '^(\[[0-9]+\] )?error: ' err)" = 1 ] || { echo "not one error:"; cat err; exit 1; }; }
ranks() { double "$LEVIN" launch -n "$1" -- train "${sizes[@]}" "${@:2}"; }
close_to() { # close_to RUN RUN MOST: their losses and norms
    python3 - "$@" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in sys.argv[1:3])
assert len(a) == len(b)
worst = max(abs(x[k] - y[k]) / abs(x[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x)
print(sys.argv[2], "is", worst, "off")
assert worst < float(sys.argv[3]), worst
P
}
calls() { sed -n "s/^calls $1 //p" report | sort -n | head -1; } # the smallest number of calls of a process
by_nccl="collectives run between devices with NCCL 2.27.3"
staged="collectives are staged through host memory"

# --- as one rank; captured, in either order ---
code 0 double "$LEVIN" train "${sizes[@]}" --run_dir=one
silent_about "collectives run between" err
silent_about "collectives are staged" err
for order in late early; do
    rm -f report
    LEVIN_DOUBLE_ORDER=$order LEVIN_DOUBLE_REPORT=$PWD/report code 0 ranks 2 --run_dir=$order
    says "$by_nccl" err
    close_to one $order 1e-5
    check [ "$(grep -c '^left .* 0$' report)" = "$(grep -c '^left' report)" ]
    check [ "$(calls ncclAllReduce)" -ge 6 ]       # four test sums, and the buckets, captured once
    check [ "$(calls cuStreamBeginCapture_v2)" = 4 ] # no sum divides the capture of a step; the replicas' checksums are one too
done
same_weights late early
code 0 ranks 3 --run_dir=three --trainer.devices=1,3,0
says "$by_nccl" err
close_to one three 1e-5

# --- zero1; gradients sent in 16 bits; stopping and resuming ---
rm -f report
LEVIN_DOUBLE_REPORT=$PWD/report code 0 ranks 2 --run_dir=zero1 --trainer.strategy=zero1
close_to one zero1 1e-5
check [ "$(calls ncclReduce)" -ge 4 ] # two of them while joining
check [ "$(calls ncclBroadcast)" -ge 4 ]
code 0 ranks 2 --run_dir=zero2 --trainer.strategy=zero2
says "$by_nccl" err
close_to one zero2 1e-5
for order in late early; do # gathers of parameters in every micro-batch, and in validations
    LEVIN_DOUBLE_ORDER=$order code 0 ranks 2 --run_dir=fsdp-$order --trainer.strategy=fsdp --sample.every_n_steps=2 --sample.max_new_tokens=3
    says "$by_nccl" err
    same_weights zero2 fsdp-$order
    same_metrics zero2 fsdp-$order
done
for order in late early; do # groups of ranks: their collectives and those between them share a stream
    LEVIN_DOUBLE_ORDER=$order code 0 ranks 4 --run_dir=groups-$order --trainer.strategy=fsdp --trainer.fsdp_size=2 --trainer.batch_size=8
    says "$by_nccl" err
done
same_weights groups-late groups-early
code 0 double "$LEVIN" train "${sizes[@]}" --run_dir=eight --trainer.batch_size=8
close_to eight groups-late 1e-5
for strategy in zero2 fsdp; do # matrices are distributed over the devices
    code 0 ranks 2 --run_dir=muon-$strategy --optimizer.kind=muon --trainer.strategy=$strategy
done
code 0 double "$LEVIN" train "${sizes[@]}" --run_dir=muon --optimizer.kind=muon
close_to muon muon-zero2 1e-5
same_weights muon-zero2 muon-fsdp
for strategy in zero2 fsdp; do # gathered in bf16, biases too
    code 0 ranks 2 --run_dir=mixed-$strategy --trainer.strategy=$strategy --trainer.precision=bf16-mixed --model.kind=gpt2
done
same_weights mixed-zero2 mixed-fsdp
LEVIN_DOUBLE_MEMORY=4000000 code 0 ranks 2 --run_dir=chosen # bytes of a device
says "trainer.strategy auto chose zero1, because with ddp a rank needs 4.0 MiB, but 3.6 MiB are free" err
close_to one chosen 1e-5
# the same if memory is short only because NCCL allocates some after the first plan, at the first use of each collective
LEVIN_DOUBLE_MEMORY=5000000 LEVIN_DOUBLE_NCCL_MEMORY=1000000 code 0 ranks 2 --run_dir=rest
says "trainer.strategy auto chose zero1" err
same_weights chosen rest
# and where the second plan is the first one that needs groups of ranks
frozen=(--trainer.fsdp_size=2 --trainer.batch_size=4 --model.n_layer=12 --model.freeze=h)
code 0 ranks 4 --run_dir=frozen "${frozen[@]}" --trainer.strategy=fsdp
LEVIN_DOUBLE_MEMORY=6800000 LEVIN_DOUBLE_NCCL_MEMORY=300000 code 0 ranks 4 --run_dir=frozen-rest "${frozen[@]}"
says "trainer.strategy auto chose fsdp" err
same_weights frozen frozen-rest
code 0 ranks 2 --run_dir=half --trainer.reduce_dtype=bf16
says "$by_nccl" err
close_to one half 1e-2
code 0 ranks 2 --run_dir=parts --trainer.max_steps=2
code 0 ranks 2 --run_dir=parts --resume
same_weights late parts

# --- algorithms of matrix multiplications: rank 0 measures, the others use its choice ---
rm -f report
export LEVIN_DOUBLE_KIND=Double
LEVIN_DOUBLE_TIMES=3,1 LEVIN_DOUBLE_REPORT=$PWD/report code 0 ranks 2 --run_dir=tuned --trainer.precision=bf16-mixed
says "matrix multiplications were chosen by measuring" err
check [ "$(grep -c '^last algorithm 1' report)" = 2 ]
check [ "$(sed -n 's/^calls cublasLtMatmul //p' report | sort -nu | wc -l)" = 2 ] # one rank has more
LEVIN_DOUBLE_TIMES=3,1 code 0 ranks 2 --run_dir=tuned-parts --trainer.precision=bf16-mixed --trainer.max_steps=2
rm -f report
LEVIN_DOUBLE_TIMES=1,3 LEVIN_DOUBLE_REPORT=$PWD/report code 0 ranks 2 --run_dir=tuned-parts --trainer.precision=bf16-mixed --resume
silent_about "its bits are not those" err
check [ "$(grep -c '^last algorithm 1' report)" = 2 ]
same_weights tuned tuned-parts
silent_about "of rank 0's algorithms" err
unset LEVIN_DOUBLE_KIND
LEVIN_DOUBLE_TIMES=3,1 code 0 ranks 3 --run_dir=others --trainer.precision=bf16-mixed --trainer.max_steps=1 # "Double 1" is another device
says "2 other ranks cannot use all of rank 0's algorithms for matrix multiplications, because device, " err

# --- where NCCL is missing, or must not be used ---
code 0 ranks 2 --run_dir=tcp --trainer.transport=tcp
says "$staged: trainer.transport" err
close_to one tcp 1e-5
code 0 ranks 2 --run_dir=shared --trainer.devices=1,1 --trainer.share_devices=true
says "$staged: several ranks compute on one device" err
LEVIN_DOUBLE_MEMORY=6000000 code 1 ranks 2 --run_dir=no --trainer.devices=1,1 --trainer.share_devices=true --trainer.strategy=ddp
says "free on the device for each of its ranks" err
code 0 ranks 2 --run_dir=fixed --trainer.deterministic=true
says "$staged: trainer.deterministic" err
LEVIN_DOUBLE_MIG=2 code 0 ranks 2 --run_dir=mig
says "$staged: several ranks compute on parts of one GPU (MIG)" err
close_to one mig 1e-5
LEVIN_DOUBLE_MIG=2 code 0 ranks 2 --run_dir=cards --trainer.devices=0,2 # one instance of each
says "$by_nccl" err
mkdir without
ln -s "$doubles"/libcuda* "$doubles"/libnvrtc* without
(doubles=$PWD/without && code 0 ranks 2 --run_dir=without)
says "$staged: transferring tensors from GPU to GPU requires libnccl" err
says "trainer.nccl_library" err
close_to one without 1e-5
code 0 ranks 2 --run_dir=named --trainer.nccl_library="$doubles/libnccl.so.2"
says "$by_nccl" err

# --- an error is reported once, with rank and host ---
code 1 ranks 2 --run_dir=no --trainer.nccl_library=/nowhere/libnccl.so.2
one_error
says "/nowhere/libnccl.so.2" err
LEVIN_DOUBLE_NCCL=30001 code 1 ranks 2 --run_dir=no --trainer.nccl_library="$doubles/libnccl.so.2"
one_error
says "has the version number 30001; levin supports NCCL 2 from 2.13 on" err
LEVIN_DOUBLE_FAIL=ncclCommInitRank:1 code 76 ranks 2 --run_dir=no1
one_error
says "joining the other ranks on device" err
# One rank is refused, is killed or does not return where the others wait for it: one sentence, which names it if it can
# be known, and the checkpoints are as they were.
cp -r parts before
LEVIN_DOUBLE_JOIN=1:refused code 76 ranks 2 --run_dir=parts --resume --trainer.max_steps=8 --trainer.start_timeout=15
one_error
says "joining the other ranks on device 1 (Double 1): NCCL returned" err
LEVIN_DOUBLE_JOIN=1:late code 76 ranks 2 --run_dir=parts --resume --trainer.max_steps=8 --trainer.start_timeout=15
one_error
says ": device 0 (Double 0) has not joined the devices of the other ranks with NCCL 2.27.3 within 15 s" err
says "NCCL_SOCKET_IFNAME" err
LEVIN_DOUBLE_DIE=1:0 code 76 ranks 2 --run_dir=parts --resume --trainer.max_steps=8
one_error
says "rank 1 on " err
LEVIN_DOUBLE_DIE=1:0:19 code 76 ranks 2 --run_dir=parts --resume --trainer.max_steps=8 --trainer.rank_timeout=5
one_error
says "rank 1 on " err
check diff -r before/checkpoints parts/checkpoints
rm -f report
LEVIN_DOUBLE_REPORT=$PWD/report LEVIN_DOUBLE_FAIL=ncclCommGetAsyncError:18 code 76 ranks 2 --run_dir=no2
one_error
says "a collective on device" err
says "(Double " err
says "NCCL returned remote process exited or there was a network error (6): said by a double" err
check grep -q "^aborted rank" report
LEVIN_DOUBLE_DIE=1:13 code 76 ranks 2 --run_dir=lost
one_error
says "rank 1 on " err
rm -f report # 19 (SIGSTOP): the rank hangs, and the other one is notified
LEVIN_DOUBLE_REPORT=$PWD/report LEVIN_DOUBLE_DIE=1:13:19 code 76 ranks 2 --run_dir=silent --trainer.rank_timeout=5
one_error
says "rank 1 on " err
says "aborted rank 0" report

# --- if a device fails in one rank, the other rank, which waits for it without a timeout, ends too ---
for strategy in ddp fsdp; do
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            LEVIN_DOUBLE_FAIL=$([ $rank = 0 ] || echo cuGraphLaunch:6:719) double "$LEVIN" train "${sizes[@]}" --run_dir=broken \
            --overwrite --trainer.max_steps=40 --trainer.strategy=$strategy --trainer.stall_timeout=0 >out.$rank 2>&1 &
        pids[rank]=$!
    done
    for rank in 0 1; do
        got=0
        wait "${pids[rank]}" || got=$?
        check [ $got = 76 ]
    done
    cat out.[01] >err
    one_error
    says "launching a step on device 1: the device was lost" err
done

# --- a step that cannot be captured on a rank, while the other ranks capture their collectives ---
LEVIN_DOUBLE_FAIL=cuStreamEndCapture:2:901 code 1 ranks 2 --run_dir=uncaptured
one_error
says "capturing a step on device " err
says "; LEVIN_CUDA_GRAPHS=off, on all ranks, launches kernels one by one instead" err
LEVIN_DOUBLE_FAIL=cuGraphInstantiateWithFlags:2:2 code 1 ranks 2 --run_dir=short # out of memory: other advice
one_error
says "the device is out of memory (" err
says "; choose a smaller trainer.micro_batch_size" err
silent_about "LEVIN_CUDA_GRAPHS=off" err

# --- choice of the device ---
code 2 ranks 2 --run_dir=no --trainer.devices=0,4
one_error
says "trainer.devices (0,4) names device 4, and cuda has 4 here, numbered from 0" err
code 2 ranks 2 --run_dir=no --trainer.devices=1,1
one_error
says "ranks 0 and 1 run on " err
code 2 ranks 2 --run_dir=no --trainer.devices=0,1,2
one_error
says "trainer.devices is 0,1,2, but 2 ranks run on " err
code 2 double "$LEVIN" train "${sizes[@]}" --run_dir=no --trainer.devices=2
one_error
says "\`levin launch -n 2 -- train ...\`" err
code 2 "$LEVIN" train "${sizes[@]}" --run_dir=no --trainer.devices=0,x
one_error
says "trainer.devices must be the number of ranks on a node (2), or a list of devices (0,3), got '0,x'" err
# Launchers may make only one device visible to each rank, as number 0.
cat >one_each <<'X'
#!/usr/bin/env bash
LEVIN_DOUBLE_FIRST=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${RANK:-$SLURM_PROCID}}} LEVIN_DOUBLE_DEVICES=1 exec "$@"
X
chmod +x one_each
if command -v mpirun >/dev/null; then
    root=()
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    code 0 double mpirun "${root[@]}" --oversubscribe -n 2 "$PWD/one_each" "$LEVIN" train "${sizes[@]}" --run_dir=each
    says "$by_nccl" err
fi

# --- models that are only read, their parameters in shards ---
for command in "evaluate one --json" "generate one --max-new-tokens=12"; do
    read -ra command <<<"$command"
    command+=(--trainer.accelerator=cuda --trainer.threads=1)
    code 0 double "$LEVIN" "${command[@]}"
    cp out one.out
    rm -f report
    LEVIN_DOUBLE_REPORT=$PWD/report code 0 double "$LEVIN" launch --prefix=false -n 3 -- "${command[@]}" --trainer.strategy=fsdp
    says "$by_nccl" err
    same_file out one.out
    check [ "$(grep -c '^left .* 0$' report)" = "$(grep -c '^left' report)" ]
done

# --- a rank whose row cannot be copied to its device makes the same number of gathers as the others: no rank waits for it ---
python3 - <<'P'
import json
words = sorted({w for w in open("text.txt").read().split() if w.isalpha() and len(w) < 4})
with open("last.jsonl", "w") as f:
    f.writelines(json.dumps({"text": f"{a} {b}"}) + "\n" for a in words for b in words)
P
cat >last.yaml <<'Y'
task: last
dataset_path: json
dataset_kwargs: {data_files: {test: last.jsonl}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{text.split(' ')[0]}}"
doc_to_target: "{{' ' + text.split(' ')[1]}}"
Y
score=("$LEVIN" launch --prefix=false -n 2 -- evaluate one --tasks=last.yaml --trainer.accelerator=cuda --trainer.threads=1
    --trainer.strategy=fsdp)
rm -f report
LEVIN_DOUBLE_REPORT=$PWD/report code 0 double "${score[@]}"
copies=$(sed -n "s/^calls cuMemcpyHtoDAsync_v2 //p" report | sort -n | tail -1) # the last one is not of the row, but of the run
LEVIN_DOUBLE_FAIL=cuMemcpyHtoDAsync_v2:$((copies - 2)) code 1 double "${score[@]}"
says "copying to the device" err
