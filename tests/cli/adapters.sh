# Checkpoints of adapters: their files, resuming from them, every command with them and with PEFT's folders, and messages about a
# base model that was moved, removed or replaced.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
export HF_HOME=$PWD/cache HF_HUB_OFFLINE=1
code 0 train base --trainer.max_steps=8 --optimizer.lr=1e-2
code 0 "$LEVIN" export base plain
tiny=(--model.init=plain --data.path=text.txt --trainer.batch_size=4 --trainer.limit_val_batches=4 --trainer.val_check_interval=4
    --checkpoint.every_n_steps=4 --trainer.deterministic=true --trainer.threads=1 --lora.rank=4 --lora.alpha=8 --optimizer.lr=1e-2)
loss() { # loss MODEL [keys]
    code 0 "$LEVIN" evaluate "$1" --data.path=text.txt --trainer.limit_test_batches=2 --trainer.batch_size=4 --trainer.micro_batch_size=4 --json "${@:2}"
    value loss
}
text() { # text MODEL [keys]
    code 0 "$LEVIN" generate "$1" --prompt="int " --max-new-tokens=12 --temperature=0 "${@:2}"
    cat out
}

# --- the base is a run: its checkpoint of then, not its best one of later ---
code 0 train early --model.init=base --trainer.max_steps=4
says "/base/checkpoints/step-8', a checkpoint that its run may remove if it continues" err
cp -r base kept
code 0 "$LEVIN" train base --resume --trainer.max_steps=12 --checkpoint.top_k=9
check [ "$(readlink base/checkpoints/best)" = step-12 ]
code 0 "$LEVIN" train early --resume --trainer.max_steps=6
rm -r base
mv kept base

# --- what is in a checkpoint ---
code 0 train run --trainer.max_steps=8
at=run/checkpoints/$(readlink run/checkpoints/best)
check [ ! -e $at/model.safetensors -a ! -e $at/state/adapters.safetensors ]
check [ "$(du -b -s $at/adapter | cut -f1)" -lt "$(stat -c %s plain/model.safetensors)" ]
says "\"base_model_name_or_path\": \"$(realpath plain)\"" $at/adapter/adapter_config.json
says "\"base\": \"$(realpath plain)\"" $at/adapter/base.json
check [ "$(readlink run/checkpoints/last)" = step-8 ]
# with a copy of the whole model: the same training, and the copy equals the export of the other run
code 0 train whole --trainer.max_steps=8 --lora.merge_checkpoints=true
same_file $at/adapter/adapter_model.safetensors whole/checkpoints/best/adapter/adapter_model.safetensors
code 0 "$LEVIN" export run merged
same_file merged/model.safetensors whole/checkpoints/best/model.safetensors
same_file merged/config.json $at/config.json

# --- resuming: the bits of an undisturbed run, on another number of ranks too, and from a checkpoint with a copy ---
code 0 train parts --trainer.max_steps=4
code 0 train parts --trainer.max_steps=8 --resume
same_run run parts
arguments ranks --trainer.max_steps=4
code 0 "$LEVIN" launch --launcher=levin -n 2 -- "${all[@]}" --trainer.strategy=zero1
code 0 train ranks --trainer.max_steps=8 --resume
same_weights run ranks
code 0 train copies --trainer.max_steps=4 --lora.merge_checkpoints=true
cp -r copies kept
code 0 train copies --trainer.max_steps=8 --resume
same_weights run copies
check [ -e copies/checkpoints/step-4/model.safetensors -a ! -e copies/checkpoints/step-8/model.safetensors ]
text copies/checkpoints/step-4 >told
# a damaged checkpoint is skipped
cp -r parts damaged
printf X | dd of=damaged/checkpoints/step-8/adapter/base.json bs=1 seek=12 conv=notrunc status=none
code 0 train damaged --trainer.max_steps=8 --resume
says "the checkpoint 'damaged/checkpoints/step-8' is skipped" err
same_weights run damaged

# --- every command, on a run, a checkpoint, PEFT's folder and an exported one ---
wanted=$(loss merged)
text merged >told
code 0 "$LEVIN" export run peft --format=peft
check [ ! -e peft/model.safetensors -a ! -e peft/config.json ]
same_file peft/adapter_model.safetensors $at/adapter/adapter_model.safetensors
mkdir foreign # as PEFT writes it: no base.json, no vocabulary; a relative path counts from the working folder
sed "s|$(realpath plain)|plain|" $at/adapter/adapter_config.json >foreign/adapter_config.json
cp $at/adapter/adapter_model.safetensors foreign
for model in run $at run/checkpoints/best $at/adapter peft foreign; do
    check [ "$(loss $model)" = "$wanted" ]
    text $model >now
    same_file told now
