# What a real API server says of the chart: the documents of every file of values, the manifests of
# deploy/kubernetes, and each field of them.
. "$LEVIN_SOURCE/tests/kubernetes/kubernetes.bash"
python3 -c 'import yaml' 2>/dev/null || skip "python3 has no yaml module"
control_plane_up
# A JobSet, which the server does not know, is replaced by its Job. Privileged containers, which this server does not allow, are
# made unprivileged.
cat >jobs.py <<'END'
import sys, yaml
for d in filter(None, yaml.safe_load_all(open(sys.argv[1]))):
    if d["kind"] == "JobSet":
        d = {"apiVersion": "batch/v1", "kind": "Job", "metadata": d["metadata"],
             "spec": d["spec"]["replicatedJobs"][0]["template"]["spec"]}
    for c in d.get("spec", {}).get("template", {}).get("spec", {}).get("initContainers", []):
        if "privileged" in c["securityContext"]: c["securityContext"]["privileged"] = False
    print("---"); print(yaml.safe_dump(d))
END
accepts() { # accepts FILE: strictly, with the fields that it names and no others; a warning is a mistake
    python3 jobs.py "$1" >documents.yaml
    code 0 k create --dry-run=server --validate=strict -f documents.yaml
    [ ! -s err ] || fail "$1: $(cat err)"
}
n=0
for file in "$LEVIN_SOURCE"/tests/cli/kubernetes/*.yaml; do
    render j "$file" >j.yaml
    accepts j.yaml
    n=$((n + 1))
done
[ $n -ge 10 ] || fail "$n files of values"
for name in gpus processors; do accepts "$LEVIN_SOURCE/deploy/kubernetes/$name.yaml"; done
# As kubectl apply does it, twice; then the ConfigMap cannot be changed.
{ cat "$LEVIN_SOURCE/tests/cli/kubernetes/small.yaml" && printf 'cluster: {suspend: "yes"}\n'; } >suspended.yaml
render pythia suspended.yaml >recipe.yaml
code 0 k apply -f recipe.yaml
code 0 k apply -f recipe.yaml
says 'job.batch/pythia unchanged' out
sed -i 's/max_steps: 600000/max_steps: 5/' recipe.yaml
code 1 k apply -f recipe.yaml
says 'field is immutable' err
