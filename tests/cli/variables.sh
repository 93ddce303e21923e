# Unknown variables LEVIN_... cause one warning; those that levin reads cause none.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
LEVIN_OPTIMISER_LR=1 code 0 "$LEVIN" plan --model.n_layer=1 --model.n_head=1 --model.n_embd=8
says "warning: the variable LEVIN_OPTIMISER_LR is set, but levin has no such variable; did you mean LEVIN_OPTIMIZER_LR?" err
LEVIN_ISA=sse9 code 0 "$LEVIN" help
says "warning: LEVIN_ISA is 'sse9', which is none of generic, avx2, " err
LEVIN_ISA=generic code 0 "$LEVIN" help
silent_about "LEVIN_ISA" err
LEVIN_WHATEVER=1 code 0 "$LEVIN" plan --model.n_layer=1 --model.n_head=1 --model.n_embd=8
says "LEVIN_WHATEVER is set, but levin has no such variable: \`levin help options\` lists the keys" err
LEVIN_OPTIMIZER_LR=1e-3 code 0 "$LEVIN" plan --model.n_layer=1 --model.n_head=1 --model.n_embd=8
silent_about "levin has no such variable" err
LEVIN_WHATEVER=1 code 2 "$LEVIN" plan -n1
says "error: unknown option '-n1'" err # the warning does not hide the error
# all variables that the sources read
read_by_levin=$(grep -rhoE '(getenv|lvn_variable|lvn_cuda_switch)\("LEVIN_[A-Z_]+"|= \{"LEVIN_[A-Z_]+"' "$LEVIN_SOURCE/src" | grep -oE 'LEVIN_[A-Z_]+' | sort -u)
check [ "$(wc -l <<<"$read_by_levin")" -gt 8 ]
for name in $read_by_levin; do
    code 0 env "$name=" "$LEVIN" plan --model.n_layer=1 --model.n_head=1 --model.n_embd=8
    silent_about "levin has no such variable" err
done
