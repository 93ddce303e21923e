"""pod.py - a pod of a small cluster and its containers: kubelet.py makes one for every pod that is bound to one of its nodes, and
container.py is each of its containers.

Leaves out: probes, hooks, resources, restarts of containers other than sidecars, and volumes other than config map, secret,
projected, downward API, emptyDir and host path."""
import base64, json, os, re, shutil, signal, subprocess, sys, threading, time
from api import MERGE

HERE = os.path.dirname(os.path.abspath(__file__))
BRIDGE = "10.77.0.254"


def stamp(fraction=False):
    now = time.time()
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return text + (f".{int(now % 1 * 1e6):06d}Z" if fraction else "Z")


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


class NotYet(Exception):
    """What a container needs is not there: asked again later, as a kubelet does. Its text is the reason that is shown."""


class Container:
    """A container that was started: its process and exit code."""

    def __init__(self, pod, spec):
        self.pod, self.spec, self.name = pod, spec, spec["name"]
        self.started, self.ended, self.code, self.first = stamp(), None, None, None
        self.record = f"{pod.dir}/{self.name}.pid"
        if os.path.exists(self.record):
            os.unlink(self.record)
        description = f"{pod.dir}/{self.name}.json"
        with open(description, "w") as file:
            json.dump(pod.describe(spec, self.record), file)
        self.process = subprocess.Popen([sys.executable, f"{HERE}/container.py", description], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self.log, daemon=True).start()
        self.waiter = threading.Thread(target=self.wait, daemon=True)
        self.waiter.start()

    def log(self):
        with open(f"{self.pod.logs}/{self.name}", "ab") as file:
            for line in self.process.stdout:
                file.write(b"%.3f " % time.time() + line)
                file.flush()

    def wait(self):
        code = self.process.wait()
        self.code, self.ended = (code if code >= 0 else 128 - code), stamp()
        self.pod.wake.set()

    def pid(self):
        while self.code is None:
            try:
                with open(self.record) as file:
                    return int(file.read())
            except (OSError, ValueError):
                time.sleep(0.01)
        return None

    def kill(self, number):
        pid = self.pid()
        if pid and self.code is None:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self, until):
        """TERM, and KILL when time.monotonic() is `until`."""
        self.kill(signal.SIGTERM)
        self.waiter.join(max(0, until - time.monotonic()))
        if self.code is None:
            self.kill(signal.SIGKILL)
            self.waiter.join()

    def status(self):
        if self.code is None:
            state = {"running": {"startedAt": self.started}}
        else:
            reason = "Completed" if self.code == 0 else "Error"
            state = {"terminated": {"exitCode": self.code, "reason": reason, "startedAt": self.started, "finishedAt": self.ended}}
        return self.entry(self.spec, state, self.code is None)

    @staticmethod
    def entry(spec, state, ready):
        return {"name": spec["name"], "image": spec.get("image", ""), "imageID": "", "ready": ready, "started": ready,
                "restartCount": 0, "state": state}


