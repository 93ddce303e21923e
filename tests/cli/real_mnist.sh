# label: long
# MNIST's own files: an epoch of three linear layers.
. "$LEVIN_SOURCE/tests/cli/real.bash"
real_has mnist
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/mnist-mlp.yaml" --data.path="$real/mnist" --trainer.max_epochs=1 --run_dir=mlp
says "data: 55,000 training samples, 5,000 for validation" err
accuracy_of mlp --data.split=test
at_least "$accuracy" 0.88
json 'd["samples"] == 10000 and sum(map(sum, d["confusion"])) == 10000'
