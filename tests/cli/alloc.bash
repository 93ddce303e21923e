# alloc.bash - commands in which allocations are made to fail, one in each run: see tests/alloc_sweep. Sourced after
# common.bash by tests/cli/alloc.sh, which takes some of the allocations, and by tests/cluster/alloc_soak.sh, which takes
# nearly all.
library=$(dirname "$LEVIN")/tests/double/failing_malloc.so
[ -e "$library" ] || { echo "skipped: there is no $library"; exit 77; }
# One thread: allocations come in the same order each time. A run would record the folder in which it was started. A sanitizer must be the first library, and would not be.
export OMP_NUM_THREADS=1 LEVIN_DATA_FOLDER=/ ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}

# What the commands read: text/, rows/ (a jsonl and a tsv file with a bad row each), run/ (a run of a character model), talks/
# (conversations in columns of JSON).
make_text
mkdir text rows char talks
head -c 6000 text.txt >text/text.txt
cp text/text.txt char
cp -r "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" rows/vocab
cp "$LEVIN_SOURCE/tests/golden/tokenizers/tiny-llama3/tokenizer.json" "$LEVIN_SOURCE/tests/golden/parquet/json.parquet" talks
echo "{% for m in messages %}{{ m.role }}{{ m.content }}{{ (m.tool_calls or []) | tojson }}{{ tools | tojson }}{% endfor %}" >talks/chat_template.jinja
awk 'BEGIN {
    split("the a of to and in was it for on with as be at by I this had not are", word, " ")
    print "text\tlabel" >"rows/rows.tsv"
    for (i = 0; i < 40; i++) {
        text = word[i % 20 + 1]
        for (k = i * 7 % 27; k > 0; k--) text = text " " word[(i * k) % 20 + 1]
        print (i == 7 ? "bad" : text "\t" i % 2) >"rows/rows.tsv"
        print (i == 7 ? "[1]" : "{\"text\": \"" text "\", \"label\": " i % 2 "}") >"rows/rows.jsonl"
    }
}'
small=(--trainer.max_steps=4 --trainer.val_check_interval=2 --trainer.limit_val_batches=2 --checkpoint.every_n_steps=2
    --trainer.batch_size=4 --quiet)
char=("${small[@]}" --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=16 --data.path=text.txt)
bert=("${small[@]}" --model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=32
    --data.tokenizer=vocab --data.skip_bad_rows=true --run_dir=run)
(cd char && "$LEVIN" train "${char[@]}" --run_dir=run) >/dev/null 2>&1
cp -r rows classes
(cd classes && "$LEVIN" train "${bert[@]}" --data.path=rows.tsv) >/dev/null 2>&1

bad=
# sweep THINNED WHOLE [OPTION...] FOLDER COMMAND...: every THINNED-th allocation of `levin COMMAND` in copies of FOLDER,
# or every WHOLE-th where $whole is set. Continues after a failure, so that all failures are shown.
sweep() {
    local every=${whole:+$2} options=()
    : "${every:=$1}"
    [ -z "${LVN_SANITIZE:-}" ] || every=$((every * 10))
    shift 2
    while [ "${1#--}" != "$1" ]; do options+=("$1") && shift; done
    local folder=$1
    shift
    "$LEVIN_SOURCE/tests/alloc_sweep" --every "$every" ${options[@]+"${options[@]}"} "$library" "$folder" -- "$LEVIN" "$@" ||
        bad=1
}

sweep 3 1 text prepare text.txt --out=out
sweep 3 1 text prepare text.txt --out=out --shard-size=1000
sweep 17 1 char export run out
sweep 19 1 text tokenizer train --input=text.txt --vocab-size=270 --out=out --quiet
sweep 19 1 text tokenizer train --kind=wordpiece --input=text.txt --vocab-size=140 --out=out --quiet
sweep 29 1 --stdout talks tokenize --chat=json.parquet --tokenizer=. --json
sweep 149 10 rows train "${bert[@]}" --data.path=rows.jsonl
sweep 149 10 rows train "${bert[@]}" --data.path=rows.tsv
sweep 149 10 char train "${char[@]}" --run_dir=new
sweep 211 10 char train "${char[@]/max_steps=4/max_steps=8}" --run_dir=run --resume
# A checkpoint of adapters names its base by its absolute path, so the base is outside of the copies.
sweep 149 10 char train "${small[@]}" --model.init="$PWD/char/run" --data.path=text.txt --lora.rank=2 --run_dir=new
sweep 67 1 --stdout char generate run --prompt=the --max-new-tokens=8 --json
sweep 67 1 --stdout char evaluate run --data.path=text.txt --json
sweep 67 1 --stdout classes predict run --text="the a of to" --json
sweep 67 1 --stdout --input=text.txt rows tokenize --tokenizer=vocab
sweep 67 3 char plan "${char[@]}" --json
sweep 67 1 char config my.yaml --data.path=text.txt
sweep 67 1 char cp --recursive run copy
[ -z "$bad" ]
