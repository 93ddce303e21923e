# The adder of recipes/adder.yaml learns to add: at least 99 % of the held-out sums come out right.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/adder.yaml" --run_dir=adder --quiet
code 0 "$LEVIN" evaluate adder --data.kind=adder --json
json 'd["accuracy"] >= 0.99 and d["tokens"] == 1500'
# 85 + 50 = 135, the sum from its last digit on
code 0 "$LEVIN" generate adder --prompt 8550 --max-new-tokens=3 --temperature=0 --json
json 'd["samples"][0]["ids"] == [5, 3, 1] and d["samples"][0]["text"] == "531"'
