"""run_digest.py RUN [...] - a line for each run: its name, a digest of the tensors of its last checkpoint, of adapters and
optimizer if it has adapters (names, types, shapes and bytes, whatever the files' layout), and the losses of its steps. Called by old_runs.sh."""
import hashlib
import json
import pathlib
import struct
import sys


def tensors(path):
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            yield name, t["dtype"], t["shape"], data[8 + n + begin:8 + n + end]


for run in map(pathlib.Path, sys.argv[1:]):
    last = run / "checkpoints" / "last"
    weights = list(last.glob("adapter/*.safetensors")) or list(last.glob("*.safetensors"))
    files = weights + list(last.glob("state/optimizer*.safetensors"))
    digest = hashlib.sha256()
    for name, dtype, shape, data in sorted(t for f in files for t in tensors(f)):
        digest.update(f"{name} {dtype} {shape} ".encode() + data)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [str(r[k]) for r in rows for k in ("loss", "val_loss") if k in r]
    print(run.name, digest.hexdigest(), *losses)
