# label: slow
# GGUF: every family is written and read back with the same weights and the same text; the tokenizer and the chat template are in
# the file; packed types; damaged and foreign files, and options that contradict each other, are refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden

edit() { # edit FOLDER EXPRESSION: its config.json, c
    python3 - "$1/config.json" "$2" <<'P'
import json, sys
c = json.load(open(sys.argv[1]))
exec(sys.argv[2])
json.dump(c, open(sys.argv[1], "w"))
P
}
ids_of() { # ids_of MODEL: greedy ids
    code 0 "$LEVIN" generate "$1" --prompt-ids=5,9,2,7 --max-new-tokens=8 --temperature=0 --ignore-eos --json
    python3 -c 'import json; print(json.load(open("out"))["samples"][0]["ids"])'
}
mkdir ids
python3 -c 'import array
for name in "train", "val": array.array("H", [i * i % 23 + i % 7 for i in range(400)]).tofile(open(f"ids/{name}.bin", "wb"))'
loss_of() { # loss_of MODEL
    code 0 "$LEVIN" evaluate "$1" --data.kind=tokens --data.path=ids --json
    value loss
}
same_model() { # same_model MODEL MODEL: the same greedy ids, and losses that are equal to rounding, which gemma's norms differ by
    check [ "$(ids_of "$1")" = "$(ids_of "$2")" ]
    python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 1e-6, (a, b)' "$(loss_of "$1")" "$(loss_of "$2")"
}

# --- every family ---
for family in $(decoders | grep -v '^nanogpt$\|^mingpt$') llama-yarn; do
    cp -r "$golden/$family" model
    case $family in # as llama.cpp computes them
    gemma*) edit model 'c["query_pre_attn_scalar"] = c["head_dim"]' ;;
    esac
    if [ $family = gemma3 ]; then edit model 'c.pop("layer_types", 0); c.pop("sliding_window_pattern", 0)'; fi
    code 0 "$LEVIN" export model hf
    code 0 "$LEVIN" export model m.gguf
    says "parameters as gguf, F32" out
    says "the file has no tokenizer, because the model has none" out
    check [ ! -e m.gguf.part ]
    code 0 "$LEVIN" export m.gguf back
    case $family in gemma*) ;; *) same_file hf/model.safetensors back/model.safetensors ;; esac
    same_model hf m.gguf
    code 2 "$LEVIN" export model m.gguf
    says "'m.gguf' exists already" err
    rm -rf model hf back m.gguf
done
for family in nanogpt mingpt; do
    code 1 "$LEVIN" export "$golden/$family" m.gguf
    one_error
    says "a $family cannot be written as GGUF: llama.cpp does not have this family" err
done
code 1 "$LEVIN" export "$golden/mistral-window" m.gguf
says "attends to the last 6 positions alone (sliding_window), which llama.cpp does not do for this architecture" err
code 0 "$LEVIN" export "$golden/mistral-window" m.gguf --block-size=6
code 1 "$LEVIN" export "$golden/gemma2" n.gguf
says "query_pre_attn_scalar is 9, and llama.cpp uses 6" err
for key in attn final; do
    cp -r "$golden/gemma2" model
    edit model "c['query_pre_attn_scalar'], c['${key}_logit_softcapping'] = c['head_dim'], None"
    code 1 "$LEVIN" export model n.gguf
    says "${key}_logit_softcapping is null, and llama.cpp caps these logits in every gemma2" err
    rm -r model
done
code 1 "$LEVIN" export "$golden/bert/mlm" n.gguf
says "a bert cannot be written as GGUF" err
check [ ! -e n.gguf ]

# --- a run with a tokenizer and a template; packed types ---
make_text
code 0 "$LEVIN" tokenizer train --input=text.txt --out=tokenizer --vocab-size=400
code 0 "$LEVIN" train --data.path=text.txt --data.kind=documents --data.tokenizer=tokenizer --model.kind=llama --model.n_layer=1 \
    --model.n_head=2 --model.n_embd=32 --model.intermediate_size=64 --model.block_size=32 --trainer.max_steps=3 --run_dir=run \
    --trainer.batch_size=4
code 0 "$LEVIN" export run base
echo '{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000000000000000019884624838656, "chat_template": "{% for m in messages %}<{{ m.content }}>{% endfor %}"}' \
    >base/tokenizer_config.json
