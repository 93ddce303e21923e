#!/usr/bin/env python3
"""make_parquet.py - writes Parquet files of all settings that levin reads, and their rows, with pyarrow.

    make_parquet.py                      writes tests/golden/parquet: small files NAME.parquet, and rows.jsonl for all of them;
                                         numbers-*.parquet, with columns of numbers, and numbers.jsonl; classes; nulls;
                                         conversations
    make_parquet.py N SEED OUT           N files of random settings and sizes: OUT/I.parquet, OUT/I.jsonl

The rows contain the columns that are read: texts and numbers, also in lists and structs. Needs pyarrow.
"""
import json
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
WORDS = "the of na\u00efve \u6771\u4eac model step loss token \U0001f600 and a or quick\nline tab\t quote\" back\\ nul\0 x".split(" ")
SCHEMA = pa.schema([
    ("id", pa.int64()), ("text", pa.string()),
    ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("weight", pa.float64())]))),
    ("tags", pa.list_(pa.list_(pa.string()))), ("map", pa.map_(pa.string(), pa.string())),
    ("s", pa.struct([("a", pa.struct([("b", pa.string())])), ("n", pa.int32())]))])


def words(r, most):
    return " ".join(r.choice(WORDS) for _ in range(r.randrange(most + 1)))


def texts(r, style, n):
    if style == "few": return [r.choice(["alpha beta", "gamma", "", "delta " * 20]) for _ in range(n)]
    if style == "sorted": return [f"http://example.org/{i:06}/" + words(r, 2) for i in range(n)]
    if style == "null": return [None if r.random() < 0.4 else words(r, 8) for _ in range(n)]
    if style == "long": return [words(r, 9000) for _ in range(n)]
    return [words(r, 12) for _ in range(n)]


def table(r, style, n):
    rare = lambda value: None if r.random() < 0.1 else value
    rows = [{"id": i, "text": text, "map": [("k", "v")],
             "messages": rare([{"role": r.choice(["user", "assistant"]), "content": r.choice([None, "", words(r, 4)]), "weight": 1.5}
                               for _ in range(r.randrange(4))]),
             "tags": rare([rare([r.choice([None, "x", "y y"]) for _ in range(r.randrange(3))]) for _ in range(r.randrange(3))]),
             "s": r.choice([None, {"a": None, "n": 1}, {"a": {"b": None}, "n": 2}, {"a": {"b": "deep"}, "n": None}])}
            for i, text in enumerate(texts(r, style, n))]
    return rows, pa.Table.from_pylist(rows, schema=SCHEMA)


def line(row):
    seen = {key: row[key] for key in ("id", "text", "messages", "tags", "s")}
    return json.dumps(seen, ensure_ascii=False, separators=(",", ":"))


def write(path, r, style, n, encoding, **settings):
    rows, t = table(r, style, n)
    if encoding: settings |= {"use_dictionary": False, "column_encoding": {"text": encoding}}
    pq.write_table(t, path, store_schema=False, **settings)
    return [line(row) for row in rows]


