# data.kind=documents: a text, a folder, lines of JSON or an archive is tokenized when the run starts, with the tokenizer of the
# model, of data.tokenizer, or one that is trained on the texts.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
words=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2
small=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.batch_size=4
    --trainer.max_steps=2 --trainer.limit_val_batches=2)
tokens() { sed -n 's/^data: \([0-9,]*\) training tokens, \([0-9,]*\) for validation$/\1 \2/p' err | tr -d ,; } # TRAIN VAL

# a model whose folder has GPT-2's tokenizer is fine-tuned directly on a text, with small rates
code 0 "$LEVIN" prepare text.txt --tokenizer="$words" --out=tokens
code 0 "$LEVIN" train tokens --model.kind=gpt2 "${small[@]}" --run_dir=base
code 0 "$LEVIN" train text.txt --model.init=base --trainer.max_steps=2 --run_dir=tuned
says "'text.txt' is read as data.kind=documents, with the tokenizer of the model 'base/checkpoints/step-2'" err
check grep -q 'kind: documents' tuned/settings.yaml
check grep -q 'lr: 5e-05' tuned/settings.yaml
read -r train val <<<"$(tokens)"
python3 - "$train" "$val" <<'P'
import sys, os
train, val = map(int, sys.argv[1:])
prepared = (os.path.getsize("tokens/train.bin") + os.path.getsize("tokens/val.bin")) // 2
assert abs(train + val - prepared) <= 2 and abs(val - prepared / 10) <= 1, (train, val, prepared)
P
code 0 "$LEVIN" train tuned --resume --trainer.max_steps=3
says "continuing after step 2" err
code 0 "$LEVIN" evaluate tuned
code 0 "$LEVIN" evaluate tuned --data.path=text.txt
# so it is with BPE of characters, as SentencePiece makes it, in a folder or a GGUF file, and for a mix
code 0 "$LEVIN" prepare text.txt --tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama2" --out=pieces
code 0 "$LEVIN" train pieces --model.kind=llama "${small[@]}" --run_dir=llama
code 0 "$LEVIN" export llama sentencepiece
code 0 "$LEVIN" export llama sentencepiece.gguf --format=gguf
printf 'data:\n  mix: [{path: text.txt, weight: 1}, {path: text.txt, weight: 1}]\n' >mix.yaml
for model in sentencepiece sentencepiece.gguf; do
    for command in "train text.txt --trainer.max_steps=1 --run_dir=tuned-$model" "evaluate $model --data.path=text.txt" "plan text.txt"; do
        init=--model.init=$model
        [[ $command != evaluate* ]] || init=
        code 0 "$LEVIN" $command $init
        says "'text.txt' is read as data.kind=documents, with the tokenizer of the model '$model" err
    done
    code 0 "$LEVIN" train mix.yaml --model.init=$model --trainer.max_steps=1 --run_dir=mixed-$model
    says "'data.mix' is read as data.kind=documents, with the tokenizer of the model '$model" err
done
# with a character-level model a text is still read as characters
code 0 "$LEVIN" train text.txt "${small[@]}" --run_dir=chars
code 0 "$LEVIN" train text.txt --model.init=chars --trainer.max_steps=1 --trainer.limit_val_batches=1 --run_dir=more
check grep -q 'kind: chars' more/settings.yaml
check grep -q 'vocab_size: [1-9]' chars/settings.yaml

# .md and .py are texts, a folder is read as a whole, and what is left out is named
cp text.txt notes.md
code 0 "$LEVIN" train notes.md "${small[@]}"
says "'notes.md' is read as data.kind=chars" err
mkdir folder folder/deeper
cp text.txt folder/a.txt
cp text.txt folder/deeper/b.py
cp notes.md folder/c.md
printf '\x89PNG\x00' >folder/picture.png
echo '{"default": {"splits": {}}}' >folder/dataset_infos.json
code 0 "$LEVIN" train folder --model.init=base --trainer.max_steps=1 --run_dir=of-folder
says "'folder': 3 documents" err
silent_about "that cannot be used" err
says "skipped: 'folder/picture.png', which is no text by its name" err
printf '{"text": "one"}\n{"text": ""}\nbad\n' >folder/d.jsonl # a singular where it is one
code 0 "$LEVIN" train folder --model.init=base --trainer.max_steps=1 --run_dir=of-bad-lines
says "skipped 1 line that cannot be used" err
says "skipped 1 empty document" err
rm folder/d.jsonl
printf '{"question": "one", "reply": "two"}\n%.0s' 1 2 3 >questions.jsonl
code 1 "$LEVIN" train questions.jsonl --model.init=base --trainer.max_steps=1
says "the field is missing; choose another one with data.text_column: question, reply" err
code 0 "$LEVIN" prepare folder --tokenizer="$words" --out=prepared
says "skipped: 'folder/picture.png'" err
says "2 files skipped" out
rm folder/dataset_infos.json
code 0 "$LEVIN" tokenizer train --vocab-size=300 --input=folder --out=trained

# a text of more bytes than a batch is one document, without an end token, and threads do not change the ids
for ((i = 0; i < 12; i++)); do cat text.txt text.txt text.txt text.txt; done >long.txt
while [ "$(wc -c <long.txt)" -lt 5000000 ]; do cat long.txt long.txt >longer.txt && mv longer.txt long.txt; done
mkdir long && cp long.txt long/a.txt && cp text.txt long/b.txt && cp long.txt long/c.txt
for n in 1 3; do
    export LEVIN_CACHE=$PWD/cache-$n OMP_NUM_THREADS=$n
    code 0 "$LEVIN" train long.txt --data.kind=documents --model.init=base --trainer.max_steps=1 --run_dir=of-long --overwrite
    says "'long.txt': 1 document, " err
    code 0 "$LEVIN" train long --model.init=base --trainer.max_steps=1 --run_dir=of-long --overwrite
    says "'long': 3 documents, " err