loss() { # loss MODEL
    code 0 "$LEVIN" evaluate "$1" --data.path=text.txt --data.kind=documents --trainer.batch_size=4 --json
    value loss
}
near() { python3 -c 'import sys; a, b, c = map(float, sys.argv[1:]); assert abs(a - b) <= c, (a, b)' "$@"; }
want=$(loss base)
for type in f32 f16 bf16 q8_0; do
    code 0 "$LEVIN" export base m-$type.gguf --type=$type
    silent_about "no tokenizer" out
    case $type in f32) limit=0 ;; f16) limit=1e-4 ;; *) limit=5e-3 ;; esac
    near "$want" "$(loss m-$type.gguf)" $limit
done
says "has packed tensors (9 of type Q8_0); 7 linear layers stay in their blocks" err
check [ "$(stat -c %s m-q8_0.gguf)" -lt "$(stat -c %s m-f16.gguf)" ]
for tokenizer in tokenizer m-q8_0.gguf; do
    "$LEVIN" tokenize --tokenizer=$tokenizer <text.txt >ids-$tokenizer
done
same_file ids-tokenizer ids-m-q8_0.gguf
echo '{"messages": [{"role": "user", "content": "some"}]}' >talk.jsonl
code 0 "$LEVIN" tokenize --chat=talk.jsonl --tokenizer=m-f32.gguf --json
says "<some>" out
code 0 "$LEVIN" generate m-q8_0.gguf --prompt="the loss" --max-new-tokens=4
code 0 "$LEVIN" plan --model.init=m-q8_0.gguf --data.path=text.txt --data.kind=documents
says "which are widened to fp32" err
says "; all weights are trained; lora.rank=16 trains adapters alone" err
code 2 "$LEVIN" generate m-q8_0.gguf --prompt="the loss" --model.quantize=nf4
says "model.quantize is nf4, and 'blk.0." err
says "is quantized already, to Q8_0: leave model.quantize out" err

# --- blocks in memory give the bits of the widened weights ---
code 0 "$LEVIN" export m-q8_0.gguf wide
for model in m-q8_0.gguf wide; do
    code 0 "$LEVIN" train --data.path=text.txt --data.kind=documents --model.init=$model --lora.rank=2 --lora.targets=all-linear \
        --trainer.max_steps=3 --trainer.batch_size=4 --trainer.precision=32-true --run_dir=on-$model
    says "_proj" on-$model/checkpoints/last/adapter/adapter_config.json
done
same_file on-{m-q8_0.gguf,wide}/checkpoints/last/adapter/adapter_model.safetensors
check [ "$(ids_of m-q8_0.gguf)" = "$(ids_of wide)" ]

# --- adapters on a packed base: merged when written ---
code 0 "$LEVIN" train --data.path=text.txt --data.kind=documents --model.init=m-q8_0.gguf --lora.rank=2 --trainer.max_steps=2 \
    --trainer.batch_size=4 --run_dir=adapted
says "m-q8_0.gguf" adapted/checkpoints/last/adapter/adapter_config.json
code 0 "$LEVIN" export adapted merged.gguf
says "which are widened to fp32" err
says "; adapters are merged into these values; --base names the 16-bit model to merge into" err
near "$(loss adapted)" "$(loss merged.gguf)" 1e-6

# --- adapters alone ---
code 0 "$LEVIN" export adapted adapter.gguf --adapter
says "adapters of " out
python3 - <<'P'
import json, struct
data = open("adapter.gguf", "rb").read()
for text in (b"general.type", b"adapter.type", b"adapter.lora.alpha", b"blk.0.attn_q.weight.lora_a", b"blk.0.attn_q.weight.lora_b"):
    assert text in data, text
config = json.load(open("adapted/checkpoints/last/adapter/adapter_config.json"))
at = data.index(b"adapter.lora.alpha") + len("adapter.lora.alpha")
assert struct.unpack_from("<If", data, at) == (6, config["lora_alpha"])
P
code 2 "$LEVIN" export base b.gguf --adapter
says "has no adapters to write with --adapter" err
code 2 "$LEVIN" export adapted folder --adapter
says "--adapter writes a GGUF file" err

# --- steps before the text is split that llama.cpp does not have ---
code 0 "$LEVIN" train --data.path=text.txt --data.kind=documents --data.tokenizer="$golden/tokenizers/tiny-llama2" --model.kind=llama \
    --model.n_layer=1 --model.n_head=2 --model.n_embd=32 --model.block_size=32 --trainer.max_steps=1 --run_dir=pieces --trainer.batch_size=4
