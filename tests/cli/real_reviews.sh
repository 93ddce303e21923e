# label: long
# A published MiniLM starts to learn film reviews: after 30 steps its accuracy is above chance.
. "$LEVIN_SOURCE/tests/cli/real.bash"
real_reviews
real_minilm
awk 'NR == 1 || NR % 5 == 0' test.tsv >some.tsv # 102 of one class, 110 of the other
code 0 "$LEVIN" train --model.init=minilm --task.kind=classify --data.kind=labelled --data.path=train.tsv --data.val_path=some.tsv \
    --data.tokenizer=minilm --trainer.batch_size=16 --trainer.max_steps=30 --optimizer.lr=5e-5 --schedule.warmup_steps=5 \
    --trainer.val_check_interval=0 --checkpoint.every_n_steps=0 --trainer.seed=1 --run_dir=tuned
accuracy_of tuned --data.kind=labelled --data.path=some.tsv
at_least "$accuracy" 0.58
for file in tokenizer_config.json special_tokens_map.json; do same_file minilm/$file tuned/checkpoints/last/$file; done
code 0 "$LEVIN" predict tuned --text="A gorgeous, witty film." --text="Dull, and far too long." --json
json 'len(d["predictions"]) == 2'
