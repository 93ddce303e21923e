# One rank per pod, without a launcher: an Indexed Job of four pods trains, in a real cluster's names and addresses. The first pod comes
# last; bits are those of one rank.
. "$LEVIN_SOURCE/tests/kubernetes/kubernetes.bash"
control_plane_up
nodes_up 4
make_text
exact=(--trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1)
train alone "${exact[@]}" 2>/dev/null
words() { printf '"%s", ' "$@" | sed 's/, $//'; }
arguments "$PWD/pods" "${exact[@]}" --data.path="$PWD/text.txt"
mkdir pods
cat >job.yaml <<EOF
apiVersion: v1
kind: Service
metadata: {name: few}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {batch.kubernetes.io/job-name: few}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: few}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 4
  backoffLimitPerIndex: 1
  maxFailedIndexes: 0
  podReplacementPolicy: Failed
  podFailurePolicy:
    rules:
    - {action: FailJob, onExitCodes: {containerName: levin, operator: In, values: [1, 2]}}
    - {action: Ignore, onExitCodes: {containerName: levin, operator: In, values: [75, 76]}}
    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
  template:
    spec:
      subdomain: few
      restartPolicy: Never
      automountServiceAccountToken: false
      initContainers:
      - {name: late, image: none, command: [sh, -c, "[ \$JOB_COMPLETION_INDEX != 0 ] || sleep 3"]}
      containers:
      - name: levin
        image: none
        command: [$(words levin "${all[@]}")]
        env:
        - {name: NNODES, value: "4"}
        - {name: MASTER_ADDR, value: few-0.few}
        - {name: MASTER_PORT, value: "6002"}
        volumeMounts: [{name: shared, mountPath: $PWD}]
      volumes: [{name: shared, hostPath: {path: $PWD}}]
EOF
code 0 k apply -f job.yaml
job_ended few
cat "$(log_of "$(k get pods -o name | sed -n 's|^pod/\(few-0-.*\)|\1|p')")"
check [ $got = complete ]
check [ "$(k get job few -o 'jsonpath={.status.completedIndexes}')" = 0-3 ]
same_run alone pods
