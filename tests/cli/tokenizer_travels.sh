# Checkpoints and exports contain the tokenizer of the data, so prompts are text there; another tokenizer is refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
golden=$LEVIN_SOURCE/tests/golden/tokenizers
cat "$LEVIN_SOURCE"/src/text/data/*.c >text.txt
small=(--data.kind=tokens --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.max_steps=4
    --trainer.batch_size=4 --trainer.limit_val_batches=4 --checkpoint.every_n_steps=0)

# Files that other programs read in addition to the vocabulary are copied unchanged.
companions=(tokenizer_config.json special_tokens_map.json added_tokens.json chat_template.jinja additional_chat_templates/tool_use.jinja)
for kind in tiny-gpt2 tiny-llama3; do
    mkdir -p source-$kind/additional_chat_templates
    cp "$golden/$kind"/* source-$kind
    for file in "${companions[@]}"; do [ -f source-$kind/$file ] || echo "{\"of\": \"$kind\"}" >source-$kind/$file; done
    echo '{}' >source-$kind/added_tokens.json
    code 0 "$LEVIN" prepare text.txt --tokenizer=source-$kind --out=$kind
    code 0 "$LEVIN" train --run_dir=run-$kind "${small[@]}" --data.path=$kind --sample.every_n_steps=4 --sample.prompt='static int' \
        --sample.max_new_tokens=5
    says 'static int' run-$kind/samples.txt
    code 0 "$LEVIN" generate run-$kind --prompt='return (é😀' --max-new-tokens=20 --ignore-eos --json
    json 'len(d["samples"][0]["ids"]) == 20 and isinstance(d["samples"][0]["text"], str)'
    code 0 "$LEVIN" generate run-$kind --prompt='return (é😀' --max-new-tokens=20
    says 'return (é😀' out
    check iconv -f UTF-8 -t UTF-8 out -o /dev/null
    code 0 "$LEVIN" export run-$kind export-$kind
    code 0 "$LEVIN" generate export-$kind --prompt='return' --max-new-tokens=3
    says return out
    for file in "${companions[@]}"; do
        for copy in $kind run-$kind/checkpoints/last export-$kind; do same_file source-$kind/$file $copy/$file; done
    done
    python3 - "$golden/$kind" run-$kind/checkpoints/last export-$kind <<'P'
import json, os, sys
one = sys.argv[1] + "/tokenizer.json"
words = {t["content"]: t["id"] for t in json.load(open(one))["added_tokens"]} if os.path.exists(one) else \
    json.load(open(sys.argv[1] + "/vocab.json"))
end = words["<|endoftext|>"]
for model in sys.argv[2:]:
    c = json.load(open(model + "/config.json"))
    assert c["eos_token_id"] == end, (model, end, c)
P
done
# tokens that the model's own config.json names are kept
sed -i 's/"eos_token_id": [0-9]*/"eos_token_id": [7, 8]/' export-tiny-gpt2/config.json
code 0 "$LEVIN" export export-tiny-gpt2 again
says '"eos_token_id": [7, 8]' again/config.json
same_file tiny-gpt2/vocab.json run-tiny-gpt2/checkpoints/last/vocab.json
same_file tiny-gpt2/merges.txt export-tiny-gpt2/merges.txt
same_file "$golden/tiny-llama3/tokenizer.json" export-tiny-llama3/tokenizer.json

# the same id is another word in another vocabulary
code 2 "$LEVIN" train --run_dir=other "${small[@]}" --model.init=run-tiny-llama3 --data.path=tiny-gpt2
says "different vocabularies" err
code 0 "$LEVIN" bench --steps=1 --data.kind=tokens --model.init=run-tiny-llama3 --data.path=tiny-gpt2 # needs no data, and closes these
code 0 "$LEVIN" train --run_dir=same --data.kind=tokens --model.init=run-tiny-gpt2 --data.path=tiny-gpt2 --trainer.max_steps=1 \
    --trainer.batch_size=4 --trainer.limit_val_batches=4
code 0 "$LEVIN" train --run_dir=padded --data.kind=tokens --model.init=run-tiny-gpt2 --model.vocab_size=512 --data.path=tiny-gpt2 \
    --trainer.max_steps=1 --trainer.batch_size=4 --trainer.limit_val_batches=4
says "the tokenizer has 500 tokens, and the model 'run-tiny-gpt2" err
says "512 rows: no text has the other rows" err
cp "$golden"/tiny-gpt2/* tiny-llama3
rm tiny-llama3/tokenizer.json
code 1 "$LEVIN" train --run_dir=mixed "${small[@]}" --data.path=tiny-llama3
says "was made with another tokenizer" err

# without a tokenizer ids are printed
rm export-tiny-gpt2/vocab.json
code 2 "$LEVIN" generate export-tiny-gpt2 --prompt=x
says "--prompt-ids" err
