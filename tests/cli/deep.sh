# Models of very many layers: thousands are planned, a config.json that asks for too many is refused before the model
# is built, and a signal ends long planning.
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"
deep=(--model.n_head=2 --model.n_embd=16 --model.block_size=16 --data.kind=tokens --data.path=none)
code 0 timeout 120 "$LEVIN" plan --program --json --model.n_layer=1000 "${deep[@]}"
python3 -c 'import json; d = json.load(open("out")); assert sum(r["name"].endswith("attention:0") for r in d["program"]) == 2000'
# building a program takes time in proportion to its instructions: 4,096 layers with each kind of recomputation, and on ranks
for how in --trainer.recompute=none --trainer.recompute=cheap --trainer.recompute=blocks "--ranks=4 --trainer.recompute=cheap"; do
    code 0 timeout 120 "$LEVIN" plan --json --model.n_layer=4096 $how "${deep[@]}"
done
make_text
train run >out 2>err
code 0 "$LEVIN" export run model
sed -i 's/"n_layer": *[0-9]*/"n_layer": 10000/' model/config.json
code 1 timeout 60 "$LEVIN" plan --model.init=model
one_error
says "that has 10000 layers, and" err
timed "$LEVIN" plan --model.n_layer=10000 "${deep[@]}"
"$LEVIN" plan --model.n_layer=10000 "${deep[@]}" >out 2>err &
pid=$!
sleep "$(awk -v took=$took 'BEGIN { print took < 1.2e6 ? took / 4e6 : 0.3 }')"
kill -TERM $pid
ended
check [ $got = 143 ] # killed by the signal
