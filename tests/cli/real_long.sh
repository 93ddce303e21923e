# label: soak
# Published models and data, trained to the end: MNIST by linear layers and by convolutions, film reviews by a MiniLM.
. "$LEVIN_SOURCE/tests/cli/real.bash"
real_has mnist
for model in mlp:0.94 cnn:0.985; do
    code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-${model%:*}.yaml" --data.path="$real/mnist" --run_dir="${model%:*}" --quiet
    accuracy_of "${model%:*}" --data.split=test
    echo "mnist-${model%:*}: $accuracy of the test pictures"
    at_least "$accuracy" "${model#*:}"
done
real_reviews
real_minilm
code 0 "$LEVIN" train --model.init=minilm --task.kind=classify --data.kind=labelled --data.path=train.tsv --data.val_path=test.tsv \
    --data.tokenizer=minilm --trainer.batch_size=16 --trainer.max_epochs=2 --optimizer.lr=5e-5 --run_dir=tuned --quiet
accuracy_of tuned --data.kind=labelled --data.path=test.tsv
echo "MiniLM: $accuracy of the film reviews held back"
at_least "$accuracy" 0.82
