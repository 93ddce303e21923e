# Data files of other programs: shards of llm.c and modded-nanogpt, nanoGPT's folder, files of NumPy. They are read as
# what they are, or refused.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
cp -r "$LEVIN_SOURCE/tests/data/foreign" .
cd foreign
short=(--model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --trainer.batch_size=4 --trainer.max_steps=1)
refuses() { # refuses CODE SENTENCE [arguments]: levin train
    local wanted=$1 sentence=$2
    shift 2
    code "$wanted" "$LEVIN" train --run_dir=none "${short[@]}" "$@"
    says "$sentence" err
    one_error
    [ ! -e none ] || fail "a run folder was left by: $*"
}
header() { # header MAGIC VERSION TOKENS: 256 int32
    python3 -c 'import array, sys; sys.stdout.buffer.write(array.array("i", [int(x) for x in sys.argv[1:]] + [0] * 253).tobytes())' "$@"
}

# --- shards with a header ---
for file in llmc.bin modded-nanogpt.bin; do
    code 0 "$LEVIN" train $file --run_dir="run-$file" "${short[@]}"
    says "data: 120 training tokens" err
    says "vocabulary 50304 (GPT-2's, assumed; largest id 49861)" err
done
code 0 "$LEVIN" train llmc-llama3.bin --run_dir=llama3 "${short[@]}"
says "data: 120 training tokens" err
check grep -q '"vocab_size": 128256' llama3/checkpoints/last/config.json
# the ids are those after the header: the same training as on a file without it
for width in 2 4; do
    [ $width = 2 ] && file=llmc dtype=uint16 || file=llmc-llama3 dtype=uint32
    tail -c +1025 $file.bin >bare.bin
    echo "{\"dtype\": \"$dtype\", \"vocab_size\": 50257}" | tee $file.bin.json >bare.bin.json
    code 0 "$LEVIN" train bare.bin --run_dir=bare$width "${short[@]}"
    code 0 "$LEVIN" train $file.bin --run_dir=headed$width "${short[@]}"
    same_file bare$width/checkpoints/last/model.safetensors headed$width/checkpoints/last/model.safetensors
    rm $file.bin.json
done
head -c 1262 llmc.bin >cut.bin
refuses 1 "'cut.bin' has a header that counts 120 tokens of 2 bytes, and 238 bytes follow it: the file is damaged or cut off" cut.bin
(cat llmc.bin && printf 'ab') >long.bin
refuses 1 "counts 120 tokens of 2 bytes, and 242 bytes follow it" long.bin
header 20240520 1 2147483647 >huge.bin
refuses 1 "counts 2147483647 tokens of 2 bytes, and 0 bytes follow it" huge.bin
header 20240520 1 -1 >negative.bin
refuses 1 "counts -1 tokens of 2 bytes" negative.bin
head -c 1022 negative.bin >short.bin
refuses 1 "'short.bin' has a header that counts -1 tokens of 2 bytes, and 0 bytes follow it" short.bin
header 20240520 1 0 >nothing.bin
refuses 1 "'nothing.bin' has a header and no tokens" nothing.bin
head -c 700 llmc.bin >half.bin
refuses 1 "and 0 bytes follow it" half.bin
header 20240520 2 0 >version.bin
refuses 1 "has the header of llm.c for tokens of GPT-2 in version 2; levin reads version 1" version.bin
header 20240326 3 1024 >model.bin
refuses 1 "'model.bin' is a file of llm.c with a model, and no token file" model.bin
echo '{"dtype": "uint32"}' >llmc.bin.json
refuses 1 "'llmc.bin' has a header for uint16 ids, and its .json states uint32" llmc.bin
rm llmc.bin.json

# --- wider ids without a description ---
refuses 1 "'numpy-uint32.bin' seems to hold uint32 ids: as uint16 every second id is 0, and the others are up to 49861" numpy-uint32.bin
says '{"dtype": "uint32"} to '"'numpy-uint32.bin.json'" err
cp numpy-uint32.bin described.bin
echo '{"dtype": "uint32"}' >described.bin.json
code 0 "$LEVIN" train described.bin --run_dir=described "${short[@]}"
says "data: 120 training tokens" err
python3 - <<'END'
import array
ids = [i * 419 % 50257 for i in range(120)]
open("int64.bin", "wb").write(array.array("q", ids).tobytes())
open("large.bin", "wb").write(array.array("I", [2 * i + 65500 * (i % 3) for i in ids]).tobytes())
open("characters.bin", "wb").write(array.array("I", [i % 65 for i in ids]).tobytes())
open("small.bin", "wb").write(array.array("H", [i % 3 for i in ids]).tobytes()) # small ids are not mistaken for halves of wider ids
END
refuses 1 "'int64.bin' seems to hold int64 ids" int64.bin
says "astype('uint16').tofile('int64.bin')" err
refuses 1 "'large.bin' seems to hold uint32 ids: as uint16 every second id is below 16" large.bin
refuses 1 "'characters.bin' seems to hold uint32 ids" characters.bin
code 0 "$LEVIN" train small.bin --run_dir=small "${short[@]}"
says "vocabulary 50304 (GPT-2's, assumed; largest id 2)" err
echo '{"dtype": "uint16"}' >characters.bin.json # a stated type is used
code 0 "$LEVIN" train characters.bin --run_dir=stated "${short[@]}"
says "data: 240 training tokens" err

