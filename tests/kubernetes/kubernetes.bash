# kubernetes.bash - a small Kubernetes on one machine: etcd, kube-apiserver and kube-controller-manager as they are, and nodes
# whose pods are processes in network namespaces (kubelet.py). Sourced in the first line of a test, which then continues inside
# namespaces of its own that nothing outlives. Skips the test where a part is missing (tools/setup.sh kubernetes).
#
#   control_plane_up            etcd, API server and controllers; `k` is kubectl with an administrator's rights
#   nodes_up N                  nodes node-1..node-N
#   k ARGUMENTS...              kubectl
#   render NAME VALUES >FILE    the documents of the chart for a file of values, as the release NAME
#   node_do WORD...             a command to kubelet.py: vanish NODE, join NODE, cut POD, mend POD, address POD, asked NAME
#   pod_of JOB INDEX            the newest pod of an index of a Job that is not over
#   log_of POD [CONTAINER]      the file with the output of a container (levin), a time at the start of each line
#   job_is JOB CONDITION        the Job has this condition (Complete, Failed)
#   job_ended JOB               waits until it is complete or failed, and sets $got to complete or failed
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
PATH=$LEVIN_SOURCE/parts/kubernetes/bin:$PATH
for part in etcd kube-apiserver kube-controller-manager kubectl helm python3; do
    command -v $part >/dev/null || skip "no $part (tools/setup.sh kubernetes installs the parts of a cluster, in some minutes)"
done
[ "$(id -u)" = 0 ] || skip "pods are mounts and networks, which take root"
hosts_begin
STORES_HOST=10.77.0.254
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
export PYTHONDONTWRITEBYTECODE=1 GOMAXPROCS=2 HELM_CACHE_HOME=$PWD/helm HELM_CONFIG_HOME=$PWD/helm HELM_DATA_HOME=$PWD/helm
kube=$PWD/kube token=an-administrator
here=$LEVIN_SOURCE/tests/kubernetes

background() { # background NAME COMMAND...: its output in $kube/NAME.log
    local name=$1
    shift
    "$@" >"$kube/$name.log" 2>&1 </dev/null &
    eval "pid_$name=$!"
}
answers_at() { # answers_at NAME COMMAND...: COMMAND succeeds soon; NAME's log if not
    (soon "${@:2}") || { tail -n 20 "$kube/$1.log" && fail "$1 does not answer"; }
}
render() { helm template --kube-version 1.31.0 "$1" "$LEVIN_SOURCE/deploy/helm/levin" --values "$2"; }
k() { kubectl --kubeconfig="$kube/admin" --cache-dir="$kube/cache" "$@"; }
control_plane_up() {
    mkdir -p "$kube"
    mount -t tmpfs tmpfs "$kube"
    mkdir -p "$kube/certificates" "$kube/etcd" # certificates: those that the server makes for itself
    ip link set lo up
    ip link add br0 address 02:00:00:00:00:fe type bridge # a fixed address: otherwise it changes when pods join, and their connections break
    ip addr add 10.77.0.254/16 dev br0
    ip link set br0 up
    openssl genrsa -out "$kube/accounts.key" 2048 2>/dev/null
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout "$kube/server.key" -out "$kube/server.crt" 2>/dev/null
    echo "$token,administrator,1,system:masters" >"$kube/tokens"
    background etcd etcd --data-dir "$kube/etcd" --listen-client-urls http://127.0.0.1:2379 \
        --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --log-level=warn
    # A pod remains on a lost node for two seconds, not for five minutes.
    background apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address=127.0.0.1 --secure-port=6443 \
        --tls-cert-file="$kube/server.crt" --tls-private-key-file="$kube/server.key" --cert-dir="$kube/certificates" --token-auth-file="$kube/tokens" --authorization-mode=RBAC \
        --service-cluster-ip-range=10.96.0.0/16 --service-account-issuer=https://kubernetes.default.svc \
        --service-account-key-file="$kube/accounts.key" --service-account-signing-key-file="$kube/accounts.key" \
        --default-not-ready-toleration-seconds=2 --default-unreachable-toleration-seconds=2 --advertise-address=10.77.0.254
    cat >"$kube/admin" <<EOF
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://127.0.0.1:6443", certificate-authority: "$kube/server.crt"}}]
users: [{name: administrator, user: {token: $token}}]
contexts: [{name: here, context: {cluster: here, user: administrator, namespace: default}}]
EOF
    answers_at apiserver k get --raw /readyz
    background controllers kube-controller-manager --kubeconfig="$kube/admin" --leader-elect=false --secure-port=0 \
        --service-account-private-key-file="$kube/accounts.key" --node-monitor-period=1s --node-monitor-grace-period=6s \
        --root-ca-file="$kube/server.crt" --kube-api-qps=200 --kube-api-burst=400 \
        --controllers=job-controller,pod-garbage-collector-controller,node-lifecycle-controller,taint-eviction-controller,endpointslice-controller,garbage-collector-controller,namespace-controller,root-ca-certificate-publisher-controller,serviceaccount-controller,disruption-controller,ttl-after-finished-controller
    answers_at controllers k get serviceaccount default
}
nodes_up() { # N
    local names
    names=$(seq -s, -f node-%g "$1")
    mkdir -p "$kube/nodes" "$kube/image/usr/local/bin"
    ln -f "$LEVIN" "$kube/image/usr/local/bin/levin" 2>/dev/null || cp "$LEVIN" "$kube/image/usr/local/bin/levin"
    background kubelet python3 "$here/kubelet.py" serve --server https://localhost:6443 --token $token \
        --ca "$kube/server.crt" --dir "$kube/nodes" --nodes "$names" --layer "$kube/image"
    answers_at kubelet test -S "$kube/nodes/socket"
}
node_do() { python3 "$here/kubelet.py" ask "$kube/nodes" "$@"; }
pods_of() { # JOB: name, index, phase, address of each pod, the newest last
    k get pods -l "batch.kubernetes.io/job-name=$1" --sort-by=.metadata.creationTimestamp \
        -o 'jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.batch\.kubernetes\.io/job-completion-index} {.status.phase} {.status.podIP} {.metadata.deletionTimestamp}{"\n"}{end}'
}
pod_of() { pods_of "$1" | awk -v i="$2" '$2 == i && $3 != "Failed" && $3 != "Succeeded" { name = $1 } END { print name; exit name == "" }'; }
log_of() { echo "$kube/nodes/logs/$1/${2:-levin}"; }
job_is() { [ "$(k get job "$1" -o "jsonpath={.status.conditions[?(@.type==\"$2\")].status}")" = True ]; }
job_ended() { # JOB
    for _ in $(seq 900); do
        if job_is "$1" Complete; then got=complete && return; fi
        if job_is "$1" Failed; then got=failed && return; fi
        sleep 1
    done
    pods_of "$1"
    fail "the job $1 is not over after 15 minutes"
}
