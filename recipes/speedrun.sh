#!/bin/bash
# From raw text to a model one talks to, with a score, by one number: nanochat's depth (docs/speedrun.md).
#
#   recipes/speedrun.sh [--tiny] DEPTH [--KEY=VALUE ...]     keys of both trainings, as --trainer.accelerator=cuda
#
# Run it again to continue where it stopped; what is complete is not repeated. Variables:
#   TEXT    documents: files or a folder of .txt, .jsonl, .parquet, or hf://datasets/ORG/NAME
#   CHAT    conversations, as docs/chat.md describes them
#   TASKS   a CORE bundle or a task's .yaml (docs/evaluate.md) for a score; --tiny makes all three from texts of this machine
#   OUT     folder for everything; default: speedrun-dDEPTH        LEVIN  the program; default: levin
#   LAUNCH  starts the trainings, as "levin launch -n 3 --"; default: one process
set -euo pipefail
tiny=; [ "${1-}" != --tiny ] || { tiny=1; shift; }
depth=${1:?usage: recipes/speedrun.sh [--tiny] DEPTH [--KEY=VALUE ...]}; shift
levin=${LEVIN:-levin} launch=${LAUNCH:-$levin} out=${OUT:-speedrun-d$depth}
text=${TEXT:-$out/texts} chat=${CHAT:-$out/made/talks.jsonl} tasks=${TASKS:-${tiny:+$out/made/core}}
[ -n "${TEXT-}$tiny" ] || { echo "give documents in TEXT, as TEXT=hf://datasets/ORG/NAME or a folder, or use --tiny" >&2; exit 2; }
[ -n "${CHAT-}$tiny" ] || { echo "give conversations in CHAT, a file as docs/chat.md describes it, or use --tiny" >&2; exit 2; }
vocabulary=32768 documents=() base=() sft=(--trainer.max_epochs=1 --trainer.batch_size=16)
[ -z "$tiny" ] || { vocabulary=2048 documents=(--separator='<|endoftext|>' --val-fraction=0.02)
    base=(--model.block_size=128 --trainer.batch_size=32 --trainer.max_steps=400)
    sft=(--trainer.max_steps=200 --trainer.batch_size=16 --trainer.val_check_interval=100); }
special='<|bos|>,<|user_start|>,<|user_end|>,<|assistant_start|>,<|assistant_end|>,<|python_start|>,<|python_end|>,<|output_start|>,<|output_end|>'
pattern="'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,2}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
mkdir -p "$out/done"

stage() { # stage NAME COMMAND...: runs it, unless it has been completed; keeps its result and the seconds it took
    local name=$1 begin=$SECONDS; shift
    [ ! -e "$out/done/$name" ] || { echo "== $name: done in $(tail -1 "$out/done/$name") s"; return; }
    echo "== $name"
    "$@" | tee "$out/done/.$name"
    echo "$((SECONDS - begin))" >>"$out/done/.$name"
    mv "$out/done/.$name" "$out/done/$name"
}
train() { # train RUN KEYS...: begins the run, or continues it
    local run=$1; shift
    if [ -e "$run/checkpoints/last" ]; then $launch train "$run" --resume; else $launch train --run_dir="$run" --overwrite "$@"; fi
}
report() { # a page of both trainings; at its top what each stage printed, and how long it took
    for name in texts talks tokenizer prepare pretraining bits-per-byte score fine-tuning chat-loss chat-score; do
        [ -e "$out/done/$name" ] || continue
        echo "$name: $(tail -1 "$out/done/$name") s"
        tail -9 "$out/done/$name" | grep -E 'tokens|bpb|CORE|validation|acc|conversations' | sed 's/^/    /' || true
    done >"$out/stages.txt"
    "$levin" report "$out/base" "$out/chat" --notes="$out/stages.txt" --out="$out/report.html" --overwrite
}

[ -z "$tiny" ] || for part in texts talks; do stage $part bash "${0%.sh}_texts.sh" $part "$out"; done
stage tokenizer "$levin" tokenizer train --input="$text" --vocab-size=$vocabulary --out="$out/tokenizer" --overwrite \
    --special-tokens="$special" --pattern="$pattern"
stage prepare "$levin" prepare text --input="$text" --tokenizer="$out/tokenizer" --out="$out/tokens" "${documents[@]}" --drop-duplicates
stage pretraining train "$out/base" --data.kind=tokens --data.path="$out/tokens" --model.kind=nanochat --model.depth="$depth" \
    --trainer.precision=bf16-mixed --trainer.limit_val_batches=40 --trainer.val_check_interval=250 --checkpoint.every_n_steps=100 "${base[@]}" "$@"
stage bits-per-byte "$levin" evaluate "$out/base" --data.split=val
[ -z "$tasks" ] || stage score "$levin" evaluate "$out/base" --tasks="$tasks"
stage fine-tuning train "$out/chat" --data.kind=chat --data.path="$chat" --data.template=nanochat --model.init="$out/base" \
    --trainer.precision=bf16-mixed --optimizer.lr=5e-4 --schedule.kind=linear --checkpoint.every_n_steps=100 "${sft[@]}" "$@"
stage chat-loss "$levin" evaluate "$out/chat" --data.split=val
[ -z "$tasks" ] || stage chat-score "$levin" evaluate "$out/chat" --tasks="$tasks"
stage report report
cat "$out/stages.txt"
printf 'report: %s; talk with the model: %q chat %q\n' "$out/report.html" "$levin" "$out/chat"