def golden():
    out = ROOT / "tests/golden/parquet"
    out.mkdir(exist_ok=True)
    r = random.Random(7)
    with open(out / "rows.jsonl", "w") as f:
        for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
            for encoding in (None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
                if codec in ("gzip", "lz4") and encoding in ("PLAIN", "DELTA_BYTE_ARRAY"): continue
                name = f"{codec}-{encoding or 'dictionary'}".lower()
                v2 = r.random() < 0.5
                style = {"DELTA_BYTE_ARRAY": "sorted", None: "few"}.get(encoding, "null")
                lines = write(out / f"{name}.parquet", r, style, 24, encoding, compression=codec, row_group_size=15,
                              data_page_size=100, write_batch_size=6, data_page_version="2.0" if v2 else "1.0",
                              write_page_checksum=v2, write_statistics=False)
                for text in lines: f.write(f"{name}.parquet\t{text}\n")


NUMBERS = pa.schema([
    ("text", pa.string()), ("label", pa.int64()), ("small", pa.uint8()), ("large", pa.uint64()), ("low", pa.int32()),
    ("score", pa.float32()), ("mean", pa.float64()), ("good", pa.bool_()), ("when", pa.timestamp("ms")),
    ("list", pa.list_(pa.int64()))])


def numbers():
    """Tables with labels, of both versions of pages; times and lists of numbers are not read."""
    out = ROOT / "tests/golden/parquet"
    r = random.Random(8)
    some = lambda value: None if r.random() < 0.2 else value
    rows = [{"text": words(r, 5), "label": some(r.randrange(-3, 4)), "small": some(r.randrange(256)), "large": some(2**64 - 1 - i),
             "low": some(-2**31 + i), "score": some(r.choice([0.1, -2.5, float("nan")])), "mean": some(i / 3), "good": some(i % 3 == 1),
             "when": 0, "list": [1, 2]} for i in range(40)]
    t = pa.Table.from_pylist(rows, schema=NUMBERS)
    whole = ["label", "small", "large", "low"]
    for name, settings in {"dictionary": {}, "plain": {"use_dictionary": False},
                           "delta": {"use_dictionary": False, "data_page_version": "2.0",
                                     "column_encoding": {k: "DELTA_BINARY_PACKED" for k in whole} | {"good": "RLE"}}}.items():
        pq.write_table(t, out / f"numbers-{name}.parquet", row_group_size=25, data_page_size=40, write_batch_size=6,
                       write_statistics=False, store_schema=False, **settings)
    with open(out / "numbers.jsonl", "w") as f:
        for row in t.to_pylist():
            seen = {k: None if isinstance(v, float) and v != v else v for k, v in row.items() if k not in ("when", "list")}
            f.write(json.dumps(seen, ensure_ascii=False, separators=(",", ":")) + "\n")


def classes():
    """Numbers of classes, whose names are in the metadata as the package `datasets` writes them; a decimal is not read."""
    names = {"info": {"features": {"text": {"dtype": "string", "_type": "Value"},
                                   "label": {"names": ["maybe", "right", "wrong"], "_type": "ClassLabel"}}}}
    t = pa.table({"text": [f"answer {i % 7}" for i in range(24)], "label": [i % 7 % 3 for i in range(24)],
                  "price": pa.array([1] * 24, pa.decimal128(5, 2))}).replace_schema_metadata({"huggingface": json.dumps(names)})
    pq.write_table(t, ROOT / "tests/golden/parquet/classes.parquet", write_statistics=False)


def nulls():
    """A shard whose texts are all null: pandas gives such a column no type of its own."""
    t = pa.table({"text": pa.nulls(4), "id": list(range(4))})
    pq.write_table(t, ROOT / "tests/golden/parquet/nulls.parquet", write_statistics=False, store_schema=False)


def conversations():
    """Answers that are not trained, an argument of the template, and tool calls with numbers; token ids with labels."""
    out = ROOT / "tests/golden/parquet"
    turn = lambda role, content, **more: {"role": role, "content": content} | more
    calls = [{"function": {"name": "sum", "arguments": {"a": 2, "b": 3.0, "exact": True, "terms": [[1], [], [2, 3]]}}}]
    rows = [{"messages": [turn("user", f"What is {i}?"), turn("assistant", "A number.", train=i % 2 == 0),
                          turn("user", "And then?"), turn("assistant", f"Then {i + 1}.", weight=i % 3 % 2, tool_calls=calls if i == 4 else None)],
             "chat_template_kwargs": {"enable_thinking": i % 2 == 1, "depth": i}} for i in range(12)]
    call = pa.struct([("function", pa.struct([("name", pa.string()), ("arguments", pa.struct([
        ("a", pa.int32()), ("b", pa.float64()), ("exact", pa.bool_()), ("terms", pa.list_(pa.list_(pa.int64())))]))]))])
    message = pa.struct([("train", pa.bool_()), ("role", pa.string()), ("content", pa.string()), ("weight", pa.int64()),
                         ("tool_calls", pa.list_(call))])
    chat = pa.schema([("messages", pa.list_(message)),
                      ("chat_template_kwargs", pa.struct([("enable_thinking", pa.bool_()), ("depth", pa.int64())]))])
    ids = [{"input_ids": [5, 6, 7 + i, 8], "labels": [-100, -100, 7 + i, 8]} for i in range(12)]
    for name, rows, schema in (("chat", rows, chat), ("ids", ids, None)):
        t = pa.Table.from_pylist(rows, schema=schema)
        pq.write_table(t, out / f"{name}.parquet", row_group_size=8, write_statistics=False, store_schema=False)
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in t.to_pylist()))


def columns_of_json():
    """Messages and tools in columns of JSON, as the package `datasets` writes members of many types; tools with a date."""
    out = ROOT / "tests/golden/parquet"
    tool = lambda name, **more: {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": more}}}
    rows = [{"messages": [{"role": "user", "content": f"What is\n\"{i}\"?"},
                          {"role": "assistant", "content": "A sum.", "tool_calls": [{"function": {"name": "f", "arguments": {"abc"[i % 3]: i}}}]}],
             "tools": [tool("f", **{"abc"[i % 3]: {"type": "integer"}})] if i % 2 else None} for i in range(12)]
    texts = pa.array([json.dumps(m, indent=i % 2 or None) for i, row in enumerate(rows) for m in row["messages"]])
    as_json = lambda array: pa.ExtensionArray.from_storage(pa.json_(), array)
    t = pa.table({"messages": pa.ListArray.from_arrays(list(range(0, 26, 2)), as_json(texts)),
                  "tools": as_json(pa.array([row["tools"] and json.dumps(row["tools"]) for row in rows]))})
    pq.write_table(t, out / "json.parquet", row_group_size=8, write_statistics=False, store_schema=False)
    (out / "json.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    day = pa.array([[{"role": "user", "content": "x", "at": 5, "none": None}]], pa.list_(pa.struct([
        ("role", pa.string()), ("content", pa.string()), ("at", pa.timestamp("ms")), ("none", pa.null())])))
    pq.write_table(pa.table({"messages": day, "tools": pa.array([[{"name": "f", "since": 3}]], pa.list_(pa.struct([
        ("name", pa.string()), ("since", pa.date32())])))}), out / "dates.parquet", write_statistics=False, store_schema=False)


def wide(n, seed, out):
    out.mkdir(parents=True, exist_ok=True)
    r = random.Random(seed)
    for i in range(n):
        style = ["few", "sorted", "null", "long", "plain"][i % 5]
        rows = r.choice([1, 20, 60] if style == "long" else [0, 1, 7, 300, 3000])
        encoding = r.choice([None, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
        settings = {"compression": r.choice(["none", "snappy", "gzip", "zstd", "lz4"]), "data_page_version": r.choice(["1.0", "2.0"]),
                    "row_group_size": r.choice([50, 1000, 100000]), "data_page_size": r.choice([200, 4096, 1 << 20]),
                    "write_page_checksum": r.random() < 0.5, "version": r.choice(["1.0", "2.4", "2.6"]),
                    "write_statistics": r.random() < 0.5, "dictionary_pagesize_limit": r.choice([300, 1 << 20])}
        lines = write(out / f"{i}.parquet", r, style, rows, encoding, **settings)
        (out / f"{i}.jsonl").write_text("".join(text + "\n" for text in lines))


if len(sys.argv) == 4:
    wide(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
else:
    golden()
    numbers()
    classes()
    nulls()
    conversations()
    columns_of_json()
