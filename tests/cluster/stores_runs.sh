# Runs, prepared data and exported models that are written into a store: the same bytes as on this machine; resumed from another
# machine; replaced; a run survives a store that fails for a while.
. "$LEVIN_SOURCE/tests/cluster/stores.bash"
s3_server
root=s3root/bucket
make_text
train here
train s3://bucket/runs/there 2>err
same_there() { # same_there RUN STEP
    for f in model.safetensors state/optimizer.safetensors; do
        same_file $1/checkpoints/step-$2/$f $root/runs/there/checkpoints/step-$2/$f
    done
    same_metrics $1 $root/runs/there
}
same_there here 8
check [ "$(cat $root/runs/there/checkpoints/last)" = step-8 ]
check [ -f $root/runs/there/loss.svg ] && check [ -f $root/runs/there/settings.yaml ]
says "saved s3://bucket/runs/there/checkpoints/step-8" err
# commands accept it as any other run
code 0 "$LEVIN" runs s3://bucket/runs --json
json '[(r["name"], r["path"], r["step"], r["bytes"]) for r in d["runs"]] == [("there", "s3://bucket/runs/there", 8, None)]'
code 0 "$LEVIN" runs s3://bucket/runs/there
says "there  done" out
for path in s3://bucket/runs/there s3://bucket/runs; do
    code 0 "$LEVIN" report $path --out=there.html
    has '"path": "s3://bucket/runs/there"' there.html || has '"path":"s3://bucket/runs/there"' there.html
    rm there.html
