# GGUF in several files, of which any is named, and GGUF in stores: train, generate, chat, evaluate, export; a missing part, and parts
# that contradict each other, are named.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
web_server
export HF_ENDPOINT=$web/hub HF_HOME=$PWD/hf
make_text
code 0 "$LEVIN" tokenizer train --input=text.txt --out=tokenizer --vocab-size=300
code 0 "$LEVIN" train --data.path=text.txt --data.kind=documents --data.tokenizer=tokenizer --model.kind=llama --model.n_layer=2 \
    --model.n_head=2 --model.n_embd=32 --model.intermediate_size=64 --model.block_size=128 --trainer.max_steps=2 --run_dir=run \
    --trainer.batch_size=4
code 0 "$LEVIN" export run m.gguf --type=q8_0

# as llama-gguf-split writes them: the first part has the metadata, and here no tensors
cat >split.py <<'P'
import struct, sys
data, at, parts = open("m.gguf", "rb").read(), 24, int(sys.argv[1])
n_tensors, n_values = struct.unpack_from("<QQ", data, 8)
sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
def number(form):
    global at
    at += struct.calcsize(form)
    return struct.unpack_from(form, data, at - struct.calcsize(form))[0]
def text():
    global at
    n = number("<Q")
    at += n
    return data[at - n : at]
def skip(kind):
    global at
    if kind == 8:
        text()
    elif kind == 9:
        kind, n = number("<I"), number("<Q")
        for _ in range(n):
            skip(kind)
    else:
        at += sizes[kind]
for _ in range(n_values):
    text()
    skip(number("<I"))
values, tensors = data[24:at], []
for _ in range(n_tensors):
    name = text()
    dims = [number("<Q") for _ in range(number("<I"))]
    tensors.append([name, dims, number("<I"), number("<Q")])
begin = (at + 31) // 32 * 32
ends = sorted(t[3] for t in tensors)[1:] + [len(data) - begin]
order = sorted(tensors, key=lambda t: t[3])
string = lambda s: struct.pack("<Q", len(s)) + s
for part in range(parts):
    mine = [(t, e) for i, (t, e) in enumerate(zip(order, ends)) if part and i % (parts - 1) == part - 1]
    more = [(b"split.no", 2, "<H", part), (b"split.count", 2, "<H", parts), (b"split.tensors.count", 5, "<i", n_tensors)]
    out = b"GGUF" + struct.pack("<IQQ", 3, len(mine), (0 if part else n_values) + 3) + (b"" if part else values)
    for key, kind, form, x in more:
        out += string(key) + struct.pack("<I", kind) + struct.pack(form, x)
    body = b""
    for (name, dims, kind, offset), end in mine:
        out += string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        out += struct.pack("<IQ", kind, len(body))
        body += data[begin + offset : begin + end]
        body += b"\0" * (-len(body) % 32)
    open("%s-%05d-of-%05d.gguf" % (sys.argv[2], part + 1, parts), "wb").write(out + b"\0" * (-len(out) % 32) + body)
P
mkdir parts
python3 split.py 3 parts/m
text_of() { # text_of MODEL: greedy text
    code 0 "$LEVIN" generate "$1" --prompt="the loss" --max-new-tokens=8 --temperature=0
    cat out
}
whole=$(text_of m.gguf)
for part in 1 2 3; do check [ "$(text_of parts/m-0000$part-of-00003.gguf)" = "$whole" ]; done
code 0 "$LEVIN" export m.gguf one
code 0 "$LEVIN" export parts/m-00003-of-00003.gguf several
same_file {one,several}/model.safetensors
same_file {one,several}/tokenizer.json

