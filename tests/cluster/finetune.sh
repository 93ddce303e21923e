# A complete fine-tuning with levin's commands: a tiny GPT-2 learns C, then prose, on one rank and on three hosts over MPICH.
# Three ranks have the bits of one, the loss on prose falls, and the sample is text.
. "$LEVIN_SOURCE/tests/cluster/hosts.bash"
hosts_begin
. "$LEVIN_SOURCE/tests/cli/common.bash"
command -v mpirun.mpich >/dev/null || skip "no mpich here (tools/setup.sh --dev installs it)"
hosts_up 3
sshd_up 3
gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2

mkdir c prose
cp "$LEVIN_SOURCE"/src/run/train/*.c "$LEVIN_SOURCE"/src/files/formats/*.c c
cat "$LEVIN_SOURCE"/*.md "$LEVIN_SOURCE"/docs/*.md | split -l 20 -a 3 --additional-suffix=.txt - prose/ # many documents, so that some are used for validation
for file in c/*.c; do mv "$file" "$file.txt"; done
for what in c prose; do
    code 0 "$LEVIN" prepare text --input=$what --out=$what-tokens --tokenizer="$gpt2" --val-fraction=0.2
done

# from scratch on C, one rank
model=(--model.kind=gpt2 --model.n_layer=2 --model.n_head=2 --model.n_embd=48 --model.block_size=32 --model.dropout=0)
code 0 "$LEVIN" config base.yaml --job=scratch --data.path=c-tokens --model.size= "${model[@]}" --trainer.batch_size=16 \
    --trainer.max_steps=120 --trainer.val_check_interval=40 --trainer.limit_val_batches=8 --optimizer.lr=5e-3 \
    --schedule.warmup_steps=5 --schedule.min_lr=1e-3
code 0 "$LEVIN" train base.yaml --quiet
loss() { # loss MODEL: on the prose of the validation split
    code 0 "$LEVIN" evaluate "$1" --data.kind=tokens --data.path=prose-tokens --json
    value loss
}
before=$(loss runs/base)

# fine-tuned on prose: the recipe, the hosts file and the line are those that levin config gives
code 0 "$LEVIN" config tuned.yaml --job=finetune --model.init=runs/base --data.path=prose-tokens --hosts=h1,h2,h3 \
    --trainer.batch_size=12 --trainer.deterministic=true --trainer.max_steps=30 --trainer.val_check_interval=10 \
    --trainer.limit_val_batches=4 --optimizer.lr=2e-3 --schedule.min_lr=2e-4 --schedule.warmup_steps=3 --trainer.threads=1 --json
[ "$(value launch)" = "levin launch --hostfile tuned.hosts -n 3 -- train tuned.yaml" ] || fail "$(cat out)"
code 0 "$LEVIN" train tuned.yaml --quiet --run_dir=one
code 0 on 1 timeout -k 3 600 "$LEVIN" launch --launcher=mpich --ssh="$ssh" --hostfile tuned.hosts -n 3 -- \
    train tuned.yaml --run_dir=three
says "[0]" out
same_run one three
check [ "$(rows one)" -ge 30 ]

after=$(loss three)
echo "loss on prose: $before before, $after after"
python3 -c 'import sys; before, after = map(float, sys.argv[1:]); sys.exit(not after < before - 0.3)' "$before" "$after" ||
    fail "fine-tuning did not help"
code 0 "$LEVIN" generate three --prompt "The recipe" --max-new-tokens=40 --temperature=0.6 --top-k=50
says "The recipe" out
check [ "$(wc -c <out)" -gt 20 ]

# the comparison detects a difference
code 0 "$LEVIN" train tuned.yaml --quiet --run_dir=other --trainer.seed=7
if cmp -s one/checkpoints/last/model.safetensors other/checkpoints/last/model.safetensors; then fail "this test sees nothing"; fi
