# Adds an optimizer, a schedule, a task, a data kind with its own key and a transport between ranks to a copy of the sources,
# builds it and trains with them. Optimizers, schedules and tasks are a function and a row in one file (an optimizer also needs
# its operation, a task a row in the heads of each family that can learn it); the others are a file and a line. label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
for program in cmake ninja; do command -v $program >/dev/null || { echo "skipped: no $program"; exit 77; }; done
[ -z "${LVN_SANITIZE:-}" ] || { echo "skipped: the build of the copy has no sanitizer"; exit 77; }
seq 300 >text.txt
documents=(--data.kind=documents --data.path=text.txt --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2" --model.kind=nanogpt
    --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=8 --trainer.max_steps=1 --quiet)
LEVIN_CACHE=$PWD/cache code 0 "$LEVIN" train "${documents[@]}" --run_dir=documents
mkdir copy
tar -C "$LEVIN_SOURCE" --exclude='./build*' --exclude=./.git --exclude=./parts --exclude=./runs --exclude=./dist -cf - . | tar xf - -C copy
cp -r "$LEVIN_SOURCE"/tests/one_more/* copy/src/
line() { # line FILE TEXT BEFORE: inserts TEXT before the first line that contains BEFORE
    python3 - "$@" <<'P'
import sys
path, new, before = sys.argv[1:]
lines = open(path).read().split("\n")
at = next(i for i, l in enumerate(lines) if before in l)
open(path, "w").write("\n".join(lines[:at] + [new] + lines[at:]))
P
}
line copy/src/core/ops/ops.def 'LVN_OP_UPDATE(signum, { struct lvn_update update; double beta; })' 'LVN_OP_UPDATE(sgd,'
line copy/src/nets/optimizers/optimizer.c 'static void signum_betas(union lvn_attr *attr, const double betas[2])
{
    attr->signum.beta = betas[0];
}
' 'static void sgd_betas('
line copy/src/nets/optimizers/optimizer.c \
    '    {.name = "signum", .help = "by the sign of the momentum", .op = LVN_OP_signum, .set_betas = signum_betas},' '    {.name = "sgd"'
line copy/src/nets/schedules/schedule.c '/* lr / sqrt(1 + steps after the warm-up) */
static double rsqrt(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    return o->lr / sqrt(1.0 + (double)(at->step - at->warmup));
}
' 'static double linear('
line copy/src/nets/schedules/schedule.c '    {.name = "rsqrt", .help = "with the root of the step", .lr = rsqrt},' '    {.name = "linear"'
line copy/src/nets/tasks/task.c '    {.name = "half",
     .help = "regression by another name",
     .label = {.name = "label", .dtype = LVN_F32, .label = LVN_LABEL_NUMBER},
     .loss = loss_of_numbers,
     .output_name = "outputs"},' '    {.name = "reconstruct"'
line copy/src/text/data/datasets.def 'LVN_DATASET(cycle)
LVN_INT(data, period, "7", 2, 10, "numbers after which the sequence begins again", .fixed = true, .for_kind = "cycle")' 'LVN_DATASET(mnist)'
line copy/src/ranks/comm/comm_kinds.def 'LVN_COMM_KIND(files)' 'LVN_COMM_KIND(nccl)'
line copy/src/nets/models/bert.c '    {"half", LVN_LABEL_NUMBER, "BertForSequenceClassification", inputs, "bert.pooler, classifier"},' '{"regress", LVN_LABEL_NUMBER'
sed -i 's/"classify", "mlm", "regress", NULL/"classify", "mlm", "regress", "half", NULL/' copy/src/nets/models/bert.c
(cd copy && export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 && cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1 -DLVN_ISAS=generic -DLVN_WERROR=OFF &&
    nice -n 19 ninja -C build -j2 levin) >log 2>&1 || { grep -A9 -E 'error|FAILED' log || cat log; exit 1; }
LEVIN=$PWD/copy/build/levin

# other sources of src/text encode texts again
LEVIN_CACHE=$PWD/cache code 0 "$LEVIN" train "${documents[@]}" --run_dir=documents --overwrite
check [ "$(find cache/encoded -type f | wc -l)" = 2 ]

# help and completion know them
code 0 "$LEVIN" help optimizer.kind
says "signum: by the sign of the momentum" out
code 0 "$LEVIN" help data.period
says "cycle: numbers after which the sequence begins again" out
code 0 "$LEVIN" help trainer.transport
says "files: files of a folder" out
code 2 "$LEVIN" train --data.kind=cycle --run_dir=no --data.period=11
says "data.period must be at most 10, got 11" err
code 2 "$LEVIN" train --data.kind=chars --run_dir=no --data.period=3
says "data.period (3) is a key of data.kind=cycle" err

# they train, on one rank and on two, with the same bits
small=(--data.kind=cycle --data.period=5 --model.kind=nanogpt --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=8
    --trainer.max_steps=60 --trainer.batch_size=4 --trainer.micro_batch_size=2 --trainer.deterministic=true --optimizer.kind=signum
    --optimizer.lr=1e-2 --schedule.kind=rsqrt --quiet)
code 0 "$LEVIN" train "${small[@]}" --run_dir=one
code 0 "$LEVIN" launch -n 2 -- train "${small[@]}" --trainer.strategy=zero1 --run_dir=two
same_file one/checkpoints/last/model.safetensors two/checkpoints/last/model.safetensors

# two ranks exchange gradients, shards of the optimizer state and all messages through files, as they do over TCP
mkdir messages
export FILES_FOLDER=$PWD/messages
code 0 "$LEVIN" launch -n 2 -- train "${small[@]}" --trainer.strategy=zero1 --trainer.transport=files --run_dir=files
same_file one/checkpoints/last/model.safetensors files/checkpoints/last/model.safetensors
check [ "$(find messages -name 'sum.*' | wc -l)" -gt 10 ]
check [ "$(find messages -name '0.1.*' | wc -l)" -gt 10 ]
code 2 "$LEVIN" train "${small[@]}" --trainer.transport=nccl --run_dir=no
says "trainer.transport must be auto, mpi, tcp or files" err
(unset FILES_FOLDER && code 2 "$LEVIN" launch -n 2 -- train "${small[@]}" --trainer.transport=files --run_dir=no)
says "FILES_FOLDER names no folder" err

code 0 "$LEVIN" train "${small[@]}" --run_dir=parts --trainer.max_steps=20
code 0 "$LEVIN" train "${small[@]}" --run_dir=parts --resume
same_file one/checkpoints/last/model.safetensors parts/checkpoints/last/model.safetensors
code 0 "$LEVIN" generate one --prompt=0123401 --max-new-tokens=6 --temperature=0 --json
says '"text":"234012"' out
python3 - <<'P'
import json, math
rows = [d for d in map(json.loads, open("one/metrics.jsonl")) if "lr" in d]
assert all(math.isclose(d["lr"], 1e-2 / math.sqrt(d["step"]), rel_tol=1e-6) for d in rows), rows
P

# the new task: it learns what regress learns, under its own name
vocab=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
python3 - <<'P'
rows = [(("good " * a + "bad " * b).strip(), a - b) for a in range(1, 9) for b in range(1, 9)]
open("train.tsv", "w").write("text\tlabel\n" + "".join(f"{t}\t{n}\n" for t, n in rows))
P
bert=(--model.kind=bert --data.path=train.tsv --data.tokenizer="$vocab" --model.n_layer=1 --model.n_head=2 --model.n_embd=16
    --model.block_size=20 --trainer.max_steps=20 --trainer.batch_size=16 --quiet)
code 0 "$LEVIN" train "${bert[@]}" --task.kind=half --run_dir=half
code 0 "$LEVIN" train "${bert[@]}" --task.kind=regress --run_dir=regress
same_file half/checkpoints/last/model.safetensors regress/checkpoints/last/model.safetensors