# --- in stores ---
mkdir -p web/hub/org/m
cp parts/* m.gguf web/hub/org/m
cp parts/* m.gguf web
for model in "$web/plain/m.gguf" "$web/plain/m-00002-of-00003.gguf" hf://org/m/m.gguf hf://org/m/m-00001-of-00003.gguf; do
    check [ "$(text_of "$model")" = "$whole" ]
done
# a repository or a folder with one GGUF file is that model; of several, one must be named
mkdir web/hub/org/{one,parts} folder
cp m.gguf web/hub/org/one
cp parts/* web/hub/org/parts
cp m.gguf folder
echo "a model" | tee web/hub/org/{one,parts}/README.md >folder/mmproj-m.gguf
for model in hf://org/one org/one hf://org/parts folder; do check [ "$(text_of "$model")" = "$whole" ]; done
for model in org/one hf://org/one; do check [ "$(HF_HUB_OFFLINE=1 text_of "$model")" = "$whole" ]; done
code 2 "$LEVIN" generate hf://org/m --prompt-ids=1
one_error
says "'hf://org/m' has 2 models as GGUF files (m-00001-of-00003.gguf, m.gguf): name one of them, such as hf://org/m/m.gguf" err

several=$web/plain/m-00001-of-00003.gguf
code 0 "$LEVIN" evaluate m.gguf --data.path=text.txt --data.kind=documents --trainer.batch_size=4 --json
loss=$(value loss)
code 0 "$LEVIN" evaluate "$several" --data.path=text.txt --data.kind=documents --trainer.batch_size=4 --json
check [ "$(value loss)" = "$loss" ]
code 0 "$LEVIN" export "$several" fetched
same_file {one,fetched}/model.safetensors
for model in m.gguf "$several"; do
    code 0 "$LEVIN" train --data.path=text.txt --data.kind=documents --model.init="$model" --lora.rank=2 --trainer.max_steps=2 \
        --trainer.batch_size=4 --run_dir=on-"${model##*/}"
done
same_file on-{m.gguf,m-00001-of-00003.gguf}/checkpoints/last/adapter/adapter_model.safetensors
code 0 "$LEVIN" generate on-m-00001-of-00003.gguf --prompt="the loss" --max-new-tokens=4 --lora.base="$several"
echo hello >line.txt
code 0 "$LEVIN" chat "$several" --template=chatml --max-new-tokens=4 <line.txt
if command -v versitygw >/dev/null; then
    s3_server
    cp parts/* s3root/bucket
    check [ "$(text_of s3://bucket/m-00003-of-00003.gguf)" = "$whole" ]
fi

# --- refused ---
refused() { # refused MODEL TEXT
    code 1 "$LEVIN" generate "$1" --prompt-ids=1
    one_error
    says "$2" err
}
rm web/m-00003-of-00003.gguf
rm -r cache
refused "$several" "m-00003-of-00003.gguf' does not exist"
mv parts/m-00002-of-00003.gguf other
refused parts/m-00003-of-00003.gguf "'parts/m-00002-of-00003.gguf' is missing: the model of 'parts/m-00001-of-00003.gguf' has 3 parts"
cp parts/m-00003-of-00003.gguf parts/m-00002-of-00003.gguf
refused parts/m-00001-of-00003.gguf "'parts/m-00002-of-00003.gguf' describes itself as part 3 of 3 (split.no, split.count); expected part 2 of 3"
python3 split.py 4 four
cp other parts/m-00002-of-00003.gguf
cp four-00002-of-00004.gguf parts/m-00002-of-00003.gguf
refused parts/m-00001-of-00003.gguf "describes itself as part 2 of 4"
cp other alone.gguf
refused alone.gguf "'alone.gguf' is one of 3 parts of a model (split.count), which are found by their names: name it ...-00002-of-00003.gguf"
python3 - <<'P'
data = open("other", "rb").read()
at = data.index(b"split.tensors.count") + len("split.tensors.count") + 4
first = open("parts/m-00001-of-00003.gguf", "rb").read()
at = first.index(b"split.tensors.count") + len("split.tensors.count") + 4
open("parts/m-00001-of-00003.gguf", "wb").write(first[:at] + b"\x63" + first[at + 1 :])
P
cp other parts/m-00002-of-00003.gguf
refused parts/m-00002-of-00003.gguf "announces 99 tensors in all parts (split.tensors.count), and they have 21"
rm parts/m-00001-of-00003.gguf
refused parts/m-00002-of-00003.gguf "'parts/m-00001-of-00003.gguf' is missing"
