# label: soak
# Faults of six kinds in turn under a Kubernetes: four pods of two ranks, as the chart starts them, train the shape of pythia-70m made
# tiny, from tokens in a bucket, with results and checkpoints there. A rank is killed, a pod, the coordinator (pod 0), a pod is
# drained, a node vanishes, all pods are preempted; of four rounds one at the start and one at the end of a run. Each job ends by
# itself with the bits of an undisturbed run. SOAK_FAULTS is their number (6), SOAK_SEED repeats a sequence, SOAK_KINDS and
# SOAK_MOMENTS name other lists. Prints a line for every fault, and at the end a table: seconds from a fault in the middle of a run
# to the next finished step. SOAK_LOGS=FOLDER keeps what pods wrote.
HOSTS_LIMIT=14000
. "$LEVIN_SOURCE/tests/kubernetes/kubernetes.bash"
control_plane_up
gs_server fake-gcs-server || skip "no fake-gcs-server (tools/setup.sh --dev fetches it)"
nodes_up 5 # one spare node
RANDOM=${SOAK_SEED:=$SRANDOM}
echo "SOAK_SEED=$SOAK_SEED"
read -ra kinds <<<"${SOAK_KINDS:-rank pod coordinator drained node all}"
read -ra moments <<<"${SOAK_MOMENTS:-middle middle start end}"
steps=150

python3 - <<'END'
import os, random, struct
random.seed(5)
os.mkdir("tokens")
for name, count in ("train", 20000), ("val", 2000):
    ids = [0]
    while len(ids) < count: ids.append((ids[-1] * 5 + random.choice((1, 2, 3, 7))) % 512)
    open(f"tokens/{name}.bin", "wb").write(struct.pack(f"<{count}H", *ids))
