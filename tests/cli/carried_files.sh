# Files and members of config.json that levin does not read survive training, resuming, adapters and export: several end tokens,
# generation_config.json, tokenizer.model, chat templates. What is left out is listed here, each with its reason.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
head -c 6000 text.txt >few.txt
tokenizers=$LEVIN_SOURCE/tests/golden/tokenizers
code 0 "$LEVIN" prepare few.txt --tokenizer="$tokenizers/tiny-llama2" --out=data
small=(--data.path=data --trainer.batch_size=2 --trainer.limit_val_batches=1 --trainer.val_check_interval=0 --quiet)

# --- a folder with everything in it ---
code 0 "$LEVIN" train --run_dir=run "${small[@]}" --model.kind=llama --model.n_layer=1 \
    --model.n_head=2 --model.n_embd=16 --model.block_size=32 --trainer.max_steps=1
code 0 "$LEVIN" export run base
code 0 "$LEVIN" generate base --prompt-ids=1,5,7 --max-new-tokens=8 --temperature=0 --ignore-eos --json
python3 - <<'P'
import json
ids = json.load(open("out"))["samples"][0]["ids"][-8:]
config = json.load(open("base/config.json"))
unused = next(i for i in range(599, 0, -1) if i not in ids)
end = next(i for k, i in enumerate(ids) if i not in ids[:k] and k)  # it ends the text after a few tokens
config.update(eos_token_id=[unused, end], bos_token_id=1, pad_token_id=3, torch_dtype="float32", use_cache=True, pretraining_tp=1,
    initializer_range=0.02, _name_or_path="x/y", transformers_version="4.40.0", output_attentions=False,
    task_specific_params={"a": {"b": [1, 2.5, None]}}, id2label={"0": "LABEL_0", "1": "LABEL_1"}, label2id={"LABEL_0": 0, "LABEL_1": 1},
    rope_parameters={"rope_theta": config["rope_theta"], "rope_type": "default", "more": "x"}, rope_scaling=None,
    auto_map={"AutoModel": "code.Model"}, num_labels=2)
json.dump(config, open("base/config.json", "w"))
open("base/generation_config.json", "w").write('{ "temperature":0.6,  "eos_token_id": [%d, %d]}' % (unused, end))
open("want", "w").write(str(ids.index(end) + 1))
P
for file in tokenizer_config.json special_tokens_map.json added_tokens.json preprocessor_config.json processor_config.json chat_template.json; do
    printf '{}\n' >base/$file
done
for file in tokenizer.model spiece.model sentencepiece.bpe.model tekken.json qwen.tiktoken chat_template.jinja LICENSE LICENSE.txt NOTICE \
    USE_POLICY.md README.md code.py model.onnx training_args.bin .gitattributes; do
    printf '%s\0\377\n' "$file" >base/$file
done
mkdir base/additional_chat_templates
echo rag >base/additional_chat_templates/rag.jinja
echo tool >base/additional_chat_templates/tool_use.jinja
echo hidden >base/additional_chat_templates/.x.jinja
cat >compare.py <<'P'
import json, os, sys
base, of = sys.argv[1:]
NOT_CARRIED = {
    "README.md": "describes the base model", "code.py": "a program", "model.onnx": "the weights before training",
    "training_args.bin": "settings of another trainer", ".gitattributes": "of a repository",
    "additional_chat_templates/.x.jinja": "hidden", "model.safetensors": "the weights: merged, or not in a folder of adapters"}
NOT_KEPT = {"auto_map": "names programs, which are not carried", "num_labels": "the size of id2label"}
def files(at):
    return {os.path.relpath(os.path.join(d, f), at) for d, _, fs in os.walk(at) for f in fs}
missing = files(base) - files(of)
assert missing <= set(NOT_CARRIED), missing - set(NOT_CARRIED)
for f in files(base) & files(of) - {"config.json", "model.safetensors"}:
    assert open(f"{base}/{f}", "rb").read() == open(f"{of}/{f}", "rb").read(), f
a, b = (json.load(open(f"{d}/config.json")) for d in (base, of))
assert set(a) - set(b) == set(NOT_KEPT), set(a) ^ set(b)
for k in set(a) & set(b):
    assert a[k] == b[k], (k, a[k], b[k])
P
ends() { # ends MODEL: the second end token ends its texts
    code 0 "$LEVIN" generate "$1" --prompt-ids=1,5,7 --max-new-tokens=8 --temperature=0 --json
    json "len(d['samples'][0]['ids']) == $(cat want)"
}
ends base

# --- export, training, resuming, adapters, and exports of them ---
rate=(--optimizer.lr=1e-30)
code 0 "$LEVIN" export base exported
code 0 "$LEVIN" train --run_dir=tuned "${small[@]}" "${rate[@]}" --model.init=base --trainer.max_steps=1
cp -r tuned half
code 0 "$LEVIN" train half --resume --trainer.max_steps=2 "${rate[@]}" --schedule.kind=constant --quiet
code 0 "$LEVIN" train --run_dir=lora "${small[@]}" "${rate[@]}" --model.init=base --trainer.max_steps=1 --lora.rank=2
code 0 "$LEVIN" train --run_dir=merging "${small[@]}" "${rate[@]}" --model.init=base --trainer.max_steps=1 --lora.rank=2 --lora.merge_checkpoints=true
for run in tuned half lora merging; do
    code 0 "$LEVIN" export $run exported-$run
    python3 compare.py base $run/checkpoints/last
    python3 compare.py base exported-$run
    ends $run
    ends exported-$run
