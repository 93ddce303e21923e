#!/usr/bin/env python3
"""kubelet.py - the nodes of a small cluster: pods are processes in network namespaces, under a real kube-apiserver.

    kubelet.py serve --server URL --token T --ca FILE --dir DIR --nodes NAME,... [--layer FOLDER] [--path FOLDER]
    kubelet.py ask DIR WORD...      one command to a kubelet that serves; prints the answer

kubernetes.bash starts it, in namespaces that hold the test alone, with a bridge br0. It is scheduler, kubelet of every node,
network and DNS (names.py). A pod has an address that no other pod ever has, a host name, init containers, native
sidecars, variables from fields, secrets and config maps, volumes (config map, secret, emptyDir, host path, downward API), a
grace period (TERM, then KILL), and exit codes. container.py runs a container. Images are ignored: every container runs
over the folders --layer and /, with the entry point `levin`.

Commands: `vanish NODE` (its pods are cut off and killed, nothing is reported any more), `join NODE`, `cut POD`, `mend POD` (the
cable of a pod), `address POD`, `process POD CONTAINER` (its process 1), `asked NAME` (the numbers of
DNS queries without and with an answer). Logs: DIR/logs/POD/CONTAINER, each line with the time.

Leaves out: resources, affinity, probes, hooks, container restarts other than of sidecars, and every volume not named above."""
import argparse, http.client, os, socket, socketserver, subprocess, sys, threading, time
from api import MERGE, Api, Watch
from names import Names
from pod import BRIDGE, Pod, stamp

