# kubernetes_helm.sh - Helm and levin render the same documents from the chart, and refuse the same values.
. "$LEVIN_SOURCE/tests/cli/common.bash"
helm=$(command -v helm || echo "$LEVIN_SOURCE/parts/kubernetes/bin/helm")
[ -x "$helm" ] || { echo "skipped: helm is not here (tools/setup.sh kubernetes)"; exit 77; }
python3 -c 'import yaml' 2>/dev/null || { echo "skipped: python3 has no yaml module"; exit 77; }
export HELM_CACHE_HOME=$PWD/cache HELM_CONFIG_HOME=$PWD/config HELM_DATA_HOME=$PWD/data
chart=$LEVIN_SOURCE/deploy/helm/levin values=$LEVIN_SOURCE/tests/cli/kubernetes

cat >compare.py <<'END'
"""compare.py HELM LEVIN: the same documents, of which recipes are texts of YAML whose numbers have several spellings."""
import sys, yaml

def plain(x):
    if isinstance(x, dict): return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list): return [plain(v) for v in x]
    if isinstance(x, bool): return x
    try: return float(x)
    except (TypeError, ValueError): return x

def read(path):
    docs = {}
    for d in yaml.safe_load_all(open(path)):
        if d is None: continue
        assert d["kind"] not in docs, (path, d["kind"])
        docs[d["kind"]] = d
    config = docs["ConfigMap"]["data"]
    config["recipe.yaml"] = plain(yaml.safe_load(config["recipe.yaml"]))
    return docs

helm, levin = map(read, sys.argv[1:])
assert len(helm) >= 2 and helm == levin, (helm, levin)
END
n=0
for file in "$values"/*.yaml; do
    name=$(basename "$file" .yaml)
    "$helm" lint --quiet "$chart" --values "$file" >lint 2>&1 || fail "$file: $(cat lint)"
    # What levin has planned is given to Helm as values, as README.md of the chart says.
    code 0 "$LEVIN" launch --kubernetes --values="$file" --job-name=j --json
    python3 -c 'import json; d = json.load(open("out")); json.dump({"resources": d["resources"]}, open("resources.json", "w"))
open("levin.yaml", "w").write(d["manifests"])'
    "$helm" template --kube-version 1.31.0 j "$chart" --values "$file" --values resources.json >helm.yaml
    python3 compare.py helm.yaml levin.yaml || fail "$file: helm and levin differ"
    n=$((n + 1))
done
[ "$n" -ge 10 ] || fail "$n files of values, and there should be ten"

refused() { # refused SENTENCE, values on standard input
    cat >values.yaml
    if "$helm" template --kube-version 1.31.0 j "$chart" --values values.yaml >out 2>err; then fail "helm takes $(cat values.yaml)"; fi
    says "$1" err
}
. "$values/refused.bash"
# The schema
refused "additional properties 'nNode' not allowed" <<<"{workload: {$W, $S}, cluster: {nNode: 2}}"
refused "additional properties 'lrr' not allowed" <<<"{workload: {$W, $S}, recipe: {optimizer: {lrr: 3}}}"
refused 'val_check_interval' <<<"{workload: {$W, $S}, recipe: {trainer: {val_check_interval: 1.0}}}"
refused 'nNodes' <<<"{workload: {$W, $S}, cluster: {nNodes: two}}"
# The notes say in which unit things are counted. helm template leaves them out: here they are a manifest.
cp -r "$chart" chart
{ printf 'kind: Notes\nnotes: |\n'; sed 's/^/  /' chart/templates/NOTES.txt; } >chart/templates/notes.yaml
"$helm" template --kube-version 1.31.0 j chart --values "$values/workload.yaml" --show-only templates/notes.yaml >notes
says 'warmupIters and stepsPerEpoch count optimizer steps, not micro-batches' notes
says 'levin watch gs://my-experiments/pythia-1b/1732470000' notes
says 'instance=j-1732470000,' notes