class Pod(threading.Thread):
    """A pod that is bound to one of our nodes, from its binding to its end."""

    def __init__(self, cluster, item):
        super().__init__(daemon=True)
        self.cluster, self.api, self.item = cluster, cluster.api, item
        meta = item["metadata"]
        self.name, self.namespace, self.uid = meta["name"], meta["namespace"], meta["uid"]
        self.node = item["spec"]["nodeName"]
        self.dir, self.logs = f"{cluster.dir}/pods/{self.uid}", f"{cluster.dir}/logs/{self.name}"
        self.wake, self.gone, self.lost = threading.Event(), False, False
        self.address = self.holder = self.cable = None
        self.init, self.main, self.mounts, self.waiting = [], [], {}, None
        self.start()

    # --- reports to the API server ---
    def path(self):
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def report(self, phase):
        if self.gone or self.lost:
            return
        spec = self.item["spec"]
        ready = phase == "Running"
        conditions = {"PodScheduled": True, "PodReadyToStartContainers": self.holder is not None and phase in ("Pending", "Running"),
                      "Initialized": bool(self.main), "ContainersReady": ready, "Ready": ready}
        status = {
            "phase": phase, "hostIP": BRIDGE, "hostIPs": [{"ip": BRIDGE}], "startTime": self.began,
            "conditions": [{"type": kind, "status": str(value), "lastTransitionTime": stamp()} for kind, value in conditions.items()],
            "containerStatuses": self.statuses(spec["containers"], self.main, phase),
        }
        if spec.get("initContainers"):
            status["initContainerStatuses"] = self.statuses(spec["initContainers"], self.init, phase)
        if self.address:
            status |= {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        code, answer = self.api.call("PATCH", self.path() + "/status", {"metadata": {"uid": self.uid}, "status": status}, MERGE)
        if code not in (200, 404, 409):
            print(f"{self.name}: {code} {answer.get('message')}", file=sys.stderr, flush=True)

    def statuses(self, specs, started, phase):
        found = {c.name: c.status() for c in started}
        over = phase in ("Succeeded", "Failed")
        idle = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}} if over else \
            {"waiting": {"reason": self.waiting or "PodInitializing"}}
        return [found.get(s["name"]) or Container.entry(s, idle, False) for s in specs]

    def deleted(self):
        return self.gone or self.lost or self.item["metadata"].get("deletionTimestamp")

    def grace(self):
        seconds = self.item["metadata"].get("deletionGracePeriodSeconds")
        return self.item["spec"].get("terminationGracePeriodSeconds", 30) if seconds is None else seconds

    # --- its life ---
    def run(self):
        self.began = stamp()
        try:
            os.makedirs(self.logs, exist_ok=True)
            os.makedirs(self.dir)
            if not self.deleted():
                self.make_sandbox()
            phase = self.live()
            self.report(phase)
            self.remove_sandbox()
            while not self.deleted():
                self.pause()
            if not self.gone and not self.lost:
                self.api.call("DELETE", self.path(), {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})
        except Exception as error:  # a defect of the test bench must be seen
            print(f"{self.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            raise

    def pause(self, seconds=5):
        self.wake.wait(seconds)
        self.wake.clear()

    def live(self):
        """Run all containers; the phase at the end."""
        specs = self.item["spec"]
        for spec in specs.get("initContainers", []):
            container = self.launch(spec)
            if container is None:
                return self.end(False)
            self.init.append(container)
            if spec.get("restartPolicy") == "Always":
                threading.Thread(target=self.keep_alive, args=(container,), daemon=True).start()
                continue
            self.report("Pending")
            while container.code is None and not self.deleted():
                self.pause()
            if container.code != 0:
                return self.end(False)
        for spec in specs["containers"]:
            container = self.launch(spec)
            if container is None:
                return self.end(False)
            self.main.append(container)
        self.report("Running")
        while any(c.code is None for c in self.main) and not self.deleted():
            self.pause()
        return self.end(True)

    def end(self, begun):
        until = time.monotonic() + (0 if self.gone or self.lost else self.grace())
        self.ending = True
        for group in (self.main, list(reversed(self.init))):  # sidecars last, in reverse order
            if group is self.main:
                stops = [threading.Thread(target=c.stop, args=(until,)) for c in group if c.code is None]
                for stop in stops:
                    stop.start()
                for stop in stops:
                    stop.join()
            else:
                for container in group:
                    if container.code is None:
                        container.stop(until)
        return "Succeeded" if begun and self.main and all(c.code == 0 for c in self.main) else "Failed"

    def launch(self, spec):
        """A started container; None if the pod was deleted while something was waited for."""
        while not self.deleted():
            try:
                container = Container(self, spec)
                self.waiting = None
                return container
            except NotYet as reason:
                if self.waiting is None:
                    print(f"{self.name}: {reason}", file=sys.stderr, flush=True)
                self.waiting = "CreateContainerConfigError"
                self.report("Pending")
                self.pause(0.5)
        return None

    def keep_alive(self, container):
        """Restart a sidecar whenever it ends."""
        at = self.init.index(container)
        while True:
            container.waiter.join()
            time.sleep(0.2)
            if getattr(self, "ending", False) or self.deleted():
                return
            container = self.init[at] = Container(self, container.spec)

    # --- network ---
    def make_sandbox(self):
        self.address, self.cable = self.cluster.new_address()
        host = self.item["spec"].get("hostname") or self.name
        self.holder = subprocess.Popen(["unshare", "-n", "-u", "-i", "sh", "-c", 'hostname "$0" && ip link set lo up && echo up && exec sleep infinity',
                                        host], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if self.holder.stdout.readline() != b"up\n":
            raise RuntimeError("no network namespace")
        inside = f"/proc/{self.holder.pid}/ns/net"
        run("ip", "link", "add", self.cable, "type", "veth", "peer", "name", "eth0", "netns", inside)
        run("ip", "link", "set", self.cable, "master", "br0", "up")
        run("nsenter", "-n" + inside, "ip", "addr", "add", self.address + "/16", "dev", "eth0")
        run("nsenter", "-n" + inside, "ip", "link", "set", "eth0", "up")
        service = self.item["spec"].get("subdomain")
        zone = f"{self.namespace}.svc.cluster.local"
        long_name = f"{host}.{service}.{zone} " if service else ""
        for name, text in (("hosts", f"127.0.0.1 localhost\n{self.address} {long_name}{host}\n"), ("hostname", host + "\n"),
                           ("resolv.conf", f"search {zone} svc.cluster.local cluster.local\nnameserver {BRIDGE}\noptions ndots:5\n")):
            with open(f"{self.dir}/{name}", "w") as file:
                file.write(text)

    def remove_sandbox(self):
        if self.holder:
            self.holder.kill()
            self.holder.wait()
            subprocess.run(["ip", "link", "del", self.cable], stderr=subprocess.DEVNULL)
        for name in self.mounts.values():
            if os.path.ismount(name):
                run("umount", name)
        shutil.rmtree(self.dir, ignore_errors=True)

    # --- what a container is given ---
    def object(self, kind, name, optional):
        found = self.api.get(f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")
        if found is None and not optional:
            raise NotYet(f"{kind[:-1]} {name} not found")
        return found or {}

    def keys_of(self, kind, name, optional):
        """All keys of a config map or secret, as bytes."""
        found = self.object(kind, name, optional)
        if kind == "secrets":
            return {k: base64.b64decode(v) for k, v in (found.get("data") or {}).items()}
        return {k: v.encode() for k, v in (found.get("data") or {}).items()}

    def field(self, path):
        meta, spec = self.item["metadata"], self.item["spec"]
        matched = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
        if matched:
            return meta.get(matched[1], {}).get(matched[2], "")
        known = {"metadata.name": self.name, "metadata.namespace": self.namespace, "metadata.uid": self.uid, "spec.nodeName": self.node,
                 "spec.serviceAccountName": spec.get("serviceAccountName", ""), "status.podIP": self.address, "status.podIPs": self.address,
                 "status.hostIP": BRIDGE}
        return known[path]

    def variables(self, spec):
        values = {"PATH": self.cluster.search, "HOSTNAME": self.item["spec"].get("hostname") or self.name,
                  "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        for source in spec.get("envFrom", []):
            kind = "secrets" if "secretRef" in source else "configmaps"
            ref = source.get("secretRef") or source["configMapRef"]
            for key, value in self.keys_of(kind, ref["name"], ref.get("optional")).items():
                values[source.get("prefix", "") + key] = value.decode()
        for variable in spec.get("env", []):
            source = variable.get("valueFrom")
            if source is None:
                values[variable["name"]] = expand(variable.get("value", ""), values)
            elif "fieldRef" in source:
                values[variable["name"]] = self.field(source["fieldRef"]["fieldPath"])
            elif "resourceFieldRef" in source:
                kind, name = source["resourceFieldRef"]["resource"].split(".", 1)
                values[variable["name"]] = str(spec.get("resources", {}).get(kind, {}).get(name, 0))
            else:
                kind = "secrets" if "secretKeyRef" in source else "configmaps"
                ref = source.get("secretKeyRef") or source["configMapKeyRef"]
                keys = self.keys_of(kind, ref["name"], ref.get("optional"))
                if ref["key"] in keys:
                    values[variable["name"]] = keys[ref["key"]].decode()
                elif not ref.get("optional"):
                    raise NotYet(f"couldn't find key {ref['key']} in {kind[:-1]} {ref['name']}")
        return values

    def volume(self, name):
        """The folder that a volume of the pod is."""
        if name in self.mounts:
            return self.mounts[name]
        volume = next(v for v in self.item["spec"]["volumes"] if v["name"] == name)
        where = f"{self.dir}/volumes/{name}"
        if "hostPath" in volume:
            where = volume["hostPath"]["path"]
        elif "emptyDir" in volume:
            os.makedirs(where)
            if (volume["emptyDir"] or {}).get("medium") == "Memory":
                run("mount", "-t", "tmpfs", "-o", f"size={quantity(volume['emptyDir'].get('sizeLimit', '64Mi'))},mode=1777", "tmpfs", where)
            os.chmod(where, 0o1777)
        else:
            files = self.volume_files(volume)
            os.makedirs(where)
            for path, content in files.items():
                os.makedirs(os.path.dirname(f"{where}/{path}"), exist_ok=True)
                with open(f"{where}/{path}", "wb") as file:
                    file.write(content)
        self.mounts[name] = where
        return where

    def volume_files(self, volume):
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        files = {}
        for source in sources:
            if "downwardAPI" in source:
                for item in source["downwardAPI"]["items"]:
                    files[item["path"]] = self.field(item["fieldRef"]["fieldPath"]).encode()
                continue
            if "serviceAccountToken" in source:
                files[source["serviceAccountToken"]["path"]] = self.token(source["serviceAccountToken"])
                continue
            if "configMap" in source:
                kind, ref = "configmaps", source["configMap"]
            elif "secret" in source:
                kind, ref = "secrets", source["secret"]
            else:
                raise NotYet(f"volume {volume.get('name')} is of a kind that this double does not support")
            keys = self.keys_of(kind, ref.get("secretName") or ref["name"], ref.get("optional"))
            wanted = {i["key"]: i["path"] for i in ref.get("items", [])} or {k: k for k in keys}
            for key, path in wanted.items():
                if key not in keys:
                    raise NotYet(f"{kind[:-1]} has no key {key}")
                files[path] = keys[key]
        return files

    def token(self, source):
        account = self.item["spec"].get("serviceAccountName", "default")
        wanted = {"expirationSeconds": source.get("expirationSeconds", 3607), "audiences": [source["audience"]] if "audience" in source else [],
                  "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": self.name, "uid": self.uid}}
        answer = self.api.must("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token", {"spec": wanted})
        return answer["status"]["token"].encode()

    def describe(self, spec, record):
        """What container.py reads."""
        of_pod, own = self.item["spec"].get("securityContext", {}), spec.get("securityContext", {})
        context = of_pod | own
        variables = self.variables(spec)
        uid = context.get("runAsUser", 0)
        if context.get("runAsNonRoot") and uid == 0:
            raise NotYet("container has runAsNonRoot and image will run as root")
        mounts = []
        for m in spec.get("volumeMounts", []):
            source = self.volume(m["name"])
            read_only = m.get("readOnly", False)
            mounts.append({"source": f"{source}/{m['subPath']}" if "subPath" in m else source, "target": m["mountPath"], "read_only": read_only})
        command = spec.get("command") or ["levin"]
        root = f"{self.dir}/root-{spec['name']}-{time.monotonic_ns()}"
        os.makedirs(root)
        groups = of_pod.get("supplementalGroups", []) + [of_pod[k] for k in ["fsGroup"] if k in of_pod]
        return {
            "sandbox": self.holder.pid, "record": record, "pod": self.dir, "root": root, "layers": self.cluster.layers, "mounts": mounts,
            "shm_bytes": 64 << 20, "read_only": own.get("readOnlyRootFilesystem", False), "uid": uid,
            "gid": context.get("runAsGroup", 0), "groups": groups, "no_new_privileges": own.get("allowPrivilegeEscalation") is False,
            "directory": spec.get("workingDir", "/"), "environment": variables,
            "command": [expand(word, variables) for word in command + spec.get("args", [])],
        }


def expand(text, values):
    return re.sub(r"\$\$|\$\(([^)]*)\)", lambda m: "$" if m[0] == "$$" else values.get(m[1], m[0]), text)


def quantity(text):
    matched = re.fullmatch(r"([0-9.]+)([KMGT]i?|)", str(text))
    return int(float(matched[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}[matched[2]])
