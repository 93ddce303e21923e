# A job of the chart with cluster.kind: jobset trains, in a real cluster's names and addresses. JobSet's controller is not
# installed. This test creates the Job JOBSET-node-0 and the headless Service that the controller's documentation describes.
. "$LEVIN_SOURCE/tests/kubernetes/kubernetes.bash"
python3 -c 'import yaml' 2>/dev/null || skip "python3 has no yaml module"
control_plane_up
gs_server fake-gcs-server || skip "no fake-gcs-server (tools/setup.sh --dev fetches it)"
nodes_up 2
make_text
code 0 cp_ text.txt gs://bucket/text.txt
cat >values.yaml <<END
cluster: {kind: jobset, nNodes: 2, gpusPerNode: 0, ranksPerNode: 2}
workload: {image: "levin:0.1.0"}
resources: {cpu: 1, memory: 1Gi, shm: 64Mi, ephemeralStorage: 1Gi}
env: {STORAGE_EMULATOR_HOST: "$STORAGE_EMULATOR_HOST", NO_GCE_CHECK: "true", OMP_WAIT_POLICY: passive}
recipe:
  run_dir: gs://bucket/run
  model: {n_layer: 1, n_head: 2, n_embd: 16, block_size: 16}
  data: {path: gs://bucket/text.txt}
  trainer: {max_steps: 1000000, batch_size: 4, micro_batch_size: 1, deterministic: true, threads: 1, val_check_interval: 0}
  checkpoint: {every_n_steps: 50}
END
render few values.yaml >jobset.yaml
python3 - <<'END' >job.yaml
import yaml
name = "jobset.sigs.k8s.io/"
for d in filter(None, yaml.safe_load_all(open("jobset.yaml"))):
    if d["kind"] == "JobSet":
        spec = d["spec"]
        one, = spec["replicatedJobs"]
        assert one["replicas"] == 1 and spec["failurePolicy"] == {"maxRestarts": 0} and spec["network"]["enableDNSHostnames"]
        set_name, job_name = d["metadata"]["name"], f"{d['metadata']['name']}-{one['name']}-0"
        labels = {name + "jobset-name": set_name, name + "replicatedjob-name": one["name"], name + "job-index": "0"}
        job = one["template"]
        pod = job["spec"]["template"]
        pod["metadata"]["labels"] |= labels
        pod["spec"]["subdomain"] = spec["network"]["subdomain"]
        print(yaml.safe_dump_all([
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": spec["network"]["subdomain"]},
             "spec": {"clusterIP": "None", "publishNotReadyAddresses": spec["network"]["publishNotReadyAddresses"],
                      "selector": {name + "jobset-name": set_name}}},
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job_name, "labels": labels}, "spec": job["spec"]}]))
    else:
        print("---\n" + yaml.safe_dump(d) + "---")
END
code 0 k apply -f job.yaml
is_logged() { grep -qE "$1" "$kube/nodes/logs/few-node-0-0-"*/levin; } # by a pod that has had index 0
soon is_logged 'saved .*/checkpoints/step-'
# the Job's UID, by which the replacement of the coordinator recognizes its run
first=$(pod_of few-node-0 0)
one=$(node_do process "$first" levin)
check grep -zqx "LEVIN_JOB_ID=$(k get job few-node-0 -o 'jsonpath={.metadata.uid}')" "/proc/$one/environ"
kill -KILL "$one"
again=
replaced() { again=$(pod_of few-node-0 0) && [ -s "$(log_of "$again")" ] && [ "$again" != "$first" ] && grep -q 'saved .*/checkpoints/step-' "$(log_of "$again")"; }
soon replaced
check grep -qF "this job has already begun its run: continuing from its last checkpoint" "$(log_of "$again")"
! grep -qE 'step +1/' "$(log_of "$again")" || fail "the run started from the beginning"
# as `kubectl delete jobset` does it: the job ends with a checkpoint
k delete job few-node-0 --cascade=foreground --wait=true
watched() { "$LEVIN" watch gs://bucket/run --once >out 2>err; }
code 0 watched
says "gs://bucket/run: stopped, step " out
says "1 restart" out