done
code 0 "$LEVIN" export foreign again
same_file merged/model.safetensors again/model.safetensors
code 2 "$LEVIN" export run peft --format=peft
says "'peft' already contains adapters" err
code 2 "$LEVIN" export plain none --format=peft
says "'plain' contains no adapters; --format=peft needs a run" err
check [ ! -e none ]
# adapters of a base that has adapters itself; and a full training that starts from both
code 0 train second --model.init=run --trainer.max_steps=4
code 0 "$LEVIN" export second twice
check [ "$(loss second)" = "$(loss twice)" ]
code 0 train second --model.init=run --trainer.max_steps=8 --resume
code 0 "$LEVIN" train --run_dir=full --model.init=second --data.path=text.txt --trainer.batch_size=4 --trainer.max_steps=1
check [ -e full/checkpoints/last/model.safetensors ]
# a run that continues in another folder finds its models where it was started, as its data
mkdir away runs
cp -r run runs/named
away() { # away RUN [keys]
    code 0 "$LEVIN" train --run_dir="$1" --data.path=text.txt --trainer.batch_size=4 --trainer.max_steps=1 "${@:2}"
    (cd away && code 0 "$LEVIN" train "../$1" --resume --trainer.max_steps=2)
}
(cd away && code 0 "$LEVIN" train ../full --resume --trainer.max_steps=2)
for init in plain peft run/checkpoints named; do away "from-${init%/*}" --model.init=$init; done
away from-base --model.init="$PWD/foreign" --lora.base=plain
rm -r runs

# --- lora.init sets rank, alpha and targets ---
keep=("${tiny[@]}")
tiny=("${tiny[@]/--lora.rank=4/--lora.init=foreign}")
tiny=("${tiny[@]/--lora.alpha=8/--trainer.max_steps=1}")
code 0 train started --optimizer.kind=sgd --optimizer.lr=1e-30
same_file foreign/adapter_model.safetensors started/checkpoints/last/adapter/adapter_model.safetensors
says "alpha: 8" started/settings.yaml
code 0 train started --optimizer.kind=sgd --optimizer.lr=1e-30 --resume # the values found are settings of the run
code 2 train never --lora.rank=2
says "its adapters have the rank 4, and lora.rank is 2; set lora.rank: 4, or leave it out" err
code 2 train never --lora.alpha=16
says "its lora_alpha is 8, and lora.alpha is 16; set lora.alpha: 8, or leave it out" err
# other linear layers than the family's default
tiny=("${keep[@]}")
code 0 train mlps --trainer.max_steps=1 --lora.targets="mlp.c_fc, attn.c_proj"
tiny=("${tiny[@]/--lora.rank=4/--lora.init=mlps/checkpoints/last/adapter}")
tiny=("${tiny[@]/--lora.alpha=8/--trainer.max_steps=1}")
code 0 train started-mlps --optimizer.kind=sgd --optimizer.lr=1e-30
same_file {,started-}mlps/checkpoints/last/adapter/adapter_model.safetensors
says "mlp.c_fc" started-mlps/settings.yaml
silent_about "trained with other weights" err
code 0 train started-mlps --optimizer.kind=sgd --optimizer.lr=1e-30 --resume
cp -r mlps/checkpoints/last/adapter another
sed -i 's/"sum": *"[^"]*"/"sum": "crc64:0"/' another/base.json
code 0 train others-mlps --lora.init=another
says "trained with other weights" err
code 1 train never --lora.targets=attn.c_attn
says "lora.targets must name the linear layers that it has adapters for" err
rm -rf never
code 2 train never --lora.init=plain
one_error
says "lora.init is 'plain', which contains no adapter_config.json" err
check [ ! -e never ]
tiny=("${keep[@]}")
# commands that train nothing do not read it
echo '{model: {init: plain}, lora: {init: foreign}}' >adapted.yaml
code 2 "$LEVIN" evaluate adapted.yaml --data.path=text.txt
one_error
says "lora.init, 'foreign', are adapters from which training starts, and this command trains nothing: name these adapters as the model" err
for command in "evaluate plain --data.path=text.txt" "generate plain --prompt=int" "chat plain"; do
    LEVIN_LORA_INIT=foreign code 2 "$LEVIN" $command
    says "this command trains nothing" err
