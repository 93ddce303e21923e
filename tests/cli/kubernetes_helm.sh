# kubernetes_helm.sh - what Helm renders from the chart for each file of values, what the chart refuses, and the manifests of
# deploy/kubernetes. levin accepts the recipes that pods get.
. "$LEVIN_SOURCE/tests/cli/common.bash"
helm=$(command -v helm || echo "$LEVIN_SOURCE/parts/kubernetes/bin/helm")
[ -x "$helm" ] || { echo "skipped: no helm (tools/setup.sh kubernetes installs it)"; exit 77; }
python3 -c 'import yaml' 2>/dev/null || { echo "skipped: python3 has no yaml module"; exit 77; }
export HELM_CACHE_HOME=$PWD/cache HELM_CONFIG_HOME=$PWD/config HELM_DATA_HOME=$PWD/data
chart=$LEVIN_SOURCE/deploy/helm/levin values=$LEVIN_SOURCE/tests/cli/kubernetes
template() { "$helm" template --kube-version 1.31.0 "$@"; }

mkdir manifests
"$LEVIN_SOURCE/deploy/kubernetes/render" manifests
for file in manifests/*.yaml; do
    diff -u "$LEVIN_SOURCE/deploy/kubernetes/${file#manifests/}" "$file" || fail "run deploy/kubernetes/render"
done

# --- values ---
n=0
for file in "$values"/*.yaml; do
    name=$(basename "$file" .yaml)
    "$helm" lint --quiet "$chart" --values "$file" >lint 2>&1 || fail "$file: $(cat lint)"
    template j "$chart" --values "$file" >"$name.out"
    says 'action: FailJob' "$name.out"
    says 'maxFailedIndexes: 0' "$name.out"
    says 'readOnlyRootFilesystem: true' "$name.out"
    n=$((n + 1))
done
[ "$n" -ge 10 ] || fail "$n files of values, expected 10 or more"
says 'name: "j-1732470000"' workload.out
says 'run_dir: "gs://my-experiments/pythia-1b/1732470000"' workload.out
says 'max_steps: 600000' workload.out
says 'batch_size_per_device: 125' workload.out
says 'start_timeout: 1800' workload.out
says 'value: GPUDirectTCPX_v7' workload.out
says 'name: "j-0"' transformer.out
says 'run_dir: "gs://mine/a/0"' transformer.out
for name in workload tcpxo rdma; do says 'nccl_library: libnccl.so.2' $name.out; done
lacks nccl_library small.out
says 'restartPolicy: Always' workload.out
says 'value: "j-1732470000-0.j-1732470000"' workload.out
says 'value: "j-second-try-node-0-0.j-second-try"' jobset.out
says 'kueue.x-k8s.io/queue-name: "team-a"' jobset.out
says 'suspend: true' jobset.out
lacks 'kind: Service' jobset.out
says 'ephemeral-storage: "21Gi"' small.out
lacks min_lr placement.out
lacks nvidia.com processors.out
says 'accelerator: cpu' processors.out
says 'limit_val_batches: "1.0"' processors.out
says 'weight_decay: 0' volumes.out
lacks 'weight_decay: 0.1' volumes.out
says 'net.ipv4.tcp_mtu_probing' volumes.out

# Documents as Kubernetes reads them.
python3 - "$LEVIN_SOURCE/recipes" ./*.out <<'END'
import sys, yaml
for path in sys.argv[2:]:
    docs = {d["kind"]: d for d in yaml.safe_load_all(open(path)) if d}
    job = docs["Job"]["spec"] if "Job" in docs else docs["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    recipe = yaml.safe_load(docs["ConfigMap"]["data"]["recipe.yaml"])
    open(path[:-3] + "recipe", "w").write(docs["ConfigMap"]["data"]["recipe.yaml"])
    pod = job["template"]["spec"]
    levin = {c["name"]: c for c in pod["containers"]}["levin"]
    env = {e["name"]: e.get("value") for e in levin["env"]}
    assert len(env) == len(levin["env"]), path
    assert job["completions"] == job["parallelism"] == recipe["trainer"]["num_nodes"] == int(env["NNODES"]), path
    assert recipe["trainer"]["devices"] == env["GPUS_PER_NODE"], path
    assert job["completionMode"] == "Indexed" and job["podReplacementPolicy"] == "Failed", path
    rules = job["podFailurePolicy"]["rules"]
    assert [r["action"] for r in rules] == ["Ignore", "Ignore", "FailJob"], path
    separate = pod.get("affinity", {}).get("podAntiAffinity", {})
    if recipe["trainer"]["accelerator"] == "cpu": # pods without GPUs may share a node
        assert "requiredDuringSchedulingIgnoredDuringExecution" not in separate, path
        separate = [t["podAffinityTerm"] for t in separate.get("preferredDuringSchedulingIgnoredDuringExecution", [])]
    else:
        separate = separate.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    several = job["completions"] > 1 and "transformer" not in path # which has a podAntiAffinity of its own
    assert [term["topologyKey"] for term in separate] == ["kubernetes.io/hostname"] * several, path
    labels = job["template"]["metadata"]["labels"].items()
    assert all(term["labelSelector"]["matchLabels"].items() <= labels for term in separate), path
    if path in ("./small.out", "./transformer.out"): # the published training
        published = yaml.safe_load(open(f"{sys.argv[1]}/{recipe['model']['size']}.yaml"))
        del published["name"], published["data"], published["schedule"]["decay_steps"]
        for key in "num_nodes", "devices", "accelerator", "start_timeout": del recipe["trainer"][key]
        differ = {part for part in published if published[part] != recipe[part]}
        assert not differ, (path, differ)
    assert rules[1]["onExitCodes"]["values"] == [75, 76] and rules[2]["onExitCodes"]["values"] == [1, 2], path
    assert pod["restartPolicy"] == "Never" and pod["securityContext"]["runAsNonRoot"] is True, path
    assert all(c["restartPolicy"] == "Always" for c in pod.get("initContainers", []) if c["name"] == "receive-daemon"), path
    mounts = {m["name"] for c in pod["containers"] + pod.get("initContainers", []) for m in c["volumeMounts"]}
    assert mounts == {v["name"] for v in pod["volumes"]}, (path, mounts)
    secret = {e["name"] for e in levin["env"] if "secretKeyRef" in e.get("valueFrom", {})}
    assert "secrets" not in path or secret == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                               "HF_TOKEN", "LEVIN_TOKEN"}, secret
    assert "secrets" not in path or env["QUOTED"] == 'a "b" \\ {{ c }}\nd é 日', env["QUOTED"]
END
# levin reads the recipes.
for recipe in *.recipe; do
    code 0 "$LEVIN" plan "$recipe" --show-settings
    says "trainer.num_nodes" out
done
validate=$(command -v kubernetes-validate || echo "$LEVIN_SOURCE/parts/kubernetes/bin/kubernetes-validate")
if [ -x "$validate" ]; then
    for file in ./*.out; do "$validate" --strict --quiet -k 1.31 "$file"; done
else
    echo "kubernetes-validate is not installed: no strict check of the documents"
fi

refused() { # refused SENTENCE, values on standard input
    cat >values.yaml
    if template j "$chart" --values values.yaml >out 2>err; then fail "helm accepts $(cat values.yaml)"; fi
    says "$1" err
}
. "$values/refused.bash"
# The schema
refused "additional properties 'nNode' not allowed" <<<"{workload: {$W, $S}, cluster: {nNode: 2}}"
refused "additional properties 'workloads' not allowed" <<<"{workload: {$W, $S}, workloads: {}}"
refused "additional properties 'lrr' not allowed" <<<"{workload: {$W, $S}, recipe: {optimizer: {lrr: 3}}}"
refused "additional properties 'optimiser' not allowed" <<<"{workload: {$W, $S}, recipe: {optimiser: {lr: 3}}}"
refused 'val_check_interval' <<<"{workload: {$W, $S}, recipe: {trainer: {val_check_interval: 1.0}}}"
refused 'recipe/schedule' <<<"{workload: {$W, $S}, recipe: {schedule: 3}}"
refused 'trainer/precision' <<<"{workload: {$W, $S}, recipe: {trainer: {precision: fp8}}}"
refused 'nNodes' <<<"{workload: {$W, $S}, cluster: {nNodes: two}}"
refused 'nNodes' <<<"{workload: {$W, $S}, cluster: {nNodes: 0}}"
for key in kind nNodes gpusPerNode gpuResource nodePoolLabel maxRestarts backoffLimitPerIndex terminationGracePeriodSeconds runAsUser imagePullPolicy; do
    refused "$key" <<<"{workload: {$W, $S}, cluster: {$key: null}}"
done
refused profile <<<"{workload: {$W, $S}, network: {profile: null}}"
refused trainer <<<"{workload: {$W, $S}, recipe: {trainer: null}}"
refused logging <<<"{workload: {$W, $S}, logging: null}"
refused 'cluster/kind' <<<"{workload: {$W, $S}, cluster: {kind: deployment}}"
refused 'network/useTcpx' <<<"{workload: {$W, $S}, network: {useTcpx: maybe}}"
refused 'workload/modelName' <<<'workload: {image: i, modelName: Llama-2-70b-hf}'
refused 'workload/gcsBucket' <<<'workload: {image: i, gcsBucket: gs://x}'
refused 'env/A' <<<"{workload: {$W, $S}, env: {A: 1}}"
refused 'volumes' <<<"{workload: {$W, $S}, volumes: {a: b}}"
# The notes say in which unit things are counted. helm template leaves them out: here they are a manifest.
cp -r "$chart" chart
{ printf 'kind: Notes\nnotes: |\n'; sed 's/^/  /' chart/templates/NOTES.txt; } >chart/templates/notes.yaml
template j chart --values "$values/workload.yaml" --show-only templates/notes.yaml >notes
says 'warmupIters and stepsPerEpoch count optimizer steps, not micro-batches' notes
says 'levin watch gs://my-experiments/pythia-1b/1732470000' notes
says 'instance=j-1732470000,' notes
