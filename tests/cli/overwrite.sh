# levin removes only files that it wrote: --overwrite, pruned checkpoints, a checkpoint that is written again.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
stays() { # stays RUN SENTENCE [keys]: refused with the sentence, and nothing in the folder is changed
    folder_listing "$1" >before
    code 2 train "$@" --overwrite
    one_error
    says "$sentence" err
    folder_listing "$1" | diff before - || fail "a refused run changed the folder $1"
}

# --- folders of other programs ---
mkdir -p lightning/checkpoints
echo weights >"lightning/checkpoints/epoch=3.ckpt"
sentence="'lightning' contains 'checkpoints' but is not a run of levin" stays lightning
code 2 train lightning
says "choose another name or run_dir" err
code 2 train lightning --resume
says "but is not a run of levin" err
for name in metrics.csv samples.txt loss.svg metrics.jsonl settings.yaml status.json; do
    mkdir "other-$name"
    echo "seed: 3" >"other-$name/$name"
    sentence="'other-$name' contains '$name'" stays "other-$name"
    code 2 train "other-$name"
    code 2 train "other-$name" --resume
done
mkdir -p numbers/checkpoints/step-100/state # with levin's names
echo weights >numbers/checkpoints/step-100/model.safetensors
echo '{}' >numbers/checkpoints/step-100/state/manifest.json
sentence="'numbers' contains 'checkpoints'" stays numbers
# an empty folder of that name may be used
mkdir -p empty/checkpoints
code 0 train empty --trainer.max_steps=4

# --- a run begins with the model that it would remove ---
code 0 train base --trainer.max_steps=2
code 0 train adapters --model.init=base --lora.rank=2 --trainer.max_steps=2
sentence="this run begins with 'base/checkpoints/step-2', which is in 'base', and --overwrite would remove it" stays base --model.init=base
sentence="/base/checkpoints/step-2', which is in 'base', and --overwrite would remove it" stays base --model.init=adapters --lora.rank=2
# a model beside the run's files stays
code 0 train beside --trainer.max_steps=2
cp -r base/checkpoints/step-2 beside/start
code 0 train beside --overwrite --model.init=beside/start --trainer.max_steps=2
check test -e beside/start/model.safetensors

# --- a run whose folder is no longer its own ends ---
for way in "mv moved elsewhere" "mv -f other/.lock moved/.lock"; do
    rm -rf moved elsewhere
    mkdir -p other
    echo >other/.lock
    start moved --trainer.max_steps=1000000 --trainer.max_time=1h
    $way
    wait "$pid" && fail "$way: the run goes on"
    says "the run's folder 'moved' was moved, removed or replaced while the run continued" err
done

# --- a run of levin with other files in it ---
code 0 train run --checkpoint.top_k=10
cp -a run clean
echo mine >"run/checkpoints/epoch=3.ckpt"
sentence="'run/checkpoints/epoch=3.ckpt' was not written by levin" stays run
rm run/checkpoints/epoch=3.ckpt
mkdir run/checkpoints/step-8/notes
echo mine >run/checkpoints/step-8/notes/today.txt
sentence="'run/checkpoints/step-8/notes/today.txt' was not written by levin" stays run
rm -r run/checkpoints/step-8/notes
mkdir run/samples.txt
echo mine >run/samples.txt/mine
sentence="'run/samples.txt' was not written by levin" stays run
rm -r run/samples.txt
# the run can still be resumed
echo mine >run/checkpoints/notes.txt
code 0 train run --resume --trainer.max_steps=12
check [ "$(cat run/checkpoints/notes.txt)" = mine ]
rm run/checkpoints/notes.txt
# without settings.yaml the manifests identify a run; without both, a folder is not a run
rm run/settings.yaml
code 2 train run
says "already contains a run" err
mkdir -p run/checkpoints/step-77 && echo mine >run/checkpoints/step-77/model.safetensors
sentence="'run/checkpoints/step-77" stays run
rm -r run/checkpoints/step-77
code 0 train run --overwrite --checkpoint.top_k=10
same_run clean run
names() { (cd "$1" && find . | sed 's/tfevents[^/]*/tfevents/' | sort); } # events are named by time and process
diff <(names clean) <(names run) || fail "something was left over"
# damaged checkpoints of a run of levin may be removed
echo '{}' >run/checkpoints/step-4/state/manifest.json
rm -r run/checkpoints/step-8/state
mkdir run/checkpoints/.step-8.tmp-12345 && echo half >run/checkpoints/.step-8.tmp-12345/model.safetensors
code 0 train run --overwrite --checkpoint.top_k=10
same_run clean run
check [ ! -e run/checkpoints/.step-8.tmp-12345 ]

# --- old checkpoints that are removed during training ---
code 0 train run --overwrite --checkpoint.top_k=0 --trainer.max_steps=8
check [ ! -e run/checkpoints/step-4 ]
code 0 train run --overwrite --checkpoint.top_k=0 --trainer.max_steps=4
echo mine >run/checkpoints/step-4/notes.txt
code 0 train run --resume --checkpoint.top_k=0 --trainer.max_steps=12
check [ "$(cat run/checkpoints/step-4/notes.txt)" = mine ]
check [ -s run/checkpoints/step-4/model.safetensors ]
says "step-4" err
says "notes.txt" err
check [ ! -e run/checkpoints/step-8 ]
# and one that is written again, since it was damaged
cp -a run again
echo mine >again/checkpoints/step-12/notes.txt
truncate -s -1 again/checkpoints/step-12/model.safetensors
code 0 train again --resume --checkpoint.top_k=0 --trainer.max_steps=12
same_weights run again
[ "$(cat again/checkpoints/step-12.old-*/notes.txt)" = mine ] || fail "the notes in a checkpoint that was replaced are lost"
