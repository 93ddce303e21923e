# What a real API server says of the fields of an Indexed Job that the chart writes: they are accepted together, and each is
# refused where the pages say so. What the pages promise for a Job's pods is tested once: a pod that exits with 2 ends the Job, a pod that is
# evicted ends with 75 and is replaced, on another address. Nodes that were late are ready again.
. "$LEVIN_SOURCE/tests/kubernetes/kubernetes.bash"
control_plane_up
job() { # job [SED EXPRESSION...]: the Job of the chart, changed
    local edits=() edit
    for edit in "$@"; do edits+=(-e "$edit"); done
    sed "${edits[@]}" -e '' <<'EOF'
apiVersion: batch/v1
kind: Job
metadata: {name: small}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  backoffLimitPerIndex: 3
  maxFailedIndexes: 0
  podReplacementPolicy: Failed
  podFailurePolicy:
    rules:
    - {action: FailJob, onExitCodes: {containerName: levin, operator: In, values: [1, 2]}}
    - {action: Ignore, onExitCodes: {containerName: levin, operator: In, values: [75, 76]}}
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
  template:
    spec:
      subdomain: small
      restartPolicy: Never
      terminationGracePeriodSeconds: 20
      containers:
      - name: levin
        image: none
        command: [sh, -c, "trap 'exit 75' TERM; sleep 1000 & wait $!"]
EOF
}
accepts() { job "$@" >job.yaml && code 0 k create --dry-run=server -f job.yaml; }
refuses() { # refuses SENTENCE [SED EXPRESSION...]
    local sentence=$1
    shift
    job "$@" >job.yaml
    code 1 k create --dry-run=server -f job.yaml
    says "$sentence" err
}
accepts
accepts 's/maxFailedIndexes: 0/maxFailedIndexes: 2/'
accepts '/podReplacementPolicy/d'
refuses 'spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified' '/backoffLimitPerIndex/d'
refuses 'requires indexed completion mode' 's/completionMode: Indexed/completionMode: NonIndexed/'
refuses 'spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions' 's/maxFailedIndexes: 0/maxFailedIndexes: 3/'
refuses 'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed"' 's/podReplacementPolicy: Failed/podReplacementPolicy: TerminatingOrFailed/'
refuses 'only "Never" is supported when podFailurePolicy is specified' 's/restartPolicy: Never/restartPolicy: OnFailure/'
refuses 'must be ordered' 's/\[75, 76\]/[76, 75]/'
refuses 'must not be 0 for the In operator' 's/\[1, 2\]/[0, 1, 2]/'
refuses 'must be one of the container or initContainer names in the pod template' 's/containerName: levin/containerName: other/'
refuses 'unknown field "spec.backoffLimitPerIndexes"' 's/backoffLimitPerIndex:/backoffLimitPerIndexes:/'

# an eviction: its pod is notified, the failure is ignored, and the pod comes back with another address
nodes_up 2
running() { [ "$(pods_of small | grep -c " Running ")" = 2 ]; }
job >job.yaml && k create -f job.yaml
soon running
first=$(pod_of small 1)
address=$(node_do address "$first")
printf '{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s"}}' "$first" >eviction
k create --raw "/api/v1/namespaces/default/pods/$first/eviction" -f eviction >/dev/null
replaced() { second=$(pod_of small 1) && [ "$second" != "$first" ] && node_do address "$second"; }
soon replaced
second=$(pod_of small 1)
check [ "$(node_do address "$second")" != "$address" ]
check [ "$(k get pod "$second" -o 'jsonpath={.metadata.annotations.batch\.kubernetes\.io/job-index-ignored-failure-count}')" = 1 ]
check [ "$(k get job small -o 'jsonpath={.status.conditions}')" = "" ]

# a container that ends with 2 ends the Job
k delete job small --wait=true
job "s/trap.*wait [\$]!/exit 2/" >job.yaml && k create -f job.yaml
job_ended small
check [ $got = failed ]
check [ "$(k get job small -o 'jsonpath={.status.conditions[?(@.type=="Failed")].reason}')" = PodFailurePolicy ]

# nodes whose kubelet sends no heartbeats for longer than the grace period are lost, and ready again when it is back
nodes_are() { [ "$(k get nodes -o 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}')" = "$1 $1" ]; }
nodes_are True
kill -STOP "$pid_kubelet"
soon nodes_are Unknown
kill -CONT "$pid_kubelet"
soon nodes_are True
k delete job small --wait=true
job >job.yaml && k create -f job.yaml
soon running
