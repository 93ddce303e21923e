# The adder's recipe learns to add: at least 99 of 100 held-out sums come out right.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
unset OMP_WAIT_POLICY
code 0 "$LEVIN" train "$LEVIN_SOURCE/recipes/adder.yaml" --run_dir=adder --json
cat out
# A digit of a held-out sum that has more than half of the probability is the one that greedy generation takes. That
# the others count as wrong is on the safe side.
code 0 "$LEVIN" evaluate adder --token-losses --json
python3 - <<'P'
import json, math
sums = json.load(open("out"))["token_losses"]
assert len(sums) == 500 and all(len(s) == 6 for s in sums)
assert all(s[:3] == [0, 0, 0] for s in sums), "the digits of the problem count"
right = sum(all(loss < math.log(2) for loss in s[3:]) for s in sums)
print(right, "of", len(sums), "held-out sums are right")
assert right >= 0.99 * len(sums)
P
# and so it is when they are generated, with the answer from the last digit to the first
wrong=0
for i in $(seq 40); do
    a=$((i * 37 % 100)) b=$((i * i * 11 % 100))
    code 0 "$LEVIN" generate adder --prompt="$(printf '%02d%02d' $a $b)" --max-new-tokens=3 --temperature=0 --json
    want=$(printf '%03d' $((a + b)) | rev)
    [ "$(python3 -c 'import json; print(json.load(open("out"))["samples"][0]["text"])')" = "$want" ] || wrong=$((wrong + 1))
done
check [ $wrong -le 1 ]