done
unset LEVIN_CACHE OMP_NUM_THREADS
check [ "$(cat cache-1/encoded/* | cksum)" = "$(cat cache-3/encoded/* | cksum)" ]

# lines of JSON, an archive
for i in $(seq 30); do echo "{\"text\": \"one or two $i\", \"other\": \"three $i\"}"; done >lines.jsonl
code 0 "$LEVIN" train lines.jsonl --model.init=base --model.block_size=8 --trainer.max_steps=1 --run_dir=of-lines
says "'lines.jsonl': 30 documents" err
code 0 "$LEVIN" train lines.jsonl --model.init=base --model.block_size=8 --trainer.max_steps=1 --run_dir=of-others --data.kind=documents --data.text_column=other
# a document ends once: with the token of the post-processor, or the end token; as levin prepare writes it
for name in tiny-unigram tiny-llama2; do
    tokenizer=$LEVIN_SOURCE/tests/golden/tokenizers/$name
    code 0 "$LEVIN" prepare lines.jsonl --tokenizer="$tokenizer" --out=of-$name --val-fraction=0 --json
    prepared=$(value train_tokens)
    code 0 "$LEVIN" train lines.jsonl --data.kind=documents --data.tokenizer="$tokenizer" "${small[@]}" --model.block_size=8 --run_dir=run-$name
    read -r train val <<<"$(tokens)"
    check [ $((train + val)) = "$prepared" ]
done
mkdir packed && gzip -c lines.jsonl >packed/lines.jsonl.gz && gzip -c text.txt >packed/text.txt.gz
code 0 "$LEVIN" train packed --model.init=base --model.block_size=8 --trainer.max_steps=1 --run_dir=of-packed
says "'packed': 31 documents" err
tar czf texts.tar.gz folder
code 0 "$LEVIN" train texts.tar.gz --model.init=base --trainer.max_steps=1 --run_dir=of-archive
says "3 documents" err

# the tokenizer of data.tokenizer for a new model; without one, it is trained, and every checkpoint has it
code 0 "$LEVIN" train text.txt --data.tokenizer="$words" "${small[@]}" --run_dir=given
check grep -q 'kind: documents' given/settings.yaml
code 0 "$LEVIN" train folder "${small[@]}" --run_dir=own
says "no tokenizer is given: BPE was trained on 'folder'" err
check [ -s own/checkpoints/last/tokenizer.json ]
code 0 "$LEVIN" train own --resume --trainer.max_steps=3
says "continuing after step 2" err
code 0 "$LEVIN" evaluate own
code 0 "$LEVIN" generate own --max-new-tokens=3
code 2 "$LEVIN" train --data.path=text.txt --data.kind=chars --data.tokenizer="$words" "${small[@]}" --run_dir=no
says "leave it out, or set data.kind=documents" err

# ids are encoded once: by one of several ranks, not by later runs; without a cache they are the same
export LEVIN_CACHE=$PWD/cache
once=(--model.init=base --trainer.max_steps=2 --trainer.batch_size=6 --trainer.deterministic --trainer.limit_val_batches=2)
ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} code 0 "$LEVIN" launch -n 3 -- train folder "${once[@]}" --run_dir=three
check [ "$(ls cache/encoded | wc -l)" = 1 ]
made=$(stat -c %i cache/encoded/*)
code 0 "$LEVIN" train folder "${once[@]}" --run_dir=one
says "skipped: 'folder/picture.png', which is no text by its name" err
check [ "$(stat -c %i cache/encoded/*)" = "$made" ]
same_file one/checkpoints/last/model.safetensors three/checkpoints/last/model.safetensors
touch no-folder
LEVIN_CACHE=$PWD/no-folder code 0 "$LEVIN" train folder "${once[@]}" --run_dir=without
says "the encoded data stay in memory" err
same_weights one without
printf 'x' | dd of="$(ls cache/encoded/*)" bs=1 seek=200 conv=notrunc 2>/dev/null
code 0 "$LEVIN" train one --resume --trainer.max_steps=3
check [ "$(stat -c %i cache/encoded/*)" != "$made" ]
echo "and more" >>folder/a.txt
code 0 "$LEVIN" train folder "${once[@]}" --run_dir=other
check [ "$(ls cache/encoded | wc -l)" = 2 ]

# a table: WordPiece
{
    echo text,label
    for i in $(seq 60); do printf 'as good as it gets %d,pos\nboring and too long %d,neg\n' "$i" "$i"; done
} >reviews.csv
code 0 "$LEVIN" train reviews.csv --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --trainer.max_steps=2
says "no tokenizer is given: WordPiece was trained on 'reviews.csv'" err
code 0 "$LEVIN" train reviews.csv --model.init=runs/reviews --show-settings --json # rates for fine-tuning
json 'd["settings"]["optimizer.lr"]["value"] == 5e-5 and d["settings"]["trainer.max_epochs"]["value"] == 3'
code 0 "$LEVIN" train runs/reviews --resume --trainer.max_steps=3
code 0 "$LEVIN" predict runs/reviews --text="as good"
code 0 "$LEVIN" evaluate runs/reviews

# texts without any text
mkdir none && : >none/empty.txt
code 1 "$LEVIN" train none --model.init=base --run_dir=no
says "there is no text in 'none'" err
check [ ! -e no ]
