# An error of a job of the chart is reported in one sentence, and ends the job or is waited for: two jobs in one folder of a bucket,
# a bucket that does not exist, a pod with another recipe, a secret that is not there yet, a coordinator that comes back when the
# run has ended.
. "$LEVIN_SOURCE/tests/kubernetes/kubernetes.bash"
control_plane_up
gs_server fake-gcs-server || skip "no fake-gcs-server (tools/setup.sh --dev fetches it)"
nodes_up 2
make_text
code 0 cp_ text.txt gs://bucket/text.txt
job() { # job JOB RUN STEPS [VALUE...]: job.yaml, of two pods of a rank each
    cat >values.yaml <<END
cluster: {nNodes: 2, gpusPerNode: 0, ranksPerNode: 1, terminationGracePeriodSeconds: 20}
workload: {image: "levin:0.1.0"}
resources: {cpu: 1, memory: 1Gi, shm: 64Mi, ephemeralStorage: 1Gi}
env: {STORAGE_EMULATOR_HOST: "$STORAGE_EMULATOR_HOST", NO_GCE_CHECK: "true", OMP_WAIT_POLICY: passive}
recipe:
  run_dir: $2
  model: {n_layer: 1, n_head: 2, n_embd: 16, block_size: 16}
  data: {path: gs://bucket/text.txt}
  trainer: {max_steps: $3, batch_size: 4, micro_batch_size: 1, deterministic: true, threads: 1, val_check_interval: 0, rank_timeout: 5}
  checkpoint: {every_n_steps: 50}
$(printf '%s\n' "${@:4}")
END
    render "$1" values.yaml >job.yaml
}
begin() { job "$@" && code 0 k apply -f job.yaml; }
outputs() { cat "$kube/nodes/logs/$1-"*/levin; }
is_said() { outputs "$1" | grep -qF -- "$2"; }
failed_with() { # JOB SENTENCE: the job has failed, with at most one error on node 0
    job_ended "$1"
    [ $got = failed ] || { outputs "$1" && fail "$1 is $got"; }
    soon is_said "$1" "$2" # the last lines may arrive after the end
    [ "$(cat "$kube/nodes/logs/$1-0-"*/levin | grep -c ' error: ')" -le 1 ] || { outputs "$1" && fail "more than one sentence"; }
}

# the second job in one folder is refused, and the first one continues
begin first gs://bucket/run 1000000
soon is_said first "/checkpoints/step-"
begin second gs://bucket/run 100
failed_with second "another job is training in 'gs://bucket/run', which belongs to job $(k get job first -o 'jsonpath={.metadata.uid}') of user 65532 on host first-0 (pid "
check k get pod "$(pod_of first 0)"
k delete job first --wait=true

begin bucketless gs://nobucket/run 100
failed_with bucketless "'gs://nobucket/run"

# a pod whose ConfigMap has been changed since the others started
job other gs://bucket/other 100
sed -i 's/^immutable: true//; s/^  parallelism: 2/  parallelism: 1/' job.yaml
code 0 k apply -f job.yaml
soon is_said other "waiting for 1 of 2 nodes: other-1"
k get configmap other -o json | sed 's/max_steps: 100/max_steps: 101/' | k apply -f - 2>/dev/null
k patch job other -p '{"spec": {"parallelism": 2}}'
failed_with other "error: other-0 rejects this node: other-1 on other-1 has trainer.max_steps 101, but node 0 has 100: give all nodes the same recipe"

# without its Secret no pod starts; the job trains when the Secret exists
begin secretive gs://bucket/secretive 100 "secrets: {token: shared}"
waits() { [ "$(k get pods -l batch.kubernetes.io/job-name=secretive -o 'jsonpath={.items[*].status.containerStatuses[0].state.waiting.reason}')" = "CreateContainerConfigError CreateContainerConfigError" ]; }
soon waits
k create secret generic shared --from-literal=LEVIN_TOKEN=0123456789abcdef-of-this-test
job_ended secretive
[ $got = complete ] || { outputs secretive && fail "secretive is $got"; }
! grep -rqF 0123456789abcdef-of-this-test "$kube/nodes/logs" || fail "the token is written down"

# a coordinator that is replaced when the run has ended: the other pod has succeeded and never returns
mkdir -m 777 mark
job ended gs://bucket/ended 100 "volumes: [{name: mark, hostPath: {path: $PWD/mark}}]" "volumeMounts: [{name: mark, mountPath: /mark}]"
script='"$0" "$@"; code=$?; [ $JOB_COMPLETION_INDEX = 1 ] || [ -e /mark/seen ] || { touch /mark/seen; exit 137; }; exit $code'
awk -v script="$script" -v quote="'" '$0 == "        - levin" { print "        - sh\n        - -c\n        - " quote script quote } { print }' job.yaml >wrapped.yaml
code 0 k apply -f wrapped.yaml
job_ended ended
[ $got = complete ] || { outputs ended && fail "ended is $got"; }
check test -e mark/seen
is_said ended "this job has already ended its run: nothing to do" || { outputs ended && fail "the coordinator does not know that the run has ended"; }