code 0 "$LEVIN" export pieces sentencepiece
for kind in base sentencepiece; do cp $kind/tokenizer.json $kind.json; done
with() { # with KIND EXPRESSION: its tokenizer.json, t
    python3 - $1 "$2" <<'P'
import json, sys
t = json.load(open(sys.argv[1] + ".json"))
exec(sys.argv[2])
json.dump(t, open(sys.argv[1] + "/tokenizer.json", "w"))
P
    rm -f n.gguf
}
dropped() { # dropped KIND EXPRESSION SENTENCE
    with "$1" "$2"
    code 1 "$LEVIN" export "$1" n.gguf
    one_error
    says "$3" err
    check [ ! -e n.gguf ]
}
lower='{"type": "Lowercase"}' nfc='{"type": "NFC"}'
dropped base "t['normalizer'] = $lower" "the normalizer Lowercase, which llama.cpp does not have"
dropped base "t['normalizer'] = {'type': 'Sequence', 'normalizers': [$nfc, $lower]}" "the normalizer Lowercase, which llama.cpp does not have"
dropped base "t['normalizer'] = {'type': 'Sequence', 'normalizers': [$lower]}" "the normalizer Lowercase"
dropped sentencepiece "t['normalizer']['normalizers'].append($lower)" "the normalizer Lowercase, which llama.cpp does not have"
dropped sentencepiece "t['normalizer']['normalizers'][1]['pattern']['String'] = 'a'" "the normalizer Replace"
dropped sentencepiece "t['pre_tokenizer'] = {'type': 'Digits', 'individual_digits': True}" "the pre-tokenizer Digits"
for normalizer in None "$nfc" "{'type': 'Sequence', 'normalizers': []}" "{'type': 'Sequence', 'normalizers': [$nfc]}"; do
    with base "t['normalizer'] = $normalizer"
    code 0 "$LEVIN" export base n.gguf
done
for change in pass "t['normalizer'] = t['normalizer']['normalizers'][1]" "t['normalizer'] = None; t['pre_tokenizer'] = {'type': 'Metaspace', 'replacement': '\u2581', 'prepend_scheme': 'first', 'split': False}"; do
    with sentencepiece "$change"
    code 0 "$LEVIN" export sentencepiece n.gguf
    case $change in *first*) says "llama.cpp also puts one after special tokens" err ;; *) silent_about warning err ;; esac
done
rm n.gguf
for kind in base sentencepiece; do cp $kind.json $kind/tokenizer.json; done

# --- options ---
code 2 "$LEVIN" export run m.gguf --type=q4_k
says "--type is 'q4_k'; expected one of F32, F16, BF16, Q8_0" err
code 2 "$LEVIN" export run folder --type=f16
says "--type is the data type of a GGUF file, and may be f32 or bf16 for a model in a folder" err
code 2 "$LEVIN" export run folder --format=gguf
says "--format=gguf writes a file, OUT.gguf" err
code 2 "$LEVIN" export run n.gguf --format=peft
says "a GGUF file has no --format=peft" err