PODS, NODES, LEASES = "/api/v1/pods", "/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def tolerated(taint, tolerations):
    return taint["effect"] == "PreferNoSchedule" or any(
        t.get("effect") in (None, "", taint["effect"]) and (t.get("key") == taint["key"] or not t.get("key"))
        and (t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", "")) for t in tolerations)


class Cluster:
    def __init__(self, options):
        self.api = Api(options.server, options.token, options.ca)
        self.dir, self.lock = options.dir, threading.Lock()
        self.layers = options.layer + ["/"]
        self.search = ":".join(options.path + ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
        self.addresses, self.pods_here, self.live_nodes, self.dns = 0, {}, set(), {}
        for name in ("pods", "logs"):
            os.makedirs(f"{self.dir}/{name}", exist_ok=True)
        for name in options.nodes.split(","):
            self.join(name)
        self.nodes = Watch(self.api, NODES, lambda event, item: None)
        self.slices = Watch(self.api, "/apis/discovery.k8s.io/v1/endpointslices", lambda event, item: None)
        self.names = Names(BRIDGE, lambda: list(self.slices.objects.values()), self.count)
        self.pods = Watch(self.api, PODS, self.changed)
        for every, work in ((0.1, self.schedule), (1, self.renew_leases)):
            threading.Thread(target=self.again, args=(every, work), daemon=True).start()

    def count(self, name, found):
        counts = self.dns.setdefault(name, [0, 0])
        counts[bool(found)] += 1

    def new_address(self):
        """An address that no pod has had, and the name of the cable to it."""
        with self.lock:
            self.addresses += 1
            return f"10.77.{1 + self.addresses // 250}.{1 + self.addresses % 250}", f"p{self.addresses}"

    def again(self, every, work):
        """Call work() periodically; a failed request does not end the thread."""
        while True:
            try:
                work()
            except (OSError, RuntimeError, ValueError, http.client.HTTPException) as error:
                print(f"{work.__name__}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            time.sleep(every)

    # --- nodes ---
    def ready(self):
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": stamp(), "lastTransitionTime": stamp()}]
        resources = {"cpu": "64", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "8"}
        status = {"conditions": conditions, "addresses": [{"type": "InternalIP", "address": BRIDGE}], "capacity": resources,
                  "allocatable": resources}
        return status

    def join(self, name):
        status = self.ready()
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        self.api.call("DELETE", f"{NODES}/{name}")
        self.api.must("POST", NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
        self.api.must("PATCH", f"{NODES}/{name}/status", {"status": status}, MERGE)
        self.live_nodes.add(name)
        self.renew(name)

    def renew(self, name):
        spec = {"holderIdentity": name, "leaseDurationSeconds": 10, "renewTime": stamp(fraction=True)}
        status, _ = self.api.call("PATCH", f"{LEASES}/{name}", {"spec": spec}, "application/merge-patch+json")
        if status == 404:
            self.api.call("POST", LEASES, {"metadata": {"name": name}, "spec": spec})

    def renew_leases(self):
        """Renew the leases of live nodes. A lease alone does not clear a NotReady condition, so the Ready status is also patched."""
        for name in list(self.live_nodes):
            self.renew(name)
            node = self.nodes.objects.get("/" + name, {"status": {}})
            found = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
            if found.get("Ready") in ("Unknown", "False"):
                print(f"{name} was late and is ready again", file=sys.stderr, flush=True)
                self.api.must("PATCH", f"{NODES}/{name}/status", {"status": self.ready()}, MERGE)

    # --- pods ---
    def schedule(self):
        for item in list(self.pods.objects.values()):
            spec, meta = item["spec"], item["metadata"]
            if "nodeName" in spec or "deletionTimestamp" in meta or spec.get("schedulingGates"):
                continue
            node = self.choose(spec)
            if node:
                self.api.call("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding",
                              {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"], "uid": meta["uid"]},
                               "target": {"kind": "Node", "name": node}})
                spec["nodeName"] = node  # until the watch says so: the next pod must see this one

    def choose(self, spec):
        """The node with the fewest pods of those that the pod may be on, or None."""
        load = {}
        for item in list(self.pods.objects.values()):
            if item["status"].get("phase") in ("Pending", "Running"):
                at = item["spec"].get("nodeName")
                load[at] = load.get(at, 0) + 1
        possible = []
        for node in list(self.nodes.objects.values()):
            name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
            if name not in self.live_nodes or node["spec"].get("unschedulable"):
                continue
            if not all(tolerated(t, spec.get("tolerations", [])) for t in node["spec"].get("taints", [])):
                continue
            if all(labels.get(k) == v for k, v in spec.get("nodeSelector", {}).items()):
                possible.append((load.get(name, 0), name))
        return min(possible)[1] if possible else None

    def changed(self, event, item):
        uid, node = item["metadata"]["uid"], item["spec"].get("nodeName")
        pod = self.pods_here.get(uid)
        if pod is None:
            if node in self.live_nodes and event != "DELETED" and item["status"].get("phase") in (None, "Pending"):
                self.pods_here[uid] = Pod(self, item)
            return
        pod.item = item
        if event == "DELETED":
            pod.gone = True
        pod.wake.set()

    def pod(self, name):
        """The running pod of a name, or whose name begins with it and a hyphen."""
        for pod in reversed(list(self.pods_here.values())):
            if not pod.gone and not pod.lost and (pod.name == name or pod.name.rsplit("-", 1)[0] == name):
                return pod
        raise KeyError(f"no pod {name}")

    # --- commands ---
    def command(self, word, *words):
        if word == "join":
            self.join(words[0])
        elif word == "vanish":
            self.live_nodes.discard(words[0])
            victims = [p for p in self.pods_here.values() if p.node == words[0] and p.is_alive()]
            for pod in victims:
                self.cable(pod, "down")
            for pod in victims:
                pod.lost = True
                pod.wake.set()
            for pod in victims:
                pod.join(10)
        elif word in ("cut", "mend"):
            self.cable(self.pod(words[0]), "down" if word == "cut" else "up")
        elif word == "address":
            return self.pod(words[0]).address
        elif word == "process":
            return str(next(c for c in self.pod(words[0]).main if c.name == words[1]).pid())
        elif word == "asked":
            return " ".join(map(str, self.dns.get(words[0], [0, 0])))
        else:
            raise KeyError(f"no command {word}")
        return "done"

    def cable(self, pod, state):
        if pod.cable:
            subprocess.run(["ip", "link", "set", pod.cable, state], check=False)


def serve(options):
    cluster = Cluster(options)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            try:
                answer = cluster.command(*self.rfile.readline().decode().split())
            except (KeyError, TypeError, IndexError, StopIteration, RuntimeError) as error:
                answer = f"error: {error}"
            self.wfile.write(answer.encode() + b"\n")

    server = socketserver.ThreadingUnixStreamServer(f"{options.dir}/socket", Handler)
    server.daemon_threads = True
    server.serve_forever()


def ask(where, words):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{where}/socket")
        client.sendall(" ".join(words).encode() + b"\n")
        answer = client.makefile().read().strip()
    print(answer)
    sys.exit(1 if answer.startswith("error") else 0)


def main():
    if sys.argv[1:2] == ["ask"]:
        ask(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["serve"])
    for name in ("server", "token", "ca", "dir", "nodes"):
        parser.add_argument("--" + name, required=True)
    for name in ("layer", "path"):
        parser.add_argument("--" + name, action="append", default=[])
    serve(parser.parse_args())


main()