done
python3 compare.py base exported
ends exported
code 0 "$LEVIN" export lora peft --format=peft
same_file base/tokenizer.model peft/tokenizer.model
# a checkpoint's manifest names them, so that it is removed with them
says '"additional_chat_templates/rag.jinja"' half/checkpoints/last/state/manifest.json
check [ ! -e half/checkpoints/step-1 ]

# --- links out of the folder, and large files, are left out with a warning ---
cp -r base linked
echo secret >secret
ln -sf "$PWD/secret" linked/tekken.json
ln -sf "$PWD/secret" linked/chat_template.jinja
ln -sf "$PWD/secret" linked/special_tokens_map.json
rm -r linked/additional_chat_templates
ln -s "$PWD/base/additional_chat_templates" linked/additional_chat_templates
code 0 "$LEVIN" export linked out-linked
says "'linked/tekken.json' is not copied into checkpoints and exports: it is a link to a place outside the folder" err
for file in chat_template.jinja special_tokens_map.json; do
    says "'linked/$file' is a link to a file outside the folder that is no such file: it is not read" err
done
check [ ! -e out-linked/tekken.json -a ! -e out-linked/additional_chat_templates ]
check [ ! -e out-linked/chat_template.jinja -a ! -e out-linked/special_tokens_map.json ]
# those that decide ids or prompts are read through links, as tokenizer.json is
mkdir whole links
cp base/tokenizer.json base/model.safetensors whole
sed 's/"model_type": *"llama"/"model_type": "mistral"/' base/config.json >whole/config.json
echo '{"tokenizer_class": "LlamaTokenizer", "unk_token": "<unk>"}' >whole/tokenizer_config.json
echo '{% for m in messages %}{{ m.content }}{% endfor %}' >whole/chat_template.jinja
for file in whole/*; do ln -s "$PWD/$file" links; done
code 0 "$LEVIN" tokenize --tokenizer=whole <few.txt
mv out ids
code 0 "$LEVIN" tokenize --tokenizer=links <few.txt
same_file ids out
code 0 "$LEVIN" export whole out-whole
code 0 "$LEVIN" export links out-links
for file in tokenizer_config.json chat_template.jinja; do same_file out-whole/$file out-links/$file; done
# links of Hugging Face's cache are followed
mkdir -p cache/blobs cache/snapshots
cp -r base cache/snapshots/1
mv cache/snapshots/1/tokenizer.model cache/blobs/abc
ln -s ../../blobs/abc cache/snapshots/1/tokenizer.model
code 0 "$LEVIN" export cache/snapshots/1 out-cache
same_file base/tokenizer.model out-cache/tokenizer.model

# --- formats of other programs ---
for file in tokenizer.model spiece.model tekken.json qwen.tiktoken; do
    rm -rf other
    mkdir other
    cp base/config.json base/model.safetensors base/$file other
    for at in other other/$file; do
        code 1 "$LEVIN" tokenize --tokenizer=$at
        one_error
        says "/$file' is a tokenizer in the format of" err
        says "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)" err
    done
    code 1 "$LEVIN" generate other --prompt=a
    says "/$file' is a tokenizer in the format of" err
    code 0 "$LEVIN" export other out-other
    says "/$file' is a tokenizer in the format of" err
    same_file base/$file out-other/$file
    rm -r out-other
done

# --- the padding of classifiers: of config.json, else of the tokenizer, else the end token unless it ends each text ---
printf 'label\ttext\n0\tthe of\n1\ta model\n0\tone of\n1\ttwo\n0\tthe\n1\ta\n' >rows.tsv
pad() { # pad WANTED [config's member]: of a run, and of an export
    python3 - "${2-}" <<'P'
import json, sys
c = json.load(open("base/config.json")); c.pop("pad_token_id", None); c["eos_token_id"] = [2, 21]
c.update(json.loads(sys.argv[1] or "{}"))
json.dump(c, open("base/config.json", "w"))
P
    rm -rf rows out-rows
    code 0 "$LEVIN" train --run_dir=rows --model.init=base --data.path=rows.tsv --task.kind=classify --trainer.max_steps=1 \
        --trainer.batch_size=2 --trainer.val_check_interval=0 --quiet
    code 0 "$LEVIN" export rows out-rows
    for at in rows/checkpoints/last out-rows; do
        check [ "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1] + "/config.json"))["pad_token_id"])' $at)" = "$1" ]
    done
}
pad 2
pad 7 '{"pad_token_id": 7}'
pad 2 '{"pad_token_id": 700000}'
echo '{"pad_token": {"content": "<unk>"}}' >base/special_tokens_map.json
pad 0
echo '{"pad_token": "<s>"}' >base/tokenizer_config.json
pad 0
echo '{"pad_token": "<s>", "added_tokens_decoder": {}}' >base/tokenizer_config.json # without it, the other file counts
pad 1
pad 7 '{"pad_token_id": 7}'
echo '{}' >base/tokenizer_config.json
echo '{}' >base/special_tokens_map.json
python3 - <<'P'
import json
t = json.load(open("base/tokenizer.json"))
t["post_processor"] = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
json.dump(t, open("base/tokenizer.json", "w"))
P
pad None
# an export of a classifier without one
python3 - <<'P'
import json
c = json.load(open("out-rows/config.json")); del c["pad_token_id"]
json.dump(c, open("out-rows/config.json", "w"))
P
echo '{"pad_token": "<s>"}' >out-rows/tokenizer_config.json
code 0 "$LEVIN" export out-rows out-again
says '"pad_token_id": 1' out-again/config.json
