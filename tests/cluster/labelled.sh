# Texts of many lengths over one, two and four ranks: the same samples in an epoch, the same bits, the same metrics.
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
mpis_here
python3 - <<'PY'
import random
r = random.Random(2)
with open("texts.tsv", "w") as f:
    f.write("text\tlabel\n")
    for i in range(150):
        f.write(" ".join(r.choice("one two three many words of no sense".split()) for _ in range(r.randrange(1, 70))) + f"\t{('glad', 'sad', 'so so')[i % 3]}\n")
PY
run=(--model.kind=bert --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=64 --data.path=texts.tsv
    --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" --trainer.batch_size=16 --trainer.micro_batch_size=2
    --trainer.max_epochs=2 --trainer.deterministic=true --trainer.threads=1 --quiet)
measured() { sed -E 's/, "(tokens_per_s|time|memory_bytes)": [^,}]*//g' "$1/metrics.jsonl"; }
code 0 "$LEVIN" train "${run[@]}" --run_dir=one
code 0 "$LEVIN" evaluate one --data.path=texts.tsv --json
json 'd["classes"] == ["glad", "sad", "so so"]'
cp out one.json
for mpi in "${mpis[@]}"; do
    for n in 2 4; do
        code 0 ranks "$mpi" $n "$LEVIN" train "${run[@]}" --run_dir="$mpi-$n"
        same_weights one "$mpi-$n"
        same_file one/checkpoints/last/config.json "$mpi-$n/checkpoints/last/config.json"
        diff <(measured one) <(measured "$mpi-$n") || fail "$n ranks measure something else than one"
    done
    code 0 ranks "$mpi" 2 "$LEVIN" evaluate one --data.path=texts.tsv --json
    same_file out one.json
done
