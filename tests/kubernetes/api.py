"""api.py - requests to a kube-apiserver, and copies of its lists that are kept up to date. Used by kubelet.py.

Leaves out everything that a real client has for large clusters: pages, rate limits, caches on disk."""
import http.client, json, ssl, sys, threading, time, urllib.parse

MERGE = "application/strategic-merge-patch+json"


class Api:
    """An API server at https://HOST:PORT, to which a token of an administrator is shown."""

    def __init__(self, server, token, ca):
        self.address = urllib.parse.urlparse(server).netloc
        self.token = token
        self.context = ssl.create_default_context(cafile=ca)
        self.local = threading.local()

    def connect(self, timeout):
        return http.client.HTTPSConnection(self.address, context=self.context, timeout=timeout)

    def headers(self, kind):
        return {"Authorization": "Bearer " + self.token, "Content-Type": kind, "Accept": "application/json"}

    def call(self, method, path, body=None, kind="application/json"):
        """(HTTP status, answer); each thread has its own connection, which is opened again once if it was closed."""
        text = None if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            try:
                if not getattr(self.local, "connection", None):
                    self.local.connection = self.connect(30)
                self.local.connection.request(method, path, text, self.headers(kind))
                answer = self.local.connection.getresponse()
                content = answer.read()
                return answer.status, json.loads(content) if content else {}
            except (OSError, http.client.HTTPException):
                self.local.connection = None
                if attempt == 2:
                    raise

    def get(self, path):
        """The object at a path, or None where there is none."""
        status, answer = self.call("GET", path)
        return answer if status == 200 else None

    def must(self, method, path, body=None, kind="application/json"):
        status, answer = self.call(method, path, body, kind)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer.get('message', answer)}")
        return answer


class Watch(threading.Thread):
    """All objects of a kind by "namespace/name", and changed(event, object) for each change, in this thread."""

    def __init__(self, api, path, changed):
        super().__init__(daemon=True)
        self.api, self.path, self.changed, self.objects = api, path, changed, {}
        self.start()

    def run(self):
        while True:
            try:
                self.list_and_watch()
            except (OSError, http.client.HTTPException, RuntimeError, ValueError) as error:
                print(f"watch {self.path}: {error}", file=sys.stderr, flush=True)
                time.sleep(0.5)

    def list_and_watch(self):
        listed = self.api.must("GET", self.path)
        now = {key_of(item): item for item in listed["items"]}
        for key in [k for k in self.objects if k not in now]:
            self.changed("DELETED", self.objects.pop(key))
        for key, item in now.items():
            self.objects[key] = item
            self.changed("MODIFIED", item)
        connection = self.api.connect(None)
        version = listed["metadata"]["resourceVersion"]
        connection.request("GET", f"{self.path}?watch=1&resourceVersion={version}", headers=self.api.headers("application/json"))
        answer = connection.getresponse()
        for line in answer:
            event = json.loads(line)
            if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
                break  # the version is too old: list again
            item = event["object"]
            if event["type"] == "DELETED":
                self.objects.pop(key_of(item), None)
            else:
                self.objects[key_of(item)] = item
            self.changed(event["type"], item)
        connection.close()


def key_of(item):
    return item["metadata"].get("namespace", "") + "/" + item["metadata"]["name"]