# --- nanoGPT's folder: the vocabulary is in meta.pkl ---
code 0 "$LEVIN" train nanogpt --run_dir=shakespeare "${short[@]}"
says "data: 151 training tokens, 17 for validation" err
check grep -q '"vocab_size": 16' shakespeare/checkpoints/last/config.json
check test -f shakespeare/checkpoints/last/tokenizer.json
code 0 "$LEVIN" generate shakespeare --prompt="to be" --max-new-tokens=5
says "to be" out
code 2 "$LEVIN" generate shakespeare --prompt="to be!" --max-new-tokens=5
says "the character '!'" err
code 0 "$LEVIN" train nanogpt/val.bin --run_dir=part "${short[@]}" --model.block_size=8
check grep -q '"vocab_size": 16' part/checkpoints/last/config.json
# one that cannot be used is named, and the ids suffice
for case in "{'vocab_size': 20}|has no dict 'itos'|20" "{'vocab_size': 16, 'itos': {i: str(i) for i in range(16)}}|distinct characters|16" \
    "{'itos': {i: chr(97 + i) for i in range(5)}, 'vocab_size': 16}|no character for the id 5|16" "[1, 2]|has no valid integer vocab_size|50304" \
    "__import__('collections').Counter('ab')|contains a call of collections.Counter|50304" "range(3)|contains a call of builtins.range|50304"; do
    python3 -c "import pickle; pickle.dump(${case%%|*}, open('nanogpt/meta.pkl', 'wb'))"
    rest=${case#*|}
    code 0 "$LEVIN" train nanogpt --run_dir=other --overwrite "${short[@]}"
    says "warning: the vocabulary of 'nanogpt/meta.pkl' is not used: " err
    says "${rest%|*}" err
    check grep -q "\"vocab_size\": ${rest##*|}" other/checkpoints/last/config.json
done
# a description of the file itself is used in its place
echo '{"vocab_size": 30}' >nanogpt/train.bin.json
code 0 "$LEVIN" train nanogpt --run_dir=beside "${short[@]}"
silent_about meta.pkl err
check grep -q '"vocab_size": 30' beside/checkpoints/last/config.json

# --- other formats ---
refuse_tokens() { # refuse_tokens SENTENCE FILE
    refuses 1 "$1" --data.kind=tokens --data.path="$2"
}
seq 1000 >text.txt
refuse_tokens "'text.txt' is a text, and data.kind=tokens reads token ids: \`levin prepare text.txt --tokenizer=" text.txt
cp text.txt text.bin
refuses 1 "'text.bin' is a text" text.bin
echo '{"text": "a"}' >lines.jsonl
refuse_tokens "'lines.jsonl' is a text" lines.jsonl
cp small.bin archive.gz
refuse_tokens "'archive.gz' is an archive" archive.gz
cp small.bin table.parquet
refuse_tokens "'table.parquet' has the name of another format" table.parquet
for case in 'PK\3\4:a zip archive' '\x89HDF\r\n:an HDF5 file' 'PAR1:a Parquet file' '\x80\2\x8a\nl\xfc:a file of torch.save()'; do
    (printf "${case%%:*}" && head -c 200 small.bin) >other.bin
    refuses 1 "'other.bin' is ${case#*:}" other.bin
done
cp small.bin ids.u16 # an unknown extension is not refused
code 0 "$LEVIN" train --run_dir=unnamed --data.kind=tokens --data.path=ids.u16 "${short[@]}"

# --- a model without a tokenizer, and a text ---
refuses 2 "the tokens of the data ('text.txt') are 11 characters, and the model 'small/checkpoints/" text.txt --model.init=small --model.block_size=8
says "has 50304 tokens and no tokenizer: the same ids mean other words" err
code 2 "$LEVIN" evaluate small --data.kind=chars --data.path=text.txt
says "no tokenizer: the same ids mean other words" err

# --- tables of pandas: quotes have a meaning only in a .csv ---
bert=(--model.kind=bert --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" "${short[@]}" --data.val_fraction=0)
code 0 "$LEVIN" train pandas.csv --run_dir=csv "${bert[@]}" --trainer.val_check_interval=0
silent_about warning err
code 0 "$LEVIN" predict csv --input=pandas.csv
says 'He said "no" 1' out
code 0 "$LEVIN" train pandas.tsv --run_dir=tsv "${bert[@]}" --trainer.val_check_interval=0
says "warning: 'pandas.tsv': 6 of the 6 cells that begin with a quotation mark end with one and have doubled ones inside" err
says "save the table as .csv" err
printf 'text\tlabel\n"so" he said\t0\n"Yes"\t1\n"a ""b"" c"\t1\n' >some.tsv # most of them are ordinary
code 0 "$LEVIN" train some.tsv --run_dir=some "${bert[@]}" --trainer.val_check_interval=0
silent_about "quotation" err
