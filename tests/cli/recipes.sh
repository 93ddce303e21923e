# Every recipe loads, its plan is made, its settings load back, and it can be benched without its data.
. "$LEVIN_SOURCE/tests/cli/common.bash"

for recipe in "$LEVIN_SOURCE"/recipes/*.yaml; do
    name=$(basename "$recipe" .yaml)
    code 0 "$LEVIN" train "$recipe" --show-settings --json
    json "d['settings']['name']['value'] == '$name' and d['settings']['run_dir']['value'] == 'runs/$name'"
    code 0 "$LEVIN" train "$recipe" --show-settings
    says "$recipe:" out
    code 0 "$LEVIN" plan "$recipe" --json --trainer.batch_size_per_device=0 --model.block_size=16
    json 'd["parameters"] > 1000 and d["memory"]["total"] > d["arena_bytes"] > 0 and d["program"] and d["fits"]'
done
[ ! -e runs ]

# Numbers of parameters are those of the papers and papers' programs.
parameters() { # parameters WANTED KEYS...
    local wanted=$1
    shift
    code 0 "$LEVIN" plan --json --trainer.batch_size=1 "$@"
    json "d['parameters'] == $wanted"
}
parameters 124439808 --model.kind=gpt2 --model.size=gpt2 --model.vocab_size=50257 --model.block_size=1024
parameters 354823168 --model.kind=gpt2 --model.size=gpt2-medium --model.vocab_size=50257 --model.block_size=1024
parameters 4958736 --model.kind=mingpt --model.size=gpt-nano --model.vocab_size=50257 --model.block_size=1024 # 2,546,400 and its head

code 0 "$LEVIN" bench "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --steps=2 --trainer.batch_size=2 --json
json '0 < d["best_s"] <= d["median_s"] and d["tokens_per_s"] > 0 and d["utilisation"] > 0 and d["peak_bytes"] > 1e6 and d["matmul_gflops"] > 0'
code 0 "$LEVIN" bench --steps=1 --model.n_layer=1 --model.n_embd=24 --trainer.batch_size=1 --optimizer.lr=1e-4 --schedule.kind=exponential
says "peak memory" out

code 0 "$LEVIN" plan "$LEVIN_SOURCE/recipes/shakespeare-char-cpu.yaml" --schedule --json
json 'len(d["lr"]) == 2000 and abs(d["lr"][0] - 1e-3 / 101) < 1e-12 and abs(d["lr"][100] - 1e-3) < 1e-12 and max(d["lr"]) <= 1e-3 and 1e-4 <= d["lr"][1999] < 1.01e-4'
code 2 "$LEVIN" plan --schedule --trainer.max_epochs=2
says "the number of steps is not known" err