END
code 0 cp_ --recursive tokens gs://bucket/tokens
begin() { # begin RUN: a job of that name, whose run is gs://bucket/runs/RUN
    cat >values.yaml <<END
cluster: {nNodes: 4, gpusPerNode: 0, ranksPerNode: 2, terminationGracePeriodSeconds: 30}
workload: {image: "levin:0.1.0", gcsBucket: bucket, experimentDir: runs/$1, dataDir: tokens, modelName: pythia-70m, warmupIters: 10}
resources: {cpu: 1, memory: 1Gi, shm: 64Mi, ephemeralStorage: 1Gi}
env: {STORAGE_EMULATOR_HOST: "$STORAGE_EMULATOR_HOST", NO_GCE_CHECK: "true", OMP_WAIT_POLICY: passive}
recipe:
  model: {n_embd: 64, intermediate_size: 256, vocab_size: 512, block_size: 32}
  trainer: {max_steps: $steps, batch_size: 16, micro_batch_size: 1, precision: 32-true, deterministic: true, threads: 1,
    val_check_interval: 0, rank_timeout: 10}
  checkpoint: {every_n_steps: 10}
END
    render "$1" values.yaml >job.yaml
    code 0 k apply -f job.yaml
}
result() { # result RUN: checksums of its last weights and optimizer state
    local at=gs://bucket/runs/$1/checkpoints/step-$steps
    rm -rf last
    code 0 cp_ "$at/model.safetensors" last/model.safetensors
    code 0 cp_ "$at/state/optimizer.safetensors" last/optimizer.safetensors
    (cd last && sha256sum -- *)
}
output_of() { cat "$kube/nodes/logs/$1-0-"*/levin 2>/dev/null; } # RUN: what its coordinators wrote, each line after its time
at_step() { output_of "$1" | grep -qE "step +$2/"; } # a line a step
wait_moment() { # RUN MOMENT, with a random part; sets $step
    local n
    case $2 in
    start) step=0 && soon pod_of "$1" 0 ;;
    middle) step=$((20 + RANDOM % 90)) ;;
    end) step=$((steps - RANDOM % 3)) ;;
    esac
    for ((n = 0; n < 3000 && step; n++)); do
        ! at_step "$1" $step || break
        sleep 0.1
    done
    [ "$2" = middle ] || sleep "$((RANDOM % (1 + 2 * (step == 0)))).$((RANDOM % 10))"
}
processes() { # POD: the ranks in it
    local p
    for p in $(pgrep --ns "$(node_do process "$1" levin)" --nslist pid -x levin); do
        ! grep -zq '^LEVIN_RANK=' "/proc/$p/environ" 2>/dev/null || echo "$p"
    done
}
evict() { # POD, which gets TERM and its grace period
    printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s"}}' "$1" >"eviction.$1"
    k create --raw "/api/v1/namespaces/default/pods/$1/eviction" -f "eviction.$1" >/dev/null
}
strike() { # strike RUN KIND: sets $at, the time, and $index, of the pod that it meets
    local pod victims i
    index=$((RANDOM % 4))
    [ "$2" != pod ] || index=$((1 + RANDOM % 3))
    [ "$2" != coordinator ] || index=0
    pod=$(pod_of "$1" $index) || return 0 # the run was over before
    at=$(date +%s.%N)
    case $2 in
    rank) victims=$(processes "$pod" | shuf -n 1) ;;
    pod | coordinator) victims=$(node_do process "$pod" levin) ;;
    drained) evict "$pod" ;;
    node)
        node=$(k get pod "$pod" -o 'jsonpath={.spec.nodeName}')
        at=$(date +%s.%N)
        node_do vanish "$node" >/dev/null
        k taint node "$node" node.kubernetes.io/out-of-service=nodeshutdown:NoExecute >/dev/null # as an operator who knows that the node is off
        ;;
    all) for i in 0 1 2 3; do pod=$(pod_of "$1" $i) && evict "$pod"; done ;;
    esac
    case $2 in rank | pod | coordinator) ;; *) return 0 ;; esac
    at=$(date +%s.%N)
    kill -KILL $victims 2>/dev/null || at=0 # the run was over before
}
wrong() { echo "    wrong: $*" && bad=1; }
one() { # one RUN KIND MOMENT
    local run=$1 kind=$2 moment=$3 bad=0 step at=0 seconds= restarts pods index node=
    begin "$run"
    wait_moment "$run" "$moment"
    strike "$run" "$kind"
    job_ended "$run"
    [ $got = complete ] || wrong "the job has failed"
    [ "$(result "$run" 2>&1)" = "$alone" ] || wrong "other bits"
    # the first step of ranks that were started after the fault
    [ "$moment" != middle ] || seconds=$(output_of "$run" | sort -s -n -k 1,1 | awk -v at="$at" '$1 < at { next }
        / parameters, / { again = 1 }
        again && / step +[0-9]+\// { printf "%.1f", $1 - at; exit }')
    [ "$moment" != middle ] || [ -n "$seconds" ] || wrong "no step after the fault"
    restarts=$(output_of "$run" | grep -c ' restart [0-9]* of ' || true)
    pods=$(find "$kube/nodes/logs" -maxdepth 1 -name "$run-[0-3]-*" | wc -l)
    [ "$at" = 0 ] || echo "$kind ${seconds:--} $restarts $((pods - 4))" >>faults
    echo "$run: $kind, $moment, pod $index, step $step: ${seconds:--} s, $restarts restarts in place, $((pods - 4)) pods replaced$([ "$at" != 0 ] || echo ', over before')$([ $bad = 0 ] || echo ', WRONG')"
    [ -z "${SOAK_LOGS:-}" ] || cp -r "$kube/nodes/logs/$run-"* "$SOAK_LOGS"
    if [ $bad = 1 ]; then tail -n 30 "$kube/nodes/logs/$run-"*/levin | cut -c 1-300; fi
    k delete job "$run" --wait=true >/dev/null
    [ -z "$node" ] || node_do join "$node" >/dev/null
    return $bad
}

begin alone
job_ended alone
[ $got = complete ] || { output_of alone && fail "the undisturbed job has failed"; }
alone=$(result alone)
echo "$alone"
right=0
: >faults
for ((n = 0; n < ${SOAK_FAULTS:-6}; n++)); do
    ! one "soak-$n" "${kinds[n % ${#kinds[@]}]}" "${moments[n / ${#kinds[@]} % ${#moments[@]}]}" || right=$((right + 1))
done
echo
echo "| fault | times | seconds, median | at most | restarts in place | pods replaced |"
echo "|---|---|---|---|---|---|"
for kind in "${kinds[@]}"; do
    grep "^$kind " faults | sort -n -k 2 | awk -v kind="$kind" '$2 != "-" { s[++n] = $2 } { r += $3; p += $4 }
        END { if (NR) printf "| %s | %d | %s | %s | %.2g | %.2g |\n", kind, NR, n ? s[int((n + 1) / 2)] : "-", n ? s[n] : "-", r / NR, p / NR }'
done
echo "$right of $n jobs ended with the bits of an undisturbed one"
check [ $right = "$n" ] && check [ "$n" -gt 0 ]
