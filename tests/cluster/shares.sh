# trainer.shares: ranks that compute unequal parts of a step give the result of one rank, bitwise in deterministic mode and up to
# rounding without; shares are in settings.yaml, and a resumed run keeps them.
. "$LEVIN_SOURCE/tests/cluster/train.bash"
mpis_here
mpi=${mpis[0]}
mode=(--trainer.deterministic=true --trainer.micro_batch_size=1)
near() { # near RUN RUN [how near]: losses, norms and validations, relative
    python3 - "$1" "$2" "${3:-1e-5}" <<'P'
import json, sys
a, b = ([json.loads(line) for line in open(run + "/metrics.jsonl")] for run in sys.argv[1:3])
assert len(a) == len(b) == 6
worst = max(abs(x[k] - y[k]) / abs(x[k]) for x, y in zip(a, b) for k in ("loss", "grad_norm", "val_loss") if k in x)
print(*sys.argv[1:3], "differ by", worst)
assert worst < float(sys.argv[3])
P
}
shares() { # shares RUN WANTED: in the run's settings, and its checkpoint's
    has "  shares: \"$2\"" "$1/settings.yaml" && has "  shares: \"$2\"" "$1/checkpoints/last/state/settings.yaml" ||
        fail "$1: not $2 everywhere"
}
unequal() { # unequal N RUN SHARES [keys]
    local n=$1 run=$2 shares=$3
    shift 3
    over "$mpi" "$n" "$run" "${sizes[@]}" --trainer.shares="$shares" --trainer.check_replicas_every_n_steps=2 "$@"
    shares "$run" "$shares"
}

# --- the same bits; with more and fewer leaves than a complete node of the tree, and zero1 ---
code 0 train one "${sizes[@]}" "${mode[@]}"
for s in 9,3 1,11; do
    unequal 2 "tree-$s" $s "${mode[@]}"
    same_run one "tree-$s"
done
unequal 3 tree-zero1 5,6,1 "${mode[@]}" --trainer.strategy=zero1
same_run one tree-zero1
half=(--trainer.precision=bf16-true --optimizer.state=bf16)
code 0 train half "${sizes[@]}" "${mode[@]}" "${half[@]}"
unequal 3 tree-half 2,9,1 "${mode[@]}" "${half[@]}"
same_run half tree-half

# --- the same mean to rounding: rows, micro-batches, strategies, number types; validation is shared in the same way ---
code 0 train plain "${sizes[@]}"
unequal 2 rows 10,2
near plain rows
unequal 3 rows-zero1 1,3,8 --trainer.strategy=zero1
near plain rows-zero1
unequal 2 micro 2,1 --trainer.accumulate_grad_batches=3
near plain micro
unequal 2 clipped 3,9 --trainer.gradient_clip_algorithm=value --trainer.gradient_clip_val=0.01
code 0 train clipped-one "${sizes[@]}" --trainer.gradient_clip_algorithm=value --trainer.gradient_clip_val=0.01
near clipped-one clipped 1e-4
unequal 2 rows-half 3,9 "${half[@]}"
near half rows-half 8e-3
unequal 2 rows-bf16 3,9 --trainer.reduce_dtype=bf16
near plain rows-bf16 8e-3

# --- resuming keeps the shares, and drops those of another number of ranks ---
arguments resumed "${sizes[@]}" "${mode[@]}" --trainer.shares=9,3
code 0 ranks "$mpi" 2 "$LEVIN" "${all[@]}"
code 0 train one "${sizes[@]/max_steps=5/max_steps=8}" "${mode[@]}" --resume
code 0 ranks "$mpi" 2 "$LEVIN" train --resume resumed --trainer.max_steps=8
shares resumed 9,3
same_weights one resumed
code 0 train one "${sizes[@]/max_steps=5/max_steps=11}" "${mode[@]}" --resume
code 0 ranks "$mpi" 3 "$LEVIN" train --resume resumed --trainer.max_steps=11
has "trainer.shares is 9,3, for 2 ranks, but there are now 3; they compute equal parts" err
has '  shares: ""' resumed/settings.yaml
same_weights one resumed

# --- refusals ---
refused() { # refused N WORDS KEYS: one sentence, before anything is trained
    local n=$1 words=$2
    shift 2
    rm -rf refused
    arguments refused "${sizes[@]}" "$@"
    code 2 ranks "$mpi" "$n" "$LEVIN" "${all[@]}"
    [ "$(grep -c 'error: ' err)" = 1 ] || { cat err && fail "not one sentence"; }
    has "$words" err
}
refused 2 "trainer.shares is '3,3', 6 in total, but a step has 12 to share out" --trainer.shares=3,3
refused 2 "trainer.shares is '4,4,4', for 3 ranks, but 2 are started" --trainer.shares=4,4,4
refused 2 "trainer.shares is '12,0'; expected integers" --trainer.shares=12,0
refused 4 "4 ranks cannot share the 3 micro-batches of a step" --trainer.accumulate_grad_batches=3
