# recipes/speedrun.sh --tiny: killed in each training and continued with the bits of a run that was not; run again, it changes
# nothing; two ranks; what it needs.
# label: long
. "$LEVIN_SOURCE/tests/cli/common.bash"
export LEVIN OMP_NUM_THREADS=1
run() { OUT=$1 bash "$LEVIN_SOURCE/recipes/speedrun.sh" --tiny 1 --trainer.max_steps=40 --trainer.limit_val_batches=2 \
    --checkpoint.every_n_steps=5; }
killed_in() { # killed_in RUN: the script and what it started, when the training RUN has written a checkpoint
    set -m
    run killed >log 2>&1 &
    set +m
    while kill -0 $! 2>/dev/null && [ ! -e "$1/checkpoints/last" ]; do sleep 0.01; done
    kill -KILL -- -$! 2>/dev/null || true
    wait $! || true
}

code 0 run whole
check [ "$(ls whole/done | wc -l)" = 11 ]
says 'CORE ' out
says 'talk with the model: ' out
says 'bpb ' whole/stages.txt
says 'pretraining: ' whole/report.html

killed_in killed/base
check [ ! -e killed/done/pretraining ]
killed_in killed/chat
check [ -e killed/done/pretraining ]
check [ ! -e killed/done/fine-tuning ]
check grep -q '"event": "resume"' killed/base/events.jsonl
code 0 run killed
says '== tokenizer: done in' out
check grep -q '"event": "resume"' killed/chat/events.jsonl
for part in base chat; do same_weights whole/$part killed/$part; done

touch stamp
sleep 1.1
code 0 run killed
says 'talk with the model: ' out
check [ -z "$(find killed -type f -newer stamp)" ]

LAUNCH="$LEVIN launch -n 2 --" code 0 run two
check grep -q '"ranks": 2' two/base/events.jsonl

# requirements
code 1 bash "$LEVIN_SOURCE/recipes/speedrun.sh"
says 'usage: recipes/speedrun.sh' err
code 2 bash "$LEVIN_SOURCE/recipes/speedrun.sh" 4
says 'give documents in TEXT' err
TEXT=missing CHAT=none code 1 bash "$LEVIN_SOURCE/recipes/speedrun.sh" 1
says "missing" err
