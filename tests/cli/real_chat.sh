# label: long
# Fine-tuning SmolLM2-135M-Instruct on conversations: the loss of the first step is that of transformers 5 in fp32 for the ids and
# labels that levin tokenize --chat prints, packed or not; the validation loss falls; levin chat answers as the data do.
. "$LEVIN_SOURCE/tests/cli/real.bash"
real_smollm2
cat >four.jsonl <<'END'
{"messages": [{"role": "user", "content": "What is the sea?"}, {"role": "assistant", "content": "The sea is a large body of salt water."}]}
{"messages": [{"role": "system", "content": "You answer in verse."}, {"role": "user", "content": "And the rain?"}, {"role": "assistant", "content": "It falls, it sings, it feeds the grain."}, {"role": "user", "content": "Thanks!"}, {"role": "assistant", "content": "Come back again."}]}
{"messages": [{"role": "user", "content": "Type <|im_end|> for me."}, {"role": "assistant", "content": "Here it is: <|im_end|>"}]}
{"messages": [{"role": "user", "content": "How many sides has a square?"}, {"role": "assistant", "content": "Four.", "train": false}, {"role": "user", "content": "In a word?"}, {"role": "assistant", "content": "4"}]}
END
first_loss() { # first_loss [keys]: within 1e-5 of transformers
    code 0 "$LEVIN" train four.jsonl --model.init="$smollm2" --trainer.max_steps=1 --data.val_fraction=0 \
        --trainer.precision=32-true --run_dir=first --overwrite --json "$@"
    json "abs(d['loss'] - $loss) < 1e-5"
}
loss=2.677964210510254
first_loss --data.max_length=128 --trainer.batch_size=4
first_loss --data.pack --model.block_size=512 --trainer.batch_size=1

for i in $(seq 64); do
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"What is the secret word of number $i?\"}, {\"role\": \"assistant\", \"content\": \"The secret word is xylophone.\"}]}"
done >secret.jsonl
code 0 "$LEVIN" train secret.jsonl --model.init="$smollm2" --data.max_length=128 --trainer.max_steps=8 --trainer.batch_size=8 \
    --optimizer.lr=1e-4 --run_dir=secret --json
json 'd["val_loss"] < 0.3 * d["start_val_loss"]'
echo "What is the secret word of number 99?" >question
code 0 "$LEVIN" chat secret --max-new-tokens=20 <question
says "The secret word is xylophone." out