done
check [ "$(loss foreign --lora.base=plain)" = "$wanted" ]

# --- the base was moved, removed or replaced ---
mv plain elsewhere
code 2 "$LEVIN" generate run --prompt="int "
one_error
says "there is no model '$PWD/plain'" err
says "the base model of the adapters in '$at/adapter'; if it is elsewhere now, name it (--lora.base=PATH" err
silent_about "--model.init" err
text run --lora.base=elsewhere >now
same_file told now
check [ "$(loss peft --lora.base=elsewhere)" = "$wanted" ]
code 0 "$LEVIN" export run moved --base elsewhere
same_file merged/model.safetensors moved/model.safetensors
code 2 train parts --trainer.max_steps=12 --resume
one_error
says "model.init, 'plain', the base model of the adapters; if it is elsewhere now, name it: --model.init=PATH" err
code 0 train parts --trainer.max_steps=12 --resume --model.init=elsewhere
says "$PWD/elsewhere" parts/checkpoints/last/adapter/base.json
code 0 "$LEVIN" export base plain --block-size=8 # of another shape
code 1 "$LEVIN" generate run --prompt="int "
rm -r plain
cp -r merged plain # of the same shape, with other values
code 1 "$LEVIN" generate run --prompt="int "
one_error
says "the base model '$PWD/plain' is not the one that the adapters in '$at/adapter' were trained with: its weights have the checksum" err
code 1 train run --trainer.max_steps=12 --resume
one_error
says "the base model 'plain' (model.init) is not the one with which the adapters of 'run/checkpoints/step-8' were trained, '$PWD/plain'" err
code 1 train kept --trainer.max_steps=8 --resume # this run's checkpoints have a copy of the base, and the next one would not
one_error
says "continue with the copy (--lora.merge_checkpoints=true)" err
code 0 train kept --trainer.max_steps=8 --resume --lora.merge_checkpoints=true
same_file kept/checkpoints/last/model.safetensors whole/checkpoints/last/model.safetensors
rm -r plain

# --- a base of the hub; which files are copied ---
hub=cache/hub/models--some-lab--some-model
mkdir -p $hub/refs $hub/snapshots
printf 0123abc >$hub/refs/main
cp -r elsewhere $hub/snapshots/0123abc
code 0 train named --model.init=some-lab/some-model --trainer.max_steps=4
says '"base_model_name_or_path": "some-lab/some-model"' named/checkpoints/last/adapter/adapter_config.json
text named >told
code 0 "$LEVIN" cp --recursive named copy
says "the base model of the adapters in it, 'some-lab/some-model', is not part of the copy" out
mkdir far && mv copy far/run && ln -s ../cache far/cache
(cd far && HF_HOME=$PWD/cache text run >../now)
same_file told now
code 0 "$LEVIN" cp --recursive named copy --json
json 'd["base_models"] == ["some-lab/some-model"]'

# --- adapters that fit no linear layer, or name none ---
cp -r foreign bad
sed -i 's|"plain"|null|' bad/adapter_config.json
code 1 "$LEVIN" generate bad --prompt="int "
one_error
says "names no base model (base_model_name_or_path): say which (--lora.base=PATH" err
text bad --lora.base=elsewhere >now
code 0 "$LEVIN" train --run_dir=wide --model.n_layer=1 --model.n_head=2 --model.n_embd=32 --model.block_size=8 --data.path=text.txt \
    --trainer.batch_size=4 --trainer.max_steps=1
code 1 "$LEVIN" generate bad --lora.base=wide --prompt="int "
one_error
says "these adapters were made for another model" err
sed -i 's|null, "target|"bad", "target|; s|"base_model_name_or_path": null|"base_model_name_or_path": "bad"|' bad/adapter_config.json
code 1 "$LEVIN" generate bad --prompt="int "
says "does a base model name itself?" err

# --- a head for classes is trained with adapters; a frozen head is saved, too ---
awk 'BEGIN { print "text\tlabel" } NR <= 40 { print $1, (NR % 2 ? "loss" : "step") "\t" NR % 2 }' text.txt >rows.tsv
code 0 "$LEVIN" tokenizer train --kind=wordpiece --input=text.txt --vocab-size=200 --out=vocab
code 0 "$LEVIN" train --run_dir=words --model.kind=bert --task.kind=mlm --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 \
    --data.path=rows.tsv --data.tokenizer=vocab --trainer.batch_size=8 --trainer.max_steps=2 --quiet
