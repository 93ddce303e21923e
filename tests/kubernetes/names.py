"""names.py - the DNS of a cluster: answers names of pods of a headless service from the lists that the endpoint slice
controller writes, so a name exists when a real cluster would have it. Used by kubelet.py.

POD.SERVICE.NAMESPACE.svc.cluster.local and SERVICE.NAMESPACE.svc.cluster.local have addresses (IPv4); no other name exists."""
import socket, struct, threading

ZONE = ["svc", "cluster", "local"]


class Names(threading.Thread):
    def __init__(self, address, slices, asked=None):
        """slices(): all endpoint slices; asked(name, addresses) sees every question."""
        super().__init__(daemon=True)
        self.slices, self.asked = slices, asked
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        self.start()

    def run(self):
        while True:
            question, sender = self.socket.recvfrom(2048)
            try:
                self.socket.sendto(self.answer(question), sender)
            except (IndexError, struct.error, OSError):
                pass  # not a DNS query, or the client no longer waits

    def addresses(self, name):
        """The addresses of a name: all, or those of one pod."""
        labels = name.lower().split(".")
        if labels[-3:] != ZONE or len(labels) not in (5, 6):
            return []
        host, (service, namespace) = (labels[0] if len(labels) == 6 else None), labels[-5:-3]
        found = []
        for item in self.slices():
            meta = item["metadata"]
            if meta["namespace"] != namespace or meta.get("labels", {}).get("kubernetes.io/service-name") != service:
                continue
            for endpoint in item.get("endpoints") or []:
                ready = endpoint.get("conditions", {}).get("ready")
                if ready is not False and host in (None, endpoint.get("hostname")):
                    found += endpoint["addresses"]
        return found

    def answer(self, question):
        number, flags = struct.unpack(">HH", question[:4])
        at, labels = 12, []
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode("latin-1"))
            at += 1 + question[at]
        kind = struct.unpack(">H", question[at + 1 : at + 3])[0]
        end = at + 5
        found = self.addresses(".".join(labels))
        if self.asked and kind == 1:
            self.asked(".".join(labels), found)
        records = found if kind == 1 else []
        code = 0 if found else 3  # the name does not exist
        header = struct.pack(">HHHHHH", number, 0x8400 | flags & 0x0100 | 0x0080 | code, 1, len(records), 0, 0)
        body = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton(a) for a in records)
        return header + question[12:end] + body
