# Models with sliding windows: published config.json files, multimodal models, and settings that are refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden

# --- a folder with a config.json alone is planned; the numbers of parameters are the published ones ---
gemma3='"attn_logit_softcapping": null, "final_logit_softcapping": null, "head_dim": 256, "hidden_size": 1152,
    "hidden_activation": "gelu_pytorch_tanh", "intermediate_size": 6912, "max_position_embeddings": 32768,
    "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
    "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512,
    "sliding_window_pattern": 6, "vocab_size": 262144'
gemma2='"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_size": 2304,
    "intermediate_size": 9216, "max_position_embeddings": 8192, "num_attention_heads": 8, "num_hidden_layers": 26,
    "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "sliding_window": 4096, "vocab_size": 256000'
mistral='"hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "sliding_window": 4096, "vocab_size": 32000'
text='"text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152}'
planned() { # planned TYPE KEYS PARAMETERS WINDOW
    mkdir -p model
    echo "{\"model_type\": \"$1\", $2}" >model/config.json
    code 0 "$LEVIN" plan --model.init=model --model.block_size=64 --trainer.micro_batch_size=1 --data.kind=tokens --json
    json "d['parameters'] == $3 and d['sliding_window'] == $4"
    says "'model' has no weights; its config.json describes the model" err
}
planned gemma3_text "$gemma3" 999885952 512
planned gemma3 "$text" 3880263168 1024
planned gemma2 "$gemma2" 2614341888 4096
planned mistral "$mistral" 7241732096 4096

# --- the text model of a multimodal one ---
multimodal() { # multimodal OUT PREFIX OTHER: the golden model in a multimodal one; prefixes of its names and of other tensors
    python3 - "$golden/gemma3" "$@" <<'P'
import json, os, struct, sys
source, out, prefix, other = sys.argv[1:]
os.mkdir(out)
with open(source + "/model.safetensors", "rb") as f:
    header, data = json.loads(f.read(struct.unpack("<Q", f.read(8))[0])), f.read()
header = {k.replace("model.", prefix, 1): v for k, v in header.items()}
for name in "vision_tower.embeddings.weight", "multi_modal_projector.mm_input_projection_weight":
    header[other + name] = {"dtype": "F32", "shape": [2], "data_offsets": [len(data), len(data) + 8]}
    data += bytes(8)
text = json.dumps(header).encode()
with open(out + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
config = json.load(open(source + "/config.json"))
del config["architectures"]
json.dump({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [0, 7],
           "text_config": config, "vision_config": {}}, open(out + "/config.json", "w"))
P
}
multimodal whole language_model.model. ""
multimodal newer model.language_model. model.
same_losses() {
    python3 -c 'import json, sys; a, b = (json.load(open(f))["token_losses"] for f in sys.argv[1:]); assert a == b' "$@"
}
evaluate=(--data.kind=tokens --data.path="$golden/gemma3/tokens.bin" --trainer.batch_size=4 --token-losses --json)
code 0 "$LEVIN" evaluate "$golden/gemma3" "${evaluate[@]}"
cp out alone
code 0 "$LEVIN" evaluate whole "${evaluate[@]}"
same_losses alone out
says "skipped 2 tensors that do not belong to the text model ('multi_modal_projector.mm_input_projection_weight' to" err
code 0 "$LEVIN" evaluate newer "${evaluate[@]}"
same_losses alone out
code 0 "$LEVIN" export whole text
says "saved as Gemma3ForCausalLM" err
python3 -c 'import json
c = json.load(open("text/config.json"))
assert c["model_type"] == "gemma3_text" and c["architectures"] == ["Gemma3ForCausalLM"] and c["eos_token_id"] == [0, 7]
assert c["layer_types"] == ["sliding_attention", "full_attention"] and "vision_config" not in c'
code 0 "$LEVIN" evaluate text "${evaluate[@]}"
same_losses alone out

# --- what is refused, before anything is trained ---
make_text
refused() { # refused SENTENCE KEYS...
    code 2 "$LEVIN" train --run_dir=never --data.path=text.txt --model.block_size=32 "${@:2}"
    says "$1" err
    check [ ! -e never ]
}
refused "model.sliding_window is 0, but a layer attends to at least 1 position" --model.kind=mistral --model.sliding_window=0
refused "model.sliding_window (33) exceeds the 32 positions of the model" --model.kind=gemma3 --model.sliding_window=33
refused "model.sliding_window: llama has no such key" --model.kind=llama --model.sliding_window=8
bad() { # bad SENTENCE OLD NEW: config.json of gemma2 with a change
    rm -rf bad
    cp -r "$golden/gemma2" bad
    sed -i "s/$2/$3/" bad/config.json
    code 1 "$LEVIN" train --run_dir=never --model.init=bad --data.kind=tokens --data.path="$golden/gemma2/tokens.bin"
    says "$1" err
    check [ ! -e never ]
}
bad "sliding_window is 0" '"sliding_window": 6' '"sliding_window": 0'
bad "attn_logit_softcapping is 0; it must be between" '"attn_logit_softcapping": 2.0' '"attn_logit_softcapping": 0'
bad "final_logit_softcapping is -1; it must be between" '"final_logit_softcapping": 1.5' '"final_logit_softcapping": -1'
bad "layer_types has 2 entries, and the model has 3 layers" '"num_hidden_layers": 2' '"num_hidden_layers": 3'
bad "use_bidirectional_attention is true" '"use_bidirectional_attention": null' '"use_bidirectional_attention": true'
bad "attention_bias is true" '"attention_bias": false' '"attention_bias": true'
bad "rope_parameters.rope_type is 'longrope'" '"rope_type": "default"' '"rope_type": "longrope"'

# --- a layer with a window keeps a few positions of a text in its cache, whatever the text's length ---
code 0 "$LEVIN" train --run_dir=run --data.path=text.txt --model.kind=gemma3 --model.n_layer=6 --model.n_head=2 --model.n_embd=16 \
    --model.block_size=256 --model.sliding_window=9 --trainer.max_steps=1 --trainer.batch_size=1 --trainer.limit_val_batches=0 --quiet
code 0 "$LEVIN" generate run --prompt=the --max-new-tokens=200 --verbose
says "1 layer for 256 positions of each text, 5 layers with a window for 40" err