for freeze in none classifier; do
    keys=(--model.init=words --task.kind=classify --data.path=rows.tsv --lora.rank=2 --trainer.batch_size=8 --optimizer.lr=1e-2 --quiet)
    [ $freeze = none ] || keys+=(--model.freeze=$freeze)
    code 0 "$LEVIN" train --run_dir=stopped-$freeze "${keys[@]}" --trainer.max_steps=2
    code 0 "$LEVIN" train --run_dir=stopped-$freeze "${keys[@]}" --trainer.max_steps=4 --resume
    code 0 "$LEVIN" train --run_dir=classes-$freeze "${keys[@]}" --trainer.max_steps=4
    same_weights classes-$freeze stopped-$freeze
    says '"classifier"' classes-$freeze/checkpoints/last/adapter/adapter_config.json
    code 0 "$LEVIN" export classes-$freeze heads-$freeze
    code 0 "$LEVIN" predict heads-$freeze --input=rows.tsv --trainer.batch_size=8 --json
    cp out predicted
    for model in classes-$freeze classes-$freeze/checkpoints/last/adapter; do
        code 0 "$LEVIN" predict $model --input=rows.tsv --trainer.batch_size=8 --json
        same_file predicted out
    done
done

# --- folders of PEFT: adapters of a square head, an embedding or a head that is saved whole beside a tied base ---
mkdir heads
cd heads
cp -r "$LEVIN_SOURCE/tests/golden/llama" tied
chmod -R u+w tied
cat >peft.py <<'P'
import json, os, random, shutil, struct
from array import array
HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
def read(folder):
    tensors = {}
    data = open(folder + "/model.safetensors", "rb").read()
    n, = struct.unpack("<Q", data[:8])
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            assert t["dtype"] == "F32"
            tensors[name] = t["shape"], array("f", data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
    return tensors
def write(path, tensors):
    head, at = {}, 0
    for name, (shape, x) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(x)]}
        at += 4 * len(x)
    head = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + b"".join(x.tobytes() for _, x in tensors.values()))
def normal(*shape):
    n = 1
    for d in shape: n *= d
    return list(shape), array("f", [random.gauss(0, 1) for _ in range(n)])
def adapters(folder, base, tensors, **config):
    os.makedirs(folder)
    json.dump(dict(peft_type="LORA", base_model_name_or_path=base, r=2, lora_alpha=6, target_modules=["q_proj"], **config),
              open(folder + "/adapter_config.json", "w"))
    write(folder + "/adapter_model.safetensors", {"base_model.model." + n: t for n, t in tensors.items()})
P
code 0 "$LEVIN" export tied base
python3 - <<'P'
from peft import *
random.seed(1)
base = read("base")
assert HEAD not in base
C, V = base[EMBEDDING][0][1], base[EMBEDDING][0][0]
for n, vocab in ("square", C), ("wide", V):  # an untied base
    shutil.copytree("base", n)
    config = json.load(open("base/config.json"))
    config.update(tie_word_embeddings=False, vocab_size=vocab, eos_token_id=None, bos_token_id=None)
    json.dump(config, open(n + "/config.json", "w"))
    t = {**base, EMBEDDING: ([vocab, C], base[EMBEDDING][1][:vocab * C]), HEAD: normal(vocab, C)}
    write(n + "/model.safetensors", t)
    adapters("peft-" + n, n, {"lm_head.base_layer.weight": t[HEAD], # PEFT saves it, too
                              "lm_head.lora_A.weight": normal(2, C), "lm_head.lora_B.weight": normal(vocab, 2)})
q = {"model.layers.0.self_attn.q_proj.lora_A.weight": normal(2, C), "model.layers.0.self_attn.q_proj.lora_B.weight": normal(C, 2)}
adapters("peft-embedding", "base", {**q, EMBEDDING: normal(V, C)}, modules_to_save=["embed_tokens"])
adapters("peft-head", "base", {**q, HEAD: normal(V, C)}, modules_to_save=["lm_head"])
adapters("peft-both", "base", {**q, HEAD: normal(V, C), EMBEDDING: normal(V, C)}, modules_to_save=["lm_head", "embed_tokens"])
adapters("peft-together", "base", {**q, EMBEDDING: normal(V, C)}, modules_to_save=["embed_tokens"], ensure_weight_tying=True)
P
for kind in square wide embedding head both together; do code 0 "$LEVIN" export peft-$kind got-$kind; done
python3 - <<'P'
from peft import *
def folder(name): # adapters as tensors without PEFT's prefix
    os.makedirs("x", exist_ok=True)
    shutil.copy(name + "/adapter_model.safetensors", "x/model.safetensors")
    return {n.removeprefix("base_model.model."): t for n, t in read("x").items()}
