# kubernetes.sh - levin launch --kubernetes: what it prints for values and for recipes, what it refuses, the schema.
. "$LEVIN_SOURCE/tests/cli/common.bash"
values=$LEVIN_SOURCE/tests/cli/kubernetes

diff -u "$LEVIN_SOURCE/deploy/helm/levin/values.schema.json" <("$LEVIN" help --values-schema) ||
    fail "deploy/helm/levin/values.schema.json is not what the tables say: make docs"

says "appVersion: $("$LEVIN" --version | awk 'NR == 1 {print $2}')" "$LEVIN_SOURCE/deploy/helm/levin/Chart.yaml"
for part in $(sed -n 's/^The part `\([a-z_]*\)`.*/\1/p' "$LEVIN_SOURCE/docs/options.md"); do
    says "  $part: {}" "$LEVIN_SOURCE/deploy/helm/levin/values.yaml"
done

# --- values ---
for file in "$values"/*.yaml; do
    name=$(basename "$file" .yaml)
    code 0 "$LEVIN" launch --kubernetes --values="$file" --job-name=j --out="$name.out"
    says "kubectl apply -f $name.out" out
    says 'action: FailJob' "$name.out"
    says 'maxFailedIndexes: 0' "$name.out"
    says 'readOnlyRootFilesystem: true' "$name.out"
done
says 'name: "j-1732470000"' workload.out
says 'run_dir: "gs://my-experiments/pythia-1b/1732470000"' workload.out
says 'max_steps: 600000' workload.out
says 'batch_size_per_device: 125' workload.out
says 'start_timeout: 1800' workload.out
says 'value: GPUDirectTCPX_v7' workload.out
for name in workload tcpxo rdma; do says 'nccl_library: libnccl.so.2' $name.out; done
silent_about nccl_library small.out
says 'restartPolicy: Always' workload.out
says 'value: "j-1732470000-0.j-1732470000"' workload.out
says 'value: "j-second-try-node-0-0.j-second-try"' jobset.out
says 'kueue.x-k8s.io/queue-name: "team-a"' jobset.out
says 'suspend: true' jobset.out
silent_about 'kind: Service' jobset.out
says 'ephemeral-storage: "21Gi"' small.out # 2.6 GiB of checkpoints, 18 GiB of data
says '# The disk of a pod is not limited' workload.out
silent_about nvidia.com processors.out
says 'accelerator: cpu' processors.out
says 'limit_val_batches: "1.0"' processors.out
says 'weight_decay: 0' volumes.out
silent_about 'weight_decay: 0.1' volumes.out
says 'net.ipv4.tcp_mtu_probing' volumes.out

# Documents as Kubernetes reads them.
if python3 -c 'import yaml' 2>/dev/null; then
    python3 - ./*.out <<'END'
import sys, yaml
for path in sys.argv[1:]:
    docs = {d["kind"]: d for d in yaml.safe_load_all(open(path))}
    job = docs["Job"]["spec"] if "Job" in docs else docs["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    recipe = yaml.safe_load(docs["ConfigMap"]["data"]["recipe.yaml"])
    pod = job["template"]["spec"]
    levin = {c["name"]: c for c in pod["containers"]}["levin"]
    env = {e["name"]: e.get("value") for e in levin["env"]}
    assert len(env) == len(levin["env"]), path
    assert job["completions"] == job["parallelism"] == recipe["trainer"]["num_nodes"] == int(env["NNODES"]), path
    assert recipe["trainer"]["devices"] == env["GPUS_PER_NODE"], path
    assert job["completionMode"] == "Indexed" and job["podReplacementPolicy"] == "Failed", path
    rules = job["podFailurePolicy"]["rules"]
    assert [r["action"] for r in rules] == ["Ignore", "Ignore", "FailJob"], path
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
else
    echo "python3 has no yaml module: documents are not read back"
fi
validate=$(command -v kubernetes-validate || echo "$LEVIN_SOURCE/parts/kubernetes/bin/kubernetes-validate")
if [ -x "$validate" ]; then
    for file in ./*.out; do "$validate" --strict --quiet -k 1.31 "$file"; done
else
    echo "kubernetes-validate is not here: no strict check of the documents"
fi

# The amounts that are planned can be given to Helm.
code 0 "$LEVIN" launch --kubernetes --values="$values/small.yaml" --json
json 'd["resources"]["ephemeralStorage"] == "21Gi" and d["resources"]["memory"].endswith("Gi") and "kind: Job" in d["manifests"]'

# --- recipes ---
cat >own.yaml <<'END'
name: Own_Run.1
run_dir: gs://mine/own
model: {kind: gpt2, n_layer: 2, n_head: 2, n_embd: 64, block_size: 32, vocab_size: 128, freeze: [wte, 'h.*.mlp']}
data: {kind: tokens, path: gs://mine/tokens}
optimizer: {lr: 6e-4, betas: [0.9, 0.99]}
schedule: {kind: linear, warmup_steps: 5, decay_steps: 90}
trainer: {max_steps: 100, batch_size: 16, val_check_interval: 1.0, limit_val_batches: 3, max_time: 90m, num_nodes: 2, devices: 4, accelerator: cpu}
END
code 0 "$LEVIN" launch --kubernetes own.yaml --image=levin:1 --trainer.seed=7 --out=own.out
says '# Trains on 2 nodes with 4 ranks each' own.out
says 'name: "own-run-1"' own.out
# The pods' recipe has the same settings.
sed -n '/^  recipe.yaml: |/,/^---/{s/^    //p}' own.out >pods.yaml
settings() { "$LEVIN" plan "$@" --show-settings | awk '{print $1, $2}' | grep -v '^trainer.\(num_nodes\|devices\|accelerator\|start_timeout\) '; }
diff <(settings own.yaml --trainer.seed=7) <(settings pods.yaml)
code 2 "$LEVIN" launch --kubernetes own.yaml --image=levin:1 --nodes=3
says 'trainer.num_nodes is 2 in the recipe, and --nodes says 3' err
one_error
code 2 "$LEVIN" launch --kubernetes own.yaml --image=levin:1 --trainer.batch_size=6
one_error
code 2 "$LEVIN" launch --kubernetes own.yaml --image=levin:1 --trainer.accelerator=cuda --trainer.batch_siz=6
says "trainer.batch_siz" err
code 2 "$LEVIN" launch --kubernetes own.yaml
says 'workload.image is not given' err
code 2 "$LEVIN" launch --kubernetes own.yaml --image=i --data.url=https://me:secret@host/x
silent_about secret err
says 'holds a password or a signature' err
code 2 "$LEVIN" launch --kubernetes "$LEVIN_SOURCE/recipes/pythia-70m.yaml" --nodes=2 --image=i --run_dir=gs://b/x
says 'a path on this machine, which the pods do not have' err
code 0 "$LEVIN" launch --kubernetes "$LEVIN_SOURCE/recipes/pythia-70m.yaml" --nodes=2 --nproc-per-node=4 --image=i \
    --run_dir=gs://b/x --data.path=gs://b/owt --max-restarts=7
says '"nvidia.com/gpu": "4"' out
says '--max-restarts=7' out
says '# Trains on 2 nodes with 4 GPUs each' out
# Values beside a recipe
printf 'cluster: {nodePool: fast}\nsecrets: {gcs: key}\n' >beside.yaml
code 0 "$LEVIN" launch --kubernetes own.yaml --image=i --values=beside.yaml
says '"cloud.google.com/gke-nodepool": "fast"' out
says 'secretName: "key"' out

# --- usage ---
code 2 "$LEVIN" launch --kubernetes
says 'say what to train' err
code 2 "$LEVIN" launch --kubernetes --slurm own.yaml
says 'leave one of the two out' err
code 2 "$LEVIN" launch --kubernetes -- train own.yaml
says '--kubernetes takes the recipe' err
code 2 "$LEVIN" launch --kubernetes own.yaml --image=i --job-name=Big
says "the job's name 'Big'" err
code 2 "$LEVIN" launch --kubernetes none.yaml --image=i
one_error
code 1 "$LEVIN" launch --kubernetes --values=none.yaml
one_error

# --- what is refused: values by themselves, all mistakes at once, with file and line ---
wrong() { # wrong SENTENCE, values on standard input
    cat >values.yaml
    code 2 "$LEVIN" launch --kubernetes --values=values.yaml
    says "$1" err
    one_error
}
wrong 'values.yaml:1: cluster.nNode is no value of the chart; did you mean cluster.nNodes?' <<<'cluster: {nNode: 2}'
wrong 'values.yaml:2: workloads is no value of the chart' <<<$'cluster: {}\nworkloads: {}'
wrong "cluster.nNodes is a whole number from 1 to 100000, not 'two'" <<<'cluster: {nNodes: two}'
wrong "cluster.nNodes is a whole number from 1 to 100000, not '0'" <<<'cluster: {nNodes: 0}'
wrong "cluster.kind is one of job, jobset, not 'deployment'" <<<'cluster: {kind: deployment}'
wrong "network.useTcpx is one of yes, no, not 'maybe'" <<<'network: {useTcpx: maybe}'
wrong 'workload.modelName is one of pythia-70m' <<<'workload: {modelName: Llama-2-70b-hf}'
wrong "without gs://, not 'gs://x'" <<<'workload: {gcsBucket: gs://x}'
wrong "env is a map of names to texts; write numbers in quotes, not '1'" <<<'env: {A: 1}'
wrong 'volumes is a list of maps' <<<'volumes: {a: b}'
wrong 'cluster is a map of values, not null' <<<'cluster:'
wrong 'recipe.optimizer.lrr: recipes have no such key; did you mean recipe.optimizer.lr?' <<<'recipe: {optimizer: {lrr: 3}}'
wrong 'recipe.optimiser: recipes have no such part' <<<'recipe: {optimiser: {lr: 3}}'
wrong 'Helm does not tell them apart' <<<'recipe: {trainer: {val_check_interval: 1.0}}'
wrong 'recipe.schedule is a map of keys, not whole number' <<<'recipe: {schedule: 3}'
wrong 'recipe.trainer.max_steps has no value' <<<'recipe: {trainer: {max_steps: }}'
wrong 'do not agree on the number 0x10' <<<'cluster: {nNodes: 0x10}'
wrong 'do not agree on the number 010' <<<'cluster: {nNodes: 010}'
wrong 'cluster.nNodes is a whole number' <<<'{cluster: {nNodes: two}, workload: {image: 7}}'
wrong 'workload.image is the name of an image' <<<'{cluster: {nNodes: two}, workload: {image: 7}}'
wrong 'anchors and aliases' <<<'cluster: &a {nNodes: 2}'
wrong 'is there twice' <<<$'cluster: {nNodes: 2}\ncluster: {nNodes: 3}'
wrong 'trainer.precision' <<<'{workload: {image: i}, recipe: {run_dir: "gs://b/x", model: {kind: gpt2}, data: {kind: tokens, path: "gs://b/d"}, trainer: {precision: fp8}}}'
wrong 'data.url holds a password or a signature' <<<'{workload: {image: i}, recipe: {run_dir: "gs://b/x", model: {kind: gpt2}, data: {kind: tokens, path: here, url: "https://me:secret@host/x"}}}'
silent_about secret err
refused() { wrong "$1"; }
. "$values/refused.bash"
