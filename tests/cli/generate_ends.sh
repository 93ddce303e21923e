# levin generate: the end of a sample. It ends at an end token, of generation_config.json or config.json, or before a
# stop text, which is never printed; on a terminal, text appears token by token, in whole characters.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
export OMP_NUM_THREADS=1
# Eight letters, each mostly followed by the next one; the last one has four bytes.
python3 - <<'P'
import random
random.seed(1)
letters = "abcdefg\U0001f600"
with open("text.txt", "w") as f:
    for _ in range(3000):
        f.write(letters if random.random() < 0.98 else "".join(random.sample(letters, 8)))
P
code 0 train run --model.n_layer=1 --model.n_embd=32 --model.block_size=15 --optimizer.lr=1e-2 --trainer.batch_size=32 \
    --trainer.max_steps=150 --trainer.val_check_interval=0 --checkpoint.every_n_steps=0
code 0 "$LEVIN" export run model
greedy() { # greedy FLAGS: what follows `a`, in out
    code 0 "$LEVIN" generate model --prompt=a --temperature=0 --max-new-tokens=30 "$@"
}
ids() { # ids LIST: of the one sample in out
    json "d['samples'][0]['ids'] == [$1]"
}
config() { # config FILE VALUE: eos_token_id of that file
    python3 - "$@" <<'P'
import json, os, sys
path, value = "model/" + sys.argv[1], sys.argv[2]
d = json.load(open(path)) if os.path.exists(path) else {}
d["eos_token_id"] = json.loads(value)
json.dump(d, open(path, "w"))
P
}
greedy --json
json 'd["samples"][0]["text"].startswith("bcdefg\U0001f600abcdefg") and len(d["samples"][0]["ids"]) == 30'
greedy
cp out whole.out

# --- end tokens ---
config config.json 3
greedy --json
ids 1,2,3
json 'd["samples"][0]["text"] == "bc"'
greedy
check [ "$(cat out)" = abc ]
config generation_config.json '[9, 6, 5]' # takes precedence over config.json; the model never generates token 9
greedy --json
ids 1,2,3,4,5
greedy --ignore-eos
same_file out whole.out
greedy --ignore-eos --json
json 'len(d["samples"][0]["ids"]) == 30'
config generation_config.json null # means nothing
greedy --json
ids 1,2,3
greedy --num-samples=2
check [ "$(cat out)" = "--- sample 1, 3 bytes ---
abc
--- sample 2, 3 bytes ---
abc" ]
config generation_config.json 1
code 0 "$LEVIN" generate model --prompt=ab --temperature=0 --json # an end token in the prompt ends nothing
ids 2,3,4,5,6,7,0,1
config generation_config.json '"<end>"'
code 1 "$LEVIN" generate model --prompt=a
one_error
says "generation_config.json: 'eos_token_id' must be a whole number or a list of them" err
greedy --ignore-eos
rm model/generation_config.json
config config.json null

# --- stop texts ---
greedy --stop=ef --json
json 'd["samples"][0]["text"] == "bcd"'
ids 1,2,3,4,5
greedy --stop=ef
check [ "$(cat out)" = abcd ]
greedy --stop "$(printf 'g\xf0\x9f\x98\x80a')" --stop=zzz --stop cad
check [ "$(cat out)" = abcdef ]
greedy --stop=fe
same_file out whole.out
greedy --stop=b --json
json 'd["samples"] == [{"ids": [1], "text": ""}]'
wrong() { # wrong SENTENCE FLAGS
    local sentence=$1
    shift
    code 2 "$LEVIN" generate model --prompt=a "$@"
    one_error
    says "$sentence" err
}
wrong "--stop must not be empty" --stop=
wrong "--stop is not valid UTF-8 (byte 2)" --stop "$(printf 'a\xff')"
mv model/state model/tokenizer.json .
code 2 "$LEVIN" generate model --stop=a
one_error
says "--stop needs a model that writes text" err
mv state model/

# --- streaming: each token is written at once, a character never in parts, a stop text never ---
python3 - <<'P'
import os, subprocess
def pieces(*flags):
    there, here = os.pipe2(os.O_DIRECT)      # each read gives what one write wrote
    p = subprocess.Popen([os.environ["LEVIN"], "generate", "model", "--prompt=a", "--temperature=0", *flags], stdout=here)
    os.close(here)
    found = list(iter(lambda: os.read(there, 4096), b""))
    assert p.wait() == 0
    return [f.decode() for f in found]
found = pieces("--max-new-tokens=12")
assert found == list("abcdefg\U0001f600abcde\n"), found
found = pieces("--max-new-tokens=12", "--stop=deg", "--stop=g\U0001f600ab!")  # text that begins like a stop text, but differs later, is printed late
assert "".join(found) == "abcdefg\U0001f600abcde\n" and found[:5] == ["a", "b", "c", "def", "g\U0001f600abc"], found
found = pieces("--max-new-tokens=12", "--stop=fg\U0001f600")
assert found == list("abcde\n"), found
P
