# Runs that an older levin wrote resume with that program's bits, whatever keys their recorded settings have.
. "$LEVIN_SOURCE/tests/cli/common.bash"
tar xf "$LEVIN_SOURCE/tests/data/old-runs.tar.gz"
tools=$LEVIN_SOURCE/tests/cli
python3 "$tools/drawn_digits.py" "$(mkdir digits && echo digits)" 24 10

# Of runs on images only the settings were kept: they replace the settings of new runs.
for run in autoencoder mlp cnn; do
    mv $run/settings.yaml $run.yaml
    rm -r $run
    "$LEVIN" train $run.yaml --run_dir=$run --trainer.max_steps=2 --quiet
    cp $run.yaml $run/settings.yaml
done
# All of them have keys that levin no longer has, with values that have no effect.
check grep -q '^  digits: 2$' gpt2/settings.yaml
check grep -q '^  clean: none$' bert/settings.yaml
# Adapters first: they need their unchanged base.
for run in lora gpt2 nanogpt mingpt neox llama mistral qwen2 qwen3 bert mlm autoencoder mlp cnn; do
    code 0 "$LEVIN" train --resume $run --trainer.max_steps=4
    silent_about "warning:" err
done
python3 "$tools/run_digest.py" autoencoder bert cnn gpt2 llama lora mingpt mistral mlm mlp nanogpt neox qwen2 qwen3 >found.txt
cut -d' ' -f1,3- expected.txt >losses.expected
cut -d' ' -f1,3- found.txt >losses.found
# The runs used exp, log and tanh of glibc 2.36; the last bits of other versions may differ.
if ldd --version | head -1 | grep -q ' 2\.36$'; then
    diff expected.txt found.txt || fail "a resumed run has other bits"
else
    python3 - <<'PY' || fail "a resumed run has other losses"
for a, b in zip(open("losses.expected"), open("losses.found"), strict=True):
    a, b = a.split(), b.split()
    assert a[0] == b[0] and len(a) == len(b), (a, b)
    assert all(abs(float(x) - float(y)) < 1e-4 for x, y in zip(a[1:], b[1:])), (a, b)
PY
fi
check [ "$(wc -l <found.txt)" = 14 ]

# The data kind of a run no longer exists.
code 2 "$LEVIN" train --resume adder --trainer.max_steps=5
says "adder/settings.yaml:16: data.kind adder is not supported: examples/adder.c makes sums, as data of a program" err

# A key of another kind at its default passes, as every old run has some; at another value it is refused by name.
sed -i 's/^  max_length: 0$/  max_length: 3/' gpt2/settings.yaml
code 2 "$LEVIN" train --resume gpt2 --trainer.max_steps=5
says "data.max_length (3) is a key of data.kind=labelled or chat, and the data are of the kind chars: leave it out" err
sed -i 's/^  max_length: 3$/  cleaned: nsmc/' gpt2/settings.yaml
code 2 "$LEVIN" train --resume gpt2 --trainer.max_steps=5
says "unknown key 'data.cleaned'" err
# A key that levin has no more, at a value that changed something: what to do is said, and it works.
bert=$(readlink -f bert/checkpoints/last)
sed -i 's/^  max_length: 0$/  clean: nsmc\n  max_length: 0/' bert/settings.yaml
code 2 "$LEVIN" train --resume bert --trainer.max_steps=5
says "data.clean (nsmc) is an option of older versions, and only none is accepted; data.replace with the list of recipes/nsmc-small.yaml does what nsmc did" err
says "from a copy of its checkpoint without the folder state/, as model.init" err
cp -r "$bert" copy
rm -r copy/state
"$LEVIN" train "$LEVIN_SOURCE/recipes/nsmc-small.yaml" --show-settings --json >nsmc.json
replace=$(python3 -c 'import json; print(json.load(open("nsmc.json"))["settings"]["data.replace"]["value"])')
code 0 "$LEVIN" train --model.init=copy --data.path=rows.tsv --data.replace="$replace" --trainer.max_steps=1 --run_dir=further --quiet
grep -qF 'with: "\\1\\1"}' further/checkpoints/last/state/settings.yaml || fail "data.replace was not recorded"