def near(a, b):
    return a[0] == b[0] and max(abs(x - y) for x, y in zip(a[1], b[1])) < 1e-5
for kind in "square", "wide":
    base, ad, got = read(kind), folder("peft-" + kind), read("got-" + kind)
    (V, C), w = base[HEAD]
    A, B = ad["lm_head.lora_A.weight"][1], ad["lm_head.lora_B.weight"][1]
    want = [w[i * C + j] + 3 * sum(B[i * 2 + k] * A[k * C + j] for k in range(2)) for i in range(V) for j in range(C)]
    assert near(([V, C], want), got[HEAD]), kind
base = read("base")
for kind in "embedding", "head", "both", "together":
    ad, got = folder("peft-" + kind), read("got-" + kind)
    tied = json.load(open(f"got-{kind}/config.json"))["tie_word_embeddings"]
    assert tied == (kind == "together") == (HEAD not in got), (kind, tied)
    assert near(got[EMBEDDING], ad.get(EMBEDDING, base[EMBEDDING])), kind
    assert tied or near(got[HEAD], ad.get(HEAD, base[EMBEDDING])), kind
P
# a folder of adapters and its export are the same model
for kind in square embedding head both; do
    code 0 "$LEVIN" generate peft-$kind --prompt-ids=1,2,3 --max-new-tokens=6 --temperature=0 --ignore-eos --json
    cp out first
    code 0 "$LEVIN" generate got-$kind --prompt-ids=1,2,3 --max-new-tokens=6 --temperature=0 --ignore-eos --json
    python3 -c 'import json; a, b = (json.load(open(f))["samples"][0]["ids"] for f in ("first", "out")); assert a == b, (a, b)'
done
# adapters of a head that is not tied are trained, too: the run, its adapters and its export are the same model
head=(--data.kind=tokens --data.path=tied/tokens.bin --data.val_path=tied/tokens.bin --trainer.batch_size=4 --optimizer.lr=1e-2)
code 0 "$LEVIN" train --run_dir=started --model.init=wide --lora.init=peft-wide "${head[@]}" --trainer.max_steps=2
says '"target_modules": ["lm_head"]' started/checkpoints/last/adapter/adapter_config.json
says '"fan_in_fan_out": false' started/checkpoints/last/adapter/adapter_config.json
code 0 "$LEVIN" train --run_dir=merged --model.init=wide --lora.init=peft-wide "${head[@]}" --trainer.max_steps=2 --lora.merge_checkpoints=true
code 0 "$LEVIN" export started got-started
same_file got-started/model.safetensors merged/checkpoints/last/model.safetensors
code 0 "$LEVIN" train --run_dir=from-export --model.init=got-wide "${head[@]}" --trainer.max_steps=1
first() { python3 -c 'import json, sys; print("%.5g" % json.loads(open(sys.argv[1] + "/metrics.jsonl").readlines()[1])["loss"])' "$1"; } # first RUN: the loss of its first step
check [ "$(first started)" = "$(first from-export)" ]
code 0 "$LEVIN" export started head.gguf --adapter
python3 - <<'P'
import struct
from peft import *
data = open("head.gguf", "rb").read()
shape = read("wide")[HEAD][0]
for name, dims in (b"output.weight.lora_a", (shape[1], 2)), (b"output.weight.lora_b", (2, shape[0])):
    assert struct.unpack_from("<I2Q", data, data.index(name) + len(name)) == (2, *dims), name
