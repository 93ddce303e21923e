# levin generate: greedy decoding is argmax, and sampling follows the distribution, compared with the logits of whole
# evaluations, before and beyond the context; prompts as text, ids and files. The vocabulary has eight letters, since
# evaluate --logits shows the first eight.
. "$LEVIN_SOURCE/tests/cli/common.bash"
cat >text.py <<'P'
import random
random.seed(1)
at, out = 0, []
for _ in range(40000):
    at = (3 * at + random.choices((1, 2, 4, 7), (6, 3, 2, 1))[0]) % 8
    out.append("abcdefgh"[at])
open("text.txt", "w").write("".join(out))
P
python3 text.py
code 0 train run --model.n_layer=2 --model.n_embd=32 --model.block_size=48 --optimizer.lr=1e-2 --trainer.batch_size=16 \
    --trainer.max_steps=60 --trainer.val_check_interval=0 --checkpoint.every_n_steps=0
# A model with large weights, whose output depends on all previous tokens.
wild() { # wild RUN MODEL [STD]
    cp -rL $1/checkpoints/last $2
    rm -r $2/state $2/tokenizer*.json
    python3 - $2 ${3-0.6} <<'P'
import array, random, struct, sys
random.seed(4)
with open(sys.argv[1] + "/model.safetensors", "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    f.seek(8 + n)
    values = array.array("f", f.read())
    f.seek(8 + n)
    array.array("f", [random.gauss(0, float(sys.argv[2])) for _ in values]).tofile(f)
P
}
wild run wild
code 0 train longer --model.n_layer=2 --model.n_embd=32 --model.block_size=640 --trainer.batch_size=1 --trainer.max_steps=1 \
    --trainer.limit_val_batches=1
wild longer wild-longer
generate() { code 0 "$LEVIN" generate run "$@" --json; }

cat >check.py <<'P'
import json, math, os, struct, subprocess, sys
LEVIN, T = os.environ["LEVIN"], 48

def run(*args):
    p = subprocess.run([LEVIN, *args, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert p.returncode == 0, (args, p.stderr.decode())
    return json.loads(p.stdout)

MODEL = "wild"

def generate(prompt, **flags):
    flags = ["--%s=%s" % (k if "." in k else k.replace("_", "-"), v) for k, v in flags.items()]
    return run("generate", MODEL, "--prompt-ids=" + ",".join(map(str, prompt)), *flags)["samples"]

def logits(windows):
    """Of the last position of each window, all of one length: each computed whole, without a cache."""
    tokens = [i for w in windows for i in w] + [0]
    with open("windows.bin", "wb") as f:
        f.write(struct.pack("<%dH" % len(tokens), *tokens))
    found = run("evaluate", MODEL, "--data.kind=tokens", "--data.path=windows.bin", "--trainer.batch_size=7",
                "--model.block_size=%d" % len(windows[0]), "--logits")["logits"]
    assert len(found) == len(windows)
    return found

def greedy(prompt, n):
    made = generate(prompt, max_new_tokens=n, temperature=0)[0]["ids"]
    assert len(made) == n
    seen = prompt + made
    by_length = {}
    for i in range(len(prompt), len(seen)):
        window = seen[max(0, i - T):i]
        by_length.setdefault(len(window), []).append((window, seen[i]))
    for length, list_ in by_length.items():
        for l, (window, token) in zip(logits([w for w, _ in list_]), list_):
            assert l[token] > max(l) - 1e-3, (length, window, token, l)
    return made

prompt = [(i * i + i // 3) % 8 for i in range(200)]
made = greedy(prompt[:1], 8)
greedy(prompt[:31], 4)              # over the chunk of a prompt
greedy(prompt[:46], 150)            # over the end of the context and far past it
greedy(prompt[:48], 3)
greedy(prompt, 5)                   # a prompt that is longer than the context
made = greedy(prompt[:20], 120)
assert len(set(zip(made, made[1:], made[2:]))) > 20, (len(set(zip(made, made[1:], made[2:]))), made)   # no simple loop: previous tokens matter
# a shorter window, as model.block_size says, slides earlier
T = 16
short = generate(prompt[:10], max_new_tokens=60, temperature=0, **{"model.block_size": 16})[0]["ids"]
for l, token in zip(logits([(prompt[:10] + short)[i - 16:i] for i in range(16, 70)]), short[6:]):
    assert l[token] > max(l) - 1e-3
# prompts that are run in long chunks
T, MODEL = 640, "wild-longer"
page = [(i * i + i // 3 + i // 50) % 8 for i in range(800)]
for n in 128, 129, 256, 258, 500, 600, 639, 800:
    greedy(page[:n], 3)
T, MODEL = 48, "run"
greedy(prompt[:40], 20)

def close(found, want, n):
    for f, p in zip(found, want):
        assert abs(f / n - p) <= 5 * math.sqrt(p * (1 - p) / n) + 1e-9, (found, [p * n for p in want])

def draw(n, **flags):
    found = [0] * 8
    for sample in generate(prompt[:40], max_new_tokens=1, num_samples=n, **flags):
        found[sample["ids"][0]] += 1
    return found

def shares(l, temperature=1.0, keep=range(8)):
    e = [math.exp((x - max(l)) / temperature) if i in keep else 0.0 for i, x in enumerate(l)]
    return [x / sum(e) for x in e]

l = logits([prompt[:40]])[0]
order = sorted(range(8), key=lambda i: -l[i])
p = shares(l)
assert max(p) < 0.9, p              # otherwise the test shows nothing
n = 3000
close(draw(n), p, n)
close(draw(n, temperature=0.5), shares(l, 0.5), n)
close(draw(n, temperature=1, top_k=3), shares(l, keep=order[:3]), n)
assert draw(200, temperature=1, top_k=1)[order[0]] == 200
assert sum(x > 0 for x in draw(n, temperature=1, top_k=3)) == 3
kept, total = [], 0.0
while total < 0.6:
    total += p[order[len(kept)]]
    kept.append(order[len(kept)])
close(draw(n, top_p=0.6), shares(l, keep=kept), n)
assert draw(100, top_p=1) == draw(100) == draw(100, top_p=0, top_k=0)

# the same seed gives the same text, another seed another text; samples of one call differ
one = generate(prompt[:5], max_new_tokens=60, seed=1, top_k=5, num_samples=3)
assert one == generate(prompt[:5], max_new_tokens=60, seed=1, top_k=5, num_samples=3)
assert one[0] != generate(prompt[:5], max_new_tokens=60, seed=2, top_k=5)[0]
assert one[0] == generate(prompt[:5], max_new_tokens=60, seed=1, top_k=5)[0]
assert one[0] != one[1] != one[2] != one[0]
for s in one:
    assert s["text"] == "".join("abcdefgh"[i] for i in s["ids"])
# the same text with any number of threads
assert one == generate(prompt[:5], max_new_tokens=60, seed=1, top_k=5, num_samples=3, **{"trainer.threads": 3})
P
OMP_NUM_THREADS=1 python3 check.py # thousands of tiny steps

# --- prompts ---
generate --prompt=abca --max-new-tokens=9 --temperature=0
cp out text.out
generate --prompt-ids=0,1,2,0 --max-new-tokens=9 --temperature=0
same_file out text.out
printf 'abca' >prompt.txt
generate --prompt=FILE:prompt.txt --max-new-tokens=9 --temperature=0
same_file out text.out
code 0 "$LEVIN" generate run --prompt=abca --max-new-tokens=9 --temperature=0
check [ "$(cat out)" = "abca$(python3 -c 'import json; print(json.load(open("text.out"))["samples"][0]["text"])')" ]
generate --prompt=a --max-new-tokens=0
json 'd["samples"] == [{"ids": [], "text": ""}]'
wrong() { # wrong SENTENCE FLAGS: refused with this sentence
    local sentence=$1
    shift
    "$LEVIN" generate run "$@" >out 2>err && fail "generate $*: accepted"
    one_error
    says "$sentence" err
}
wrong "'Z'" --prompt=abZc
says "the prompt" err
wrong "empty" --prompt=
wrong "nowhere.txt" --prompt=FILE:nowhere.txt
printf 'ab\xc3' >prompt.txt
wrong "prompt.txt" --prompt=FILE:prompt.txt
wrong "is 8, beyond the vocabulary of 8" --prompt-ids=1,8
wrong "--prompt-ids must be whole numbers" --prompt-ids=1,,2
wrong "use only one of them" --prompt=a --prompt-ids=1
wrong "--temperature" --prompt=a --temperature=-1
wrong "model.block_size is 49" --prompt=a --model.block_size=49
code 2 "$LEVIN" generate nowhere --prompt=a
one_error
cp run/checkpoints/last/tokenizer*.json wild
# --- rotary positions: the cache gives the results of whole windows, also for prompts in chunks; a text ends with the positions ---
cat >rotary.py <<'P'
import json, os, struct, subprocess, sys
run = lambda *args: json.loads(subprocess.check_output([os.environ["LEVIN"], *args, "--json"]))
T, model = 48, sys.argv[1]
for n in (1, 20, 33, 40):
    prompt = [(i * i + i // 3) % 8 for i in range(n)]
    made = run("generate", model, "--temperature=0", "--prompt-ids=" + ",".join(map(str, prompt)))["samples"][0]["ids"]
    assert len(made) == T - n + 1 and (n > 20 or len(set(made)) > 1), made # as many as fit
    seen = prompt + made
    for length in {n, n + 1, (n + T) // 2, T}:
        open("window.bin", "wb").write(struct.pack("<%dH" % (length + 1), *(seen + [0])[:length + 1]))
        l = run("evaluate", model, "--data.kind=tokens", "--data.path=window.bin", "--model.block_size=%d" % length,
                "--logits")["logits"][0]
        assert l[seen[length]] > max(l) - 1e-3, (length, seen, l)
P
# Prompts of many lengths run as one batch, and each has the result that it has alone.
cat >together.py <<'P'
import json, os, random, subprocess, sys
model, sliding, flags = sys.argv[1], sys.argv[2] == "slides", sys.argv[3:]
random.seed(5)
texts = ["".join(random.choices("abcdefgh", k=n)) for n in (1, 33, 5, 40, 2, 32, 17, 31, 64 if sliding else 9, 12, 3, 36)]
def run(texts, *more):
    with open("some.txt", "w") as f:
        f.write("\n".join(texts))
    most = ("--max-new-tokens=30",) if sliding else ()
    return [s["ids"] for s in json.loads(subprocess.check_output(
        [os.environ["LEVIN"], "generate", model, "--prompts=some.txt", "--json", *most, *flags, *more]))["samples"]]
together = run(texts, "--temperature=0")
assert len({tuple(ids) for ids in together}) == len(texts), together
assert [len(ids) for ids in together] == [30 if sliding else 49 - len(t) for t in texts]
for text, ids in list(zip(texts, together))[:9]:
    assert run([text], "--temperature=0") == [ids], text
drawn = run(texts, "--seed=3")
assert drawn != together
for n in (1, 2, 7):
    assert run(texts[:n], "--seed=3") == drawn[:n], n
# an early end frees a row for the next prompt
stopped = run(texts, "--seed=3", "--stop=e")
assert stopped == [ids[:ids.index(4) + 1] if 4 in ids else ids for ids in drawn], (stopped, drawn)
P
for precision in 32-true bf16-true; do
    OMP_NUM_THREADS=1 python3 together.py wild slides --trainer.precision=$precision 2>err || fail "gpt2 in $precision: $(cat err)"
done
for kind in 'neox --model.rotary_pct=0.5' 'llama --model.n_kv_head=2 --model.tied=true' 'qwen3 --model.n_kv_head=1' \
    'nanochat --model.n_kv_head=2'; do
    rm -rf turned large
    code 0 train turned --model.kind=$kind --model.n_layer=2 --model.n_head=4 --model.n_embd=32 --model.block_size=48 \
        --trainer.max_steps=4 --trainer.val_check_interval=0 --checkpoint.every_n_steps=0
    [[ $kind = nanochat* ]] && wild turned large 0.2 || wild turned large
    python3 rotary.py large 2>err || fail "$kind: $(cat err)"
    cp turned/checkpoints/last/tokenizer*.json large
    [[ $kind = llama* ]] && precision=bf16-true || precision=32-true
    OMP_NUM_THREADS=1 python3 together.py large ends --trainer.precision=$precision 2>err || fail "$kind, together: $(cat err)"
    code 2 "$LEVIN" generate large --prompt-ids=1,2,3 --max-new-tokens=47
    one_error
    says "a prompt of 3 tokens and 47 new ones do not fit into the model's 48 positions; at most 46 can follow it" err
    check [ ! -s out ]
done

# --- prompts from a file ---
printf 'abca\r\nbad\ncafe' >prompts.txt
generate --prompts=prompts.txt --num-samples=2 --max-new-tokens=9 --temperature=0
cp out all.out
json '[s["prompt"] for s in d["samples"]] == [0, 0, 1, 1, 2, 2]'
generate --prompt=bad --max-new-tokens=9 --temperature=0
python3 -c 'import json; read = lambda n: json.load(open(n))["samples"]
assert read("all.out")[2]["ids"] == read("all.out")[3]["ids"] == read("out")[0]["ids"]'
# In text output a program finds each sample by its length, because a sample may contain any line, also one like a header.
code 0 "$LEVIN" generate run --prompts=prompts.txt --num-samples=2 --max-new-tokens=9 --temperature=0
python3 -c 'import json, re
text, samples = open("out", "rb").read(), json.load(open("all.out"))["samples"]
for i, s in enumerate(samples):
    head = re.match(rb"--- prompt (\d+), sample (\d+), (\d+) bytes ---\n", text)
    assert (int(head[1]), int(head[2])) == (i // 2 + 1, i % 2 + 1), head
    end = head.end() + int(head[3])
    assert text[head.end():end].decode().endswith(s["text"]) and text[end:end + 1] == b"\n", (i, s)
    text = text[end + 1:]
assert not text'
printf 'abca\n\nbad\n' >prompts.txt
wrong "line 2 of 'prompts.txt' is empty" --prompts=prompts.txt
: >prompts.txt
wrong "'prompts.txt' is empty" --prompts=prompts.txt
wrong "nowhere.txt" --prompts=nowhere.txt
wrong "use only one of them" --prompts=prompts.txt --prompt=a
# a byte order mark at the beginning of a file is not part of a prompt
printf '\xef\xbb\xbfabca\nbad\n' >prompts.txt
generate --prompts=prompts.txt --max-new-tokens=9 --temperature=0
json '[s["prompt"] for s in d["samples"]] == [0, 1]'
printf '\xef\xbb\xbfbad' >prompt.txt
generate --prompt=FILE:prompt.txt --max-new-tokens=9 --temperature=0
python3 -c 'import json; read = lambda n: json.load(open(n))["samples"]
assert read("all.out")[2]["ids"] == read("out")[0]["ids"]'
# If a prompt is longer than the context, its beginning is cut off with a warning; other models refuse such a prompt.
generate --prompt=$(printf 'abcdef%.0s' $(seq 10)) --max-new-tokens=1 --temperature=0
says "a prompt has 60 tokens, and the model's context has 48: its beginning is cut off" err
# a prompt that begins with the token that the tokenizer adds before it
golden=$LEVIN_SOURCE/tests/golden
cp -r "$golden/llama" twice
cp "$golden/tokenizers/tiny-llama2/tokenizer.json" twice
code 2 "$LEVIN" generate twice --prompt='<s>a' --max-new-tokens=1 # the model has fewer rows than the tokenizer tokens
says "the prompt begins with <s>, which the tokenizer also adds" err
code 2 "$LEVIN" generate twice --prompt='a' --max-new-tokens=1
silent_about warning err
# it ends without a crash when the reader of its output closes the pipe
{ "$LEVIN" generate run --prompt=a --max-new-tokens=100000 2>err || echo $? >closed; } | head -c 10 >/dev/null
check [ "$(cat closed)" = 141 ]
