# How much of the data a run uses: Lightning's keys, each alone, in combinations, and refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
printf 'the more it snows, tiddely pom, the more it goes on snowing, and nobody knows how cold my toes are growing\n%.0s' 1 2 3 4 5 6 >pom.txt
losses() { python3 -c 'import json, sys
print(*[r["loss"] for r in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "loss" in r])' "$1"; }
epochs() { grep -c '^epoch ' err || true; }

# --- a batch larger than an epoch repeats rows, with a message ---
printf 'text\tlabel\n%s' "$(for i in 1 2 3 4 5 6 7 8 9 10; do printf 'word %d\t%d\n' $i $((i % 2)); done)" >ten.tsv
ten() { code 0 "$LEVIN" train --model.n_layer=1 --model.n_head=1 --model.n_embd=8 --model.block_size=8 --model.kind=bert \
    --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" --data.path=ten.tsv --data.val_path=ten.tsv \
    --trainer.fast_dev_run=true "$@"; }
ten --trainer.batch_size=12
says "warning: a batch of 12 repeats rows, because there are only 10; set trainer.batch_size to at most 10, or use more data" err
for other in --trainer.batch_size=10 --data.sampling=random --trainer.overfit_batches=1; do
    size=(--trainer.batch_size=12)
    [ "${other%10}" = "$other" ] || size=()
    ten "${size[@]}" "$other"
    silent_about "repeats rows" err
done

# --- fast_dev_run: everything once, nothing saved ---
code 0 train try --trainer.fast_dev_run=true --json
json 'd["step"] == 1 and d["run_dir"] is None and math.isfinite(d["val_loss"])'
check [ ! -e try ]
check [ "$(grep -c 'validation loss' err)" = 1 ]
code 0 train try --trainer.fast_dev_run=3 --sample.every_n_steps=3 --sample.max_new_tokens=5
says "fast_dev_run: step 3, loss " out
says "sample after step 3" err
silent_about "loss curve" out
check [ ! -e try ]
# it does not stop early, and does not change an existing run
code 0 train run
folder_listing run >before
code 0 train run --trainer.fast_dev_run=5 --early_stopping.monitor=val_loss --early_stopping.patience=1 --optimizer.lr=0 --json
json 'd["step"] == 5'
folder_listing run | diff before - || fail "a try changed the run"
for flag in --resume --overwrite; do
    code 2 train run --trainer.fast_dev_run=true $flag
    one_error
    says "trainer.fast_dev_run saves nothing, so there is nothing to resume or to overwrite" err
done
# its steps are those of the run, learning rate and all
cosine=(--schedule.kind=cosine --trainer.max_steps=8 --optimizer.lr=1e-2)
code 0 train whole "${cosine[@]}"
code 0 train try "${cosine[@]}" --trainer.fast_dev_run=2 --json
python3 - <<'P'
import json
want = [r["loss"] for r in map(json.loads, open("whole/metrics.jsonl")) if "loss" in r][1]
assert abs(json.load(open("out"))["loss"] - want) < 1e-8, want
P

# --- the steps of an epoch ---
code 0 train few --trainer.max_steps=0 --trainer.max_epochs=3 --trainer.limit_train_batches=4 --trainer.val_check_interval=1.0 --json
json 'd["step"] == 12'
check [ "$(epochs)" = 3 ]
check [ "$(grep -c val_loss few/metrics.jsonl)" = 3 ]
code 0 train share --data.path=pom.txt --trainer.max_steps=0 --trainer.max_epochs=1 --trainer.limit_train_batches=0.5 --json
json 'd["step"] >= 2'
half=$(value step)
code 0 train all --data.path=pom.txt --trainer.max_steps=0 --trainer.max_epochs=1 --json
python3 -c 'import json; n = json.load(open("out"))["step"]; assert n // 2 == '"$half"', n'
code 0 "$LEVIN" plan --data.path=text.txt --model.block_size=16 --trainer.max_epochs=3 --trainer.limit_train_batches=4 --json
json 'd["steps_per_epoch"] == 4'
# the same four steps in every epoch
code 0 train overfit --trainer.overfit_batches=4 --trainer.max_steps=8 --optimizer.lr=0
python3 - "$(losses overfit)" <<'P'
import sys
x = sys.argv[1].split()
assert len(x) == 8 and x[:4] == x[4:] and len(set(x)) == 4, x
P
code 0 train shuffled --trainer.limit_train_batches=4 --trainer.max_steps=8 --optimizer.lr=0
python3 - "$(losses shuffled)" <<'P'
import sys
x = sys.argv[1].split()
assert sorted(x[:4]) != sorted(x[4:]), x
P
code 2 train overfit --trainer.overfit_batches=3 --trainer.max_steps=9 --optimizer.lr=0 --resume
says "trainer.overfit_batches is 3 here but was 4 in the run" err

# --- sanity validation: errors in it are found before the first step ---
code 0 train sane --trainer.num_sanity_val_steps=2
code 0 train plain
same_run sane plain # it changes no result, and is not logged
check [ "$(grep -c val_loss sane/metrics.jsonl)" = "$(grep -c val_loss plain/metrics.jsonl)" ]
looked() { # looked KEY...: validation samples that two steps look at, of which the last one validates
    mkdir looked
    code 0 "$(dirname "$LEVIN")/tests/train_ranks" looked run_dir=looked/run data.path=text.txt model.n_layer=1 model.n_head=2 \
        model.n_embd=16 model.block_size=16 trainer.batch_size=4 trainer.max_steps=2 trainer.limit_val_batches=3 "$@"
    grep -c '^1 ' looked/samples.0
    rm -r looked
}
check [ "$(looked)" = 12 ]
check [ "$(looked trainer.num_sanity_val_steps=2)" = 20 ]
check [ "$(looked trainer.num_sanity_val_steps=-1)" = 24 ]
check [ "$(looked trainer.num_sanity_val_steps=9)" = 24 ]
code 0 train sane --resume --trainer.max_steps=12 --trainer.num_sanity_val_steps=-1
code 2 train none --trainer.num_sanity_val_steps=2 --trainer.limit_val_batches=0
says "trainer.num_sanity_val_steps is 2, but this run does not validate" err

# --- micro-batches by their number ---
code 0 train cut --trainer.accumulate_grad_batches=2 --trainer.batch_size=4
says "trainer.accumulate_grad_batches 2 divides the batch of 4 into micro-batches of 2. Lightning would accumulate 2 such batches per step; for that, set trainer.batch_size to 8" err
code 0 train same --trainer.micro_batch_size=2 --trainer.batch_size=4
same_run cut same
code 0 "$LEVIN" train cut/settings.yaml --run_dir=again
same_run cut again
code 2 train none --trainer.accumulate_grad_batches=3 --trainer.batch_size=4
says "the batch of 4 cannot be cut into trainer.accumulate_grad_batches (3) equal micro-batches; use 1, 2 or 4" err
code 2 train none --trainer.accumulate_grad_batches=2 --trainer.micro_batch_size=1 --trainer.batch_size=4
says "set the same thing; leave one out" err

# --- levin evaluate ---
evaluated() { code 0 "$LEVIN" evaluate run --data.path=text.txt --trainer.batch_size=4 "$@" --json; value tokens; }
all=$(evaluated)
check [ "$(evaluated --trainer.limit_test_batches=3)" = $((3 * 4 * 16)) ]
check [ "$(evaluated --trainer.fast_dev_run=true)" = $((4 * 16)) ]
check [ "$(evaluated --trainer.limit_test_batches=0.5)" -lt "$all" ]
check [ "$(evaluated --trainer.limit_test_batches=1.0)" = "$all" ]
check [ "$(evaluated --trainer.limit_val_batches=3)" = $((3 * 4 * 16)) ]
check [ "$(evaluated --trainer.limit_val_batches=0.5)" = "$(evaluated --trainer.limit_test_batches=0.5)" ]

# --- refused ---
code 2 train none --trainer.limit_train_batches=0
says "trainer.limit_train_batches 0 leaves nothing to train on" err
code 2 train none --trainer.limit_train_batches=1.5
says "trainer.limit_train_batches (1.5) is a share of the training set: at most 1.0" err
code 2 train none --trainer.limit_train_batches=0.00001
says "of an epoch is less than one; use a larger fraction or an integer" err
code 2 train none --trainer.overfit_batches=2 --trainer.limit_train_batches=3
says "trainer.overfit_batches (2) and trainer.limit_train_batches (3) both set the length of an epoch" err
code 2 "$LEVIN" evaluate run --data.path=text.txt --trainer.limit_test_batches=0
says "leaves nothing to evaluate" err
check [ ! -e none ]

# --- no validation at all, not even after the last step ---
code 0 train unchecked --trainer.val_check_interval=0 --json
json 'd["val_loss"] is None and d["step"] == 8'
silent_about "validation loss" err
code 0 "$LEVIN" train --data.path=text.txt --trainer.rank_timeout=30 --show-settings
grep -qE '^trainer.rank_timeout +30 ' out || fail "30 is not shown as 30"