# --- damaged and foreign files ---
refused() { # refused FILE TEXT
    code 1 "$LEVIN" generate "$1" --prompt-ids=1
    one_error
    says "$2" err
    says "$1" err
}
changed() { # changed OLD NEW: the bytes of m-f32.gguf in bad.gguf, of the same length
    python3 - "$@" <<'P'
import sys
data = open("m-f32.gguf", "rb").read()
old, new = (eval("b'" + t + "'") for t in sys.argv[1:])
assert len(old) == len(new) and data.count(old) >= 1, data.count(old)
open("bad.gguf", "wb").write(data.replace(old, new, 1))
P
}
head -c 3000 m-f32.gguf >bad.gguf
refused bad.gguf "it is truncated"
head -c -5 m-f32.gguf >bad.gguf
refused bad.gguf "tensor '"
echo text >bad.gguf
refused bad.gguf "is not a GGUF file: it does not begin with GGUF"
changed 'llama' 'lemma' # the architecture
refused bad.gguf "is a model of the architecture 'lemma', which levin does not have; it has gpt2, gptneox, llama"
changed 'block_count\x04\x00\x00\x00\x01' 'block_count\x04\x00\x00\x00\x02'
refused bad.gguf "'blk.1.attn_norm.weight' is missing"
changed 'feed_forward_length\x04\x00\x00\x00\x40' 'feed_forward_length\x04\x00\x00\x00\x60'
refused bad.gguf "'blk.0.ffn_gate.weight' has shape (64, 32) and type fp32, expected (96, 32)"
changed 'head_count_kv' 'head_count_xx'
code 0 "$LEVIN" generate bad.gguf --prompt-ids=1 --max-new-tokens=1 # as many as heads
changed 'block_count' 'block_cxunt'
refused bad.gguf "has no 'llama.block_count' in its metadata"
changed 'rope.dimension_count\x04\x00\x00\x00\x10' 'rope.dimension_count\x04\x00\x00\x00\x08'
refused bad.gguf "'llama.rope.dimension_count' is 8, and a head has 16 channels"
changed 'rope.dimension_count\x04\x00\x00\x00\x10\x00\x00\x00' 'rope.scaling.attnfac\x06\x00\x00\x00\x00\x00\x00\x40'
code 0 "$LEVIN" generate bad.gguf --prompt-ids=1 --max-new-tokens=1
says "warning: 'bad.gguf' has metadata that levin does not know and ignores: llama.rope.scaling.attnfac" err
changed 'rope.freq_base' 'residual_scale'
refused bad.gguf "'llama.residual_scale' is 10000, and levin supports only 1"
with_key() { # with_key FILE NAME VALUE: bad.gguf, with this number in the metadata and a key that fills up 32 bytes
    python3 - "$@" <<'P'
import struct, sys
data = open(sys.argv[1], "rb").read()
def entry(key, kind, value): return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value
new = entry(b"llama." + sys.argv[2].encode(), 6, struct.pack("<f", float(sys.argv[3])))
new += entry(b"x" * (64 - (len(new) + 13) % 32), 7, b"\1")
count = struct.unpack_from("<Q", data, 16)[0]
open("bad.gguf", "wb").write(data[:16] + struct.pack("<Q", count + 2) + new + data[24:])
P
}
code 0 "$LEVIN" export "$golden/llama-yarn" yarn.gguf
yarn=$(ids_of yarn.gguf)
default=$(python3 -c 'import json, math, sys; print(1 + math.log(json.load(open(sys.argv[1]))["rope_scaling"]["factor"]) / 10)' "$golden/llama-yarn/config.json")
for entry in "yarn_attn_factor $default" "yarn_attn_factor 1" "yarn_ext_factor -1" "yarn_ext_factor 1"; do
    with_key yarn.gguf rope.scaling.$entry
    check [ "$(ids_of bad.gguf)" = "$yarn" ]
done
for entry in "yarn_attn_factor 1.5" "yarn_ext_factor 0" "attn_factor $default"; do
    with_key yarn.gguf rope.scaling.$entry
    refused bad.gguf "'llama.rope.scaling.${entry% *}' is "
done
with_key m-f32.gguf rope.scaling.yarn_attn_factor "$default" # no yarn
refused bad.gguf "'llama.rope.scaling.yarn_attn_factor' is"
for entry in "rope.scaling.yarn_ext_factor 0" "logit_scale 0" "embedding_scale 0" "residual_scale 0"; do # not set
    with_key m-f32.gguf $entry
    code 0 "$LEVIN" generate bad.gguf --prompt-ids=1 --max-new-tokens=1
done
changed 'feed_forward_length' 'attention.clamp_kqv'
refused bad.gguf "'llama.attention.clamp_kqv' is 64, and levin supports only 0"
causal='\x16\x00\x00\x00\x00\x00\x00\x00llama.attention.causal\x0a\x00\x00\x00' # a number of 64 bits
changed '\x1a\x00\x00\x00\x00\x00\x00\x00llama.rope.dimension_count\x04\x00\x00\x00\x10' "$causal\x00\x00\x00\x00\x00"
refused bad.gguf "'llama.attention.causal' is 0, and levin supports only 1"
changed 'general.type\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00model' 'general.type\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00mmxxx'
refused bad.gguf "has general.type 'mmxxx'; expected 'model'"
changed 'gpt-2' 'gpt-9'
code 1 "$LEVIN" tokenize --tokenizer=bad.gguf <text.txt
says "its tokenizer splits text by the rules 'gpt-9' (tokenizer.ggml.pre), which levin does not have; it has gpt-2" err
