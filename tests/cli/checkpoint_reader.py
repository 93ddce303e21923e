"""checkpoint_reader.py CHECKPOINT ... - reads checkpoints as docs/checkpoint-format.md describes them, and nothing else.

Verifies the manifest, every checksum, every header, and that parameters and moments belong together. Prints one JSON object
a checkpoint: step, numbers of tensors, the kind. Ends with 1 and a sentence at the first thing that is not as that page says.
"""
import json
import math
import os
import re
import struct
import sys

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SIZE = {"F32": 4, "BF16": 2}


def rotl(x, n):
    return ((x << n) | (x >> (64 - n))) & MASK


def mix(acc, lane):
    return rotl((acc + lane * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    n, at = len(data), 0
    if n >= 32:
        acc = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        for lanes in struct.iter_unpack("<4Q", data[:n // 32 * 32]):
            acc = [mix(a, lane) for a, lane in zip(acc, lanes)]
        at = n // 32 * 32
        h = sum(rotl(a, r) for a, r in zip(acc, (1, 7, 12, 18))) & MASK
        for a in acc:
            h = ((h ^ mix(0, a)) * P1 + P4) & MASK
    else:
        h = P5
    h = (h + n) & MASK
    while at + 8 <= n:
        h = (rotl(h ^ mix(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= n:
        h = (rotl(h ^ struct.unpack_from("<I", data, at)[0] * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return f"{h ^ h >> 32:016x}"


def want(condition, sentence):
    if not condition:
        sys.exit(sentence)


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def tensors(path, data):
    """name -> (dtype, shape, bytes); the header's length."""
    n = struct.unpack_from("<Q", data)[0]
    header, at, out = json.loads(data[8:8 + n]), 0, {}
    header.pop("__metadata__", None)
    want(n % 8 == 0, f"{path}: the header is not padded to 8 bytes")
    want(list(header) == sorted(header), f"{path}: tensors are not in the order of their names")
    for name, t in header.items():
        first, end = t["data_offsets"]
        want(first == at and end - first == SIZE[t["dtype"]] * math.prod(t["shape"]), f"{path}: '{name}' has gaps")
        out[name], at = (t["dtype"], t["shape"], data[8 + n + first:8 + n + end]), end
    want(8 + n + at == len(data), f"{path}: bytes are left over")
    return out, 8 + n


def manifest_line(text):
    """The manifest on one line, as its checksum covers it."""
    return re.sub(r"\n *", "", re.sub(r",\n *", ", ", text[text.index("{", 1):text.rindex("}", 0, text.rindex('"sum"')) + 1]))


def verify(folder):
    text = read(folder, "state/manifest.json").decode()
    whole = json.loads(text)
    m = whole["manifest"]
    want(m["version"] == 2, f"{folder}: a manifest of version {m['version']}")
    want(xxh64(manifest_line(text).encode()) == whole["sum"], f"{folder}: the manifest's own checksum is another one")
    named = {"state/manifest.json"}
    for f in m["files"]:
        data, path = read(folder, f["path"]), f["path"]
        named.add(path)
        want(len(data) == f["bytes"], f"{path}: {len(data)} bytes")
        want(xxh64(data[:f.get("header_bytes", len(data))]) == f["sum"], f"{path}: another checksum")
        if "tensors" not in f:
            continue
        found, start = tensors(path, data)
        want(start == f["header_bytes"], f"{path}: another header")
        want([t[0] for t in f["tensors"]] == list(found), f"{path}: other tensors")
        for name, size, checksum in f["tensors"]:
            want(len(found[name][2]) == size and xxh64(found[name][2]) == checksum, f"{path}: '{name}' is another")
    there = {os.path.relpath(os.path.join(d, f), folder) for d, _, files in os.walk(folder) for f in files}
    want(there == named, f"{folder}: the manifest names other files: {sorted(there ^ named)}")
    return m, named


def main():
    for folder in sys.argv[1:]:
        m, named = verify(folder)
        state = json.loads(read(folder, "state/state.json"))
        want(state["step"] == m["step"], f"{folder}: state.json is of step {state['step']}")
        want(len(state["data"]) == 16 and int(state["data"], 16) >= 0, f"{folder}: no fingerprint of the data")
        weights, adapters, moments = {}, {}, {}
        if "model.safetensors" in named:
            weights = tensors("model.safetensors", read(folder, "model.safetensors"))[0]
        if "model.safetensors.index.json" in named:
            index, bytes_of = json.loads(read(folder, "model.safetensors.index.json")), {}
            for name, path in index["weight_map"].items():
                if path not in bytes_of:
                    bytes_of[path] = tensors(path, read(folder, path))[0]
                want(name in bytes_of[path], f"{folder}: '{name}' is not in {path}, where the index has it")
                weights[name] = bytes_of[path][name]
            n = len(bytes_of)
            want(sorted(bytes_of) == [f"model-{i + 1:05}-of-{n:05}.safetensors" for i in range(n)], f"{folder}: files' names")
            want(sorted(weights) == sorted(t for f in bytes_of.values() for t in f), f"{folder}: a tensor is not in the index")
            want(index["metadata"]["total_size"] == sum(len(t[2]) for t in weights.values()), f"{folder}: total_size")
        if "adapter/adapter_model.safetensors" in named:
            base = json.loads(read(folder, "adapter/base.json"))
            config = json.loads(read(folder, "adapter/adapter_config.json"))
            want(base["base"] == config["base_model_name_or_path"] and len(base["sum"]) == 16, f"{folder}: the base")
            adapters = tensors("adapter", read(folder, "adapter/adapter_model.safetensors"))[0]
            adapters = {name.removeprefix("base_model.model."): t for name, t in adapters.items()}
        want(weights or adapters, f"{folder}: neither weights nor adapters")
        if "state/optimizer.safetensors" in named:
            moments = tensors("optimizer", read(folder, "state/optimizer.safetensors"))[0]
        for name, (_, shape, _) in moments.items():
            of = name.removeprefix("exp_avg_sq.").removeprefix("exp_avg.")
            theirs = adapters.get(of) or weights.get(of)
            want(theirs and sorted(theirs[1]) == sorted(shape), f"{folder}: moments of '{of}', which is not trained")
        files = sum(f.startswith("model-") for f in named)
        print(json.dumps({"step": m["step"], "files": files, "weights": len(weights), "adapters": len(adapters), "moments": len(moments)}))


if __name__ == "__main__":
    main()