done
code 2 "$LEVIN" report s3://bucket/runs/there --watch
says "--watch draws runs of this machine, and 's3://bucket/runs/there' is in a store" err
code 1 "$LEVIN" runs s3://bucket/none
one_error
code 0 "$LEVIN" evaluate s3://bucket/runs/there --json --data.path=text.txt
code 0 "$LEVIN" generate s3://bucket/runs/there --max-new-tokens=5
arguments s3://bucket/runs/there
code 2 "$LEVIN" "${all[@]}"
one_error
says "'s3://bucket/runs/there' already contains a run" err
# an export does not remove the run's files on this machine, which may not have been uploaded yet
code 2 "$LEVIN" export here s3://bucket/runs/there
one_error
says "'s3://bucket/runs/there' is the folder of a run, into which levin does not export" err
check [ -s cache/stage/there-*/checkpoints/step-8/model.safetensors ]
# it resumes on another machine, with the bits of an undisturbed run
train whole --trainer.max_steps=16
rm -rf cache
train s3://bucket/runs/there --trainer.max_steps=16 --resume 2>err
same_there whole 16
# old checkpoints are removed from the store as on this machine; other files in the store remain
echo mine >$root/runs/there/notes.txt
train s3://bucket/runs/there --trainer.max_steps=32 --resume --checkpoint.top_k=1 2>err
check [ "$(find $root/runs/there/checkpoints -name 'step-*' -type d -not -empty | wc -l)" -le 3 ]
check [ ! -e $root/runs/there/checkpoints/step-4/model.safetensors ]
same_file $root/runs/there/notes.txt <(echo mine)
# a file that was uploaded and then removed here is removed from the store; notes.txt, a suffix of 'my notes.txt', is not
echo sent >"$(echo cache/stage/there-*)/my notes.txt"
train s3://bucket/runs/there --trainer.max_steps=33 --resume --checkpoint.top_k=1 2>err
check [ -s "$root/runs/there/my notes.txt" ]
rm "$(echo cache/stage/there-*)/my notes.txt"
train s3://bucket/runs/there --trainer.max_steps=34 --resume --checkpoint.top_k=1 2>err
check [ ! -e "$root/runs/there/my notes.txt" ]
same_file $root/runs/there/notes.txt <(echo mine)
# it also resumes from the settings.yaml in the store, without a recipe
rm -rf cache
code 0 "$LEVIN" train s3://bucket/runs/there --resume --trainer.max_steps=35 --json
json 'd["step"] == 35 and d["run_dir"] == "s3://bucket/runs/there"'
train s3://bucket/runs/there --overwrite 2>err
check [ ! -e $root/runs/there/checkpoints/step-16/model.safetensors ]
same_there here 8
same_file $root/runs/there/notes.txt <(echo mine)
# files that levin did not write are not removed from a store either
refused() { # refused RUN SENTENCE
    find $root/runs/$1 -type f -exec cksum {} + | sort >before
    arguments s3://bucket/runs/$1 --overwrite
    code 2 "$LEVIN" "${all[@]}"
    one_error
    says "$2" err
    find $root/runs/$1 -type f -exec cksum {} + | sort | diff before - || fail "a refused run changed the store"
}
echo mine >$root/runs/there/checkpoints/epoch=3.ckpt
refused there "'s3://bucket/runs/there/checkpoints/epoch=3.ckpt' was not written by levin"
rm $root/runs/there/checkpoints/epoch=3.ckpt
echo mine >$root/runs/there/checkpoints/step-8/notes.txt
refused there "'s3://bucket/runs/there/checkpoints/step-8/notes.txt' was not written by levin"
rm $root/runs/there/checkpoints/step-8/notes.txt
mkdir -p $root/runs/other/checkpoints
echo weights >$root/runs/other/checkpoints/epoch=3.ckpt
refused other "is not a run of levin"
# a run that could not be uploaded exists only on this machine: it is not mistaken for one that was removed from the store
train s3://bucket/runs/unsent 2>err
rm -r $root/runs/unsent cache/stage/unsent-*/.sent
arguments s3://bucket/runs/unsent
code 2 "$LEVIN" "${all[@]}"
says "already contains a run" err
code 0 train s3://bucket/runs/unsent --resume --trainer.max_steps=12
says "continuing after step" err
check [ "$(cat $root/runs/unsent/checkpoints/last)" = step-12 ]
# a run that was uploaded and then removed from the store is also removed from this machine
rm -r $root/runs/unsent
code 0 train s3://bucket/runs/unsent --trainer.max_steps=4
check [ "$(cat $root/runs/unsent/checkpoints/last)" = step-4 ]
# a store that cannot be written: the run is complete on this machine, and the message says where, also if it is stopped
kept=$AWS_SECRET_ACCESS_KEY
fails() { # fails RUN COMMAND: COMMAND when the store refuses the keys of a run that has begun
    arguments s3://bucket/runs/$1 --trainer.max_steps=20000 --trainer.val_check_interval=20000 --checkpoint.every_n_steps=1000
    printf '[default]\naws_access_key_id=someone\naws_secret_access_key=%s\n' "$kept" >.aws/credentials
    "$LEVIN" "${all[@]}" >out 2>err &
    pid=$!
    soon test -e $root/runs/$1/checkpoints/last # the run has begun, and most steps are left
    printf '[default]\naws_access_key_id=someone\naws_secret_access_key=wrong\n' >.aws/credentials
    $2
    ended
    check [ $got = 1 ]
    says "the local folder is complete" err
}
stop() { kill -TERM $pid; }
(
    export LEVIN_STORE_TRIES=1
    mkdir -p .aws
    unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    fails late true
    fails stopped stop
)
# a run that is to stop leaves a due validation to the resumed run: in the end every step has one
every=(--trainer.val_check_interval=1 --checkpoint.every_n_steps=0 --trainer.batch_size=3000 --trainer.limit_val_batches=1)
arguments s3://bucket/runs/owes "${every[@]}" --trainer.max_steps=1000000000
"$LEVIN" "${all[@]}" >out 2>err &
pid=$!
soon grep -q '^step 2: validation' err
kill -TERM $pid
ended
check [ $got = 75 ]
stopped=$(sed 's/step-//' $root/runs/owes/checkpoints/last)
model=$root/runs/owes/checkpoints/step-$stopped/model.safetensors
before=$(stat -c %i "$model")
end=$((stopped + 2))
# a step of the store is not saved again: its manifest gets the value, which is the best, as later steps are not better
train s3://bucket/runs/owes "${every[@]}" --trainer.max_steps=$end --optimizer.lr=0 --resume 2>err
check [ "$(grep -c '"val_loss"' $root/runs/owes/metrics.jsonl)" = $end ]
says "step $stopped: validation loss " err
check [ "$(cat $root/runs/owes/checkpoints/best)" = step-$stopped ]
check [ "$(stat -c %i "$model")" = "$before" ]
check [ "$(ls $root/runs/owes/checkpoints)" = "$(printf '%s\n' best last step-$stopped step-$end | sort)" ]
rm -r cache
code 0 "$LEVIN" evaluate s3://bucket/runs/owes --json --data.path=text.txt
train s3://bucket/runs/owes "${every[@]}" --trainer.max_steps=$end --resume >out
says "nothing to do" out
# a program validates a step that is saved: the manifest gets the loss, and the resumed run makes this validation again, for its callbacks
python=(env PYTHONPATH="$LEVIN_SOURCE/python:$LEVIN_SOURCE/parts/tensorboard" LEVIN_LIBRARY="$LEVIN_BUILD/liblevin.so" python3)
if "${python[@]}" -c 'import numpy' 2>/dev/null; then
    arguments s3://bucket/runs/asked "${every[@]}" --trainer.val_check_interval=3 --trainer.max_steps=4
    "${python[@]}" - "${all[@]:1}" <<'P'
import sys, levin
from levin.run import _library, lib
with levin.Run(None, progress=False, **dict(a[2:].split("=", 1) for a in sys.argv[1:])) as run:
    for event in run.steps():
        if event.step == 2:
            run.save()
            _library.check(lib.levin_run_validate(run._require_open()))
            break
P
    check [ "$(cat $root/runs/asked/checkpoints/last)" = step-2 ]
    train s3://bucket/runs/asked "${every[@]}" --trainer.val_check_interval=3 --trainer.max_steps=4 --resume 2>err
    says "step 2: validation loss " err
    check [ "$(grep -c '"step": 2, "val_loss"' $root/runs/asked/metrics.jsonl)" = 1 ]
else
    echo "left out: runs of the Python package, which needs numpy"
fi
# prepared data, from a store into a store
cp text.txt $root/text.txt
code 0 "$LEVIN" prepare text.txt --out=tokens
code 0 "$LEVIN" prepare s3://bucket/text.txt --out=s3://bucket/tokens
diff -r tokens $root/tokens
# exported models
code 0 "$LEVIN" export here exported
code 0 "$LEVIN" export here s3://bucket/exported
diff -r exported $root/exported
code 2 "$LEVIN" export here s3://bucket/exported
says "already contains a model" err