P
code 2 "$LEVIN" train --run_dir=no --model.init=tied --lora.rank=2 --lora.targets=lm_head "${head[@]}"
says "lora.targets: 'lm_head' names no linear layer; a llama has " err
# every key of PEFT's file: what changes the model is refused by name
cp -r peft-square key
keys=$(python3 - <<'P'
import json, os
# values other than the defaults that do not change the model of the tensors, or only with another key
HARMLESS = {"auto_mapping": {"base_model_class": "x"}, "base_model_name_or_path": "square", "corda_config": {"a": 1}, "ensure_weight_tying": True,
            "eva_config": {"rho": 2}, "exclude_modules": ["k_proj"], "fan_in_fan_out": True, "inference_mode": False,
            "init_lora_weights": "gaussian", "layers_pattern": "layers", "layers_to_transform": [0], "loftq_config": {"loftq_bits": 4},
            "lora_alpha": 7, "lora_dropout": 0.5, "lora_ga_config": {"a": 1}, "megatron_core": "x", "modules_to_save": [],
            "peft_type": "LORA", "peft_version": "9", "qalora_group_size": 32, "r": 2, "revision": "x",
            "target_modules": "all-linear", "task_type": "CAUSAL_LM", "trainable_token_indices": [], "use_rslora": True}
REFUSED = {"alora_invocation_tokens": [1], "alpha_pattern": {"q_proj": 4}, "arrow_config": {"top_k": 3}, "bias": "all",
           "kasa_config": {"beta": 1}, "layer_replication": [[0, 1]], "lora_bias": True, "megatron_config": {"a": 1},
           "monteclora_config": {"a": 1}, "rank_pattern": {"q_proj": 4}, "target_parameters": ["experts"], "use_bdlora": {"nblocks": 2},
           "use_dora": True, "use_qalora": True, "velora_config": {"a": 1}}
theirs = json.load(open(os.environ["LEVIN_SOURCE"] + "/tests/golden/peft/tokens/adapter_config.json"))
assert set(theirs) == set(HARMLESS) | set(REFUSED), set(theirs) ^ (set(HARMLESS) | set(REFUSED))
REFUSED["use_new_kind"], REFUSED["new_config"] = True, {"a": 1} # of a newer version
theirs.update(base_model_name_or_path="square", target_modules=["lm_head"], trainable_token_indices=None)
for kind in HARMLESS, REFUSED:
    for key, value in kind.items():
        json.dump({**theirs, key: value}, open(f"key-{key}.json", "w"))
print(*REFUSED)
P
)
for config in key-*.json; do
    key=${config#key-}
    key=${key%.json}
    mv "$config" key/adapter_config.json
    case " $keys " in
    *" $key "*)
        code 1 "$LEVIN" generate key --prompt-ids=1 --max-new-tokens=1
        says "$key" err
        one_error
        ;;
    *) code 0 "$LEVIN" generate key --prompt-ids=1 --max-new-tokens=1 ;;
    esac
done
# the format of older versions, torch.save() of the same tensors, one of them transposed
cp -r peft-square old
python3 - <<'P'
import collections, json, pickle, struct, sys, types, zipfile
raw = open("old/adapter_model.safetensors", "rb").read()
start = 8 + struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8:start])
torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
def rebuild(*arguments): pass
rebuild.__module__, rebuild.__qualname__, utils._rebuild_tensor_v2 = "torch._utils", "_rebuild_tensor_v2", rebuild
torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
class Storage:
    def __init__(self, key, n): self.key, self.n = key, n
class Tensor:
    def __init__(self, *arguments): self.arguments = arguments
    def __reduce__(self): return rebuild, self.arguments
class Pickler(pickle._Pickler):
    def persistent_id(self, o): return ("storage", torch.FloatStorage, o.key, "cpu", o.n) if isinstance(o, Storage) else None
with zipfile.ZipFile("old/adapter_model.bin", "w") as z:
    tensors = {}
    for i, (name, d) in enumerate((k, v) for k, v in header.items() if k != "__metadata__"):
        begin, end = d["data_offsets"]
        (rows, columns), n = d["shape"], (end - begin) // 4
        values = struct.unpack(f"<{n}f", raw[start + begin:start + end])
        if i == 0: values = [values[r * columns + c] for c in range(columns) for r in range(rows)]
        z.writestr(f"old/data/{i}", struct.pack(f"<{n}f", *values))
        tensors[name] = Tensor(Storage(str(i), n), 0, (rows, columns), (columns, 1) if i else (1, rows), False, collections.OrderedDict())
    with z.open("old/data.pkl", "w") as f: Pickler(f, 2).dump(tensors)
P
code 0 "$LEVIN" generate peft-square --prompt-ids=1,2 --max-new-tokens=8 --temperature=0 --json
cp out new
code 0 "$LEVIN" generate old --prompt-ids=1,2 --max-new-tokens=8 --temperature=0 --json
rm old/adapter_model.safetensors
cp out both
code 0 "$LEVIN" generate old --prompt-ids=1,2 --max-new-tokens=8 --temperature=0 --json
same_file new both
same_file new out
code 0 "$LEVIN" export old again --format=peft
same_file {old,again}/adapter_model.bin
