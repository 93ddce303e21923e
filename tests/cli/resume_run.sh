# Resuming a run with its own settings, and messages about differences from the recipe.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
{
    echo "name: tiny"
    echo "model:      {n_layer: 1, n_head: 2, n_embd: 16, block_size: 16}"
    echo "data:       {path: text.txt}"
    echo "optimizer:  {lr: 1e-2}"
    echo "trainer:    {batch_size: 4, limit_val_batches: 4, val_check_interval: 4, max_steps: 8}"
    echo "checkpoint: {every_n_steps: 4}"
} >tiny.yaml
rate=(--optimizer.lr=3e-3 --model.dropout=0.1)

# --- the same bits as in one run, without repeating any setting ---
code 0 "$LEVIN" train tiny.yaml "${rate[@]}" --run_dir=one --trainer.max_steps=16
code 0 "$LEVIN" train tiny.yaml "${rate[@]}"
code 0 "$LEVIN" train tiny --resume --trainer.max_steps=12 # by its name
says "settings differ from the run so far: trainer.max_steps: 8 -> 12" err
silent_about warning err
silent_about optimizer.lr err
mv runs/tiny moved
code 0 "$LEVIN" train ./moved/ --resume --trainer.max_steps=16 --json # by its folder, wherever that is now
json 'd["run_dir"] == "./moved" and d["step"] == 16'
check [ ! -e runs/tiny ]
same_run one moved
code 0 "$LEVIN" train "file://$PWD/moved" --resume
says "nothing to do" out
code 0 "$LEVIN" train moved --resume --show-settings
grep -qE '^optimizer.lr +0.003 +moved/settings.yaml:[0-9]+$' out
grep -qE '^run_dir +moved +command line$' out

# --- differences are listed; a key that is missing now is listed with a warning ---
code 0 "$LEVIN" train tiny.yaml --run_dir=moved --resume --model.dropout=0.1 --trainer.max_steps=20 --quiet
says "warning: settings differ from the run so far: optimizer.lr: 0.003 -> 0.01; trainer.max_steps: 16 -> 20 (\`levin train moved --resume\` continues with the old ones)" err
check [ "$(wc -l <err)" = 1 ]
code 0 "$LEVIN" train tiny.yaml --run_dir=moved --resume --model.dropout=0.1 --trainer.max_steps=20
silent_about "settings differ from the run so far" err # from now on it is the run's setting
# for a value that follows from a key of the command line there is no hint how to continue with the old one
cp -r moved parts
code 0 "$LEVIN" train parts --resume --trainer.accumulate_grad_batches=2 --trainer.max_steps=21
says "trainer.micro_batch_size: 0 -> 2" err
silent_about "continues with the old ones" err

# --- the learning rate of a run that continues: that of a plan for all its steps, and said before and after ---
grep -v max_steps tiny.yaml >plain.yaml
echo "trainer:    {batch_size: 4, limit_train_batches: 4, val_check_interval: 0}" >>plain.yaml
rate_of() { python3 -c 'import csv,sys; print(*(r["lr"] for r in csv.DictReader(open(sys.argv[1] + "/metrics.csv")) if r["step"] == sys.argv[2]))' "$1" "$2"; }
rates() { # rates RUN PLAN-OPTION...: the rates of steps 8 and 9 are those of the run so far and of the plan
    local run=$1 before after
    shift
    code 0 "$LEVIN" plan plain.yaml --schedule "$@"
    before=$(rate_of begun 8) after=$(rate_of "$run" 9)
    python3 -c 'import sys; plan, lr = sys.argv[1:]; assert abs(float(plan) - float(lr)) <= 1e-8 * float(plan), sys.argv' \
        "$(awk '$1 == 8 { print $2 }' out)" "$after"
    reported=$(python3 -c 'import sys; print("the learning rate was %.3g at step 8 and is %.3g at step 9" % (float(sys.argv[1]), float(sys.argv[2])))' "$before" "$after")
}
for kind in "constant" "linear" "cosine" "exponential --schedule.min_lr=1e-5" "wsd --schedule.wsd_decay_steps=0.5"; do
    read -ra schedule <<<"--schedule.kind=$kind"
    # the end follows trainer.max_steps, from the run's own settings and from a recipe
    rm -rf begun epochs
    code 0 "$LEVIN" train plain.yaml --run_dir=begun "${schedule[@]}" --trainer.max_steps=8 --quiet
    silent_about warning err
    lacks "  decay_steps: 8" begun/settings.yaml # what follows from max_steps is not recorded
    for from in own recipe; do
        rm -rf next
        cp -r begun next
        operand=(next)
        [ "$from" = own ] || operand=(plain.yaml --run_dir=next "${schedule[@]}")
        code 0 "$LEVIN" train "${operand[@]}" --resume --trainer.max_steps=16 --quiet
        mv err said
        rates next "${schedule[@]}" --trainer.max_steps=16
        if [ "$kind" = constant ]; then
            silent_about "learning rate" said
        else
            says "warning: $reported, because the schedule has changed: it is ${kind%% *} to step 16 and was ${kind%% *} to step 8" said
        fi
    done
    # it follows trainer.max_epochs in the same way, also if trainer.max_steps is later
    code 0 "$LEVIN" train plain.yaml --run_dir=epochs "${schedule[@]}" --trainer.max_epochs=2 --trainer.max_steps=1000 --quiet
    code 0 "$LEVIN" train epochs --resume --trainer.max_epochs=4 --quiet
    mv err said
    rates epochs "${schedule[@]}" --trainer.max_steps=16
    [ "$kind" = constant ] || says "warning: $reported, because the schedule has changed" said
    [ "$kind" != constant ] || continue
    # an end that was given stays; if no step could change anything, refused
    rm -rf recorded given
    code 0 "$LEVIN" train plain.yaml --run_dir=recorded "${schedule[@]}" --trainer.max_steps=8 --schedule.decay_steps=8 --quiet
    cp -r recorded given
    if [[ $kind == exponential* ]]; then
        code 0 "$LEVIN" train given --resume --trainer.max_steps=16 --quiet
        mv err said
        rates given "${schedule[@]}" --trainer.max_steps=16 --schedule.decay_steps=8
        says "warning: $reported, where it stays (schedule.min_lr), because schedule.decay_steps is 8" said
        continue
    fi
    code 2 "$LEVIN" train given --resume --trainer.max_steps=16
    one_error
    says "and is 0 at step 9 and in all later ones, because schedule.decay_steps is 8: further steps would change nothing" err
    code 0 "$LEVIN" train given --resume --trainer.max_steps=16 --schedule.decay_steps=12 --quiet
    says "warning: the learning rate is 0 from step 13 on, because schedule.decay_steps is 12" err
    rm -r given
    cp -r recorded given
    code 0 "$LEVIN" train given --resume --trainer.max_steps=16 --schedule.decay_steps=0 --quiet
    mv err said
    rates given "${schedule[@]}" --trainer.max_steps=16
    says "$reported" said
done
# a run that ended in its tail of rate 0 as planned resumes without a word
code 0 "$LEVIN" train plain.yaml --run_dir=tail --schedule.kind=linear --schedule.decay_steps=4 --trainer.max_steps=12 --checkpoint.every_n_steps=8 --quiet
says "warning: the learning rate is 0 from step 5 on, because schedule.decay_steps is 4" err
rm -r tail/checkpoints/*12 tail/checkpoints/last
code 0 "$LEVIN" train tail --resume --quiet
silent_about "learning rate" err
# keys that a constant rate ignores
code 0 "$LEVIN" train plain.yaml --run_dir=flat --schedule.kind=constant --schedule.min_lr=1e-5 --trainer.max_steps=2 --quiet
says "warning: schedule.min_lr has no effect, because schedule.kind is constant" err
# a warm-up that the run does not end
code 0 "$LEVIN" train plain.yaml --run_dir=short --schedule.warmup_steps=4 --trainer.max_steps=4 --quiet
says "warning: the learning rate rises for 4 steps (schedule.warmup_steps) and the run ends at step 4, so no step has optimizer.lr" err
code 0 "$LEVIN" train plain.yaml --run_dir=short --schedule.warmup_steps=3 --trainer.max_steps=4 --quiet --overwrite
silent_about "learning rate" err
# the default limit of one epoch is not a limit of the run
for _ in 1 2 3 4 5; do echo "the more it snows, tiddely pom, the more it goes on snowing"; done >pom.txt
sed 's/, max_steps: 8//' tiny.yaml >endless.yaml
code 0 "$LEVIN" train endless.yaml --name=epoch --data.path=pom.txt --json
json 'd["step"] < 100'
code 0 "$LEVIN" train epoch --resume --trainer.max_steps=100 --json
json 'd["step"] == 100'

# --- variables are for new runs ---
code 0 env LEVIN_OPTIMIZER_LR=7 "$LEVIN" train epoch --resume --trainer.max_steps=101
says "warning: LEVIN_OPTIMIZER_LR is ignored, because a run continues with its own settings; give --optimizer.lr instead" err
says "  lr: 0.01" runs/epoch/settings.yaml
lacks "lr: 7" runs/epoch/settings.yaml

# --- nothing to resume from ---
code 0 "$LEVIN" train tiny.yaml --name=new --resume
check [ "$(grep -c "^warning: no checkpoint in 'runs/new' to resume from; starting from the beginning$" err)" = 1 ]
code 0 "$LEVIN" train tiny.yaml --name=new --resume
silent_about "starting from the beginning" err

# a change of the rate alone
code 0 "$LEVIN" train plain.yaml --run_dir=slower --schedule.kind=cosine --trainer.max_steps=8 --schedule.decay_steps=16 --quiet
code 0 "$LEVIN" train slower --resume --trainer.max_steps=12 --optimizer.lr=2e-3
says ", because optimizer.lr or another key of the rate has changed" err

# --- from an earlier step: the later checkpoints are moved away ---
code 0 "$LEVIN" train tiny.yaml --run_dir=back --trainer.max_steps=16 --checkpoint.top_k=-1
mv back/checkpoints/step-1[26] .
code 0 "$LEVIN" train back --resume --json
json 'd["step"] == 16'
says "continuing after step 8 from back/checkpoints/step-8" err

# --- refused ---
refused() { # sentence, arguments of train
    local sentence=$1
    shift
    code 2 "$LEVIN" train "$@"
    one_error
    says "$sentence" err
}
mkdir empty
refused "there is no run 'nowhere', nor 'runs/nowhere'" nowhere --resume
refused "'empty' is a folder, not a recipe, and holds no run to continue (settings.yaml is missing)" empty --resume
refused "'runs/new/checkpoints/last' is a checkpoint, and a run continues from its newest one" runs/new/checkpoints/last --resume
refused "'runs/new' is a folder, not a recipe: \`levin train runs/new --resume\` continues the run in it" runs/new
refused "'runs/new' is the run to continue, and --run_dir names another folder" new --resume --run_dir=x
refused "model.n_embd is 32 here but was 16 in the run" new --resume --model.n_embd=32
refused 'model.freeze is wte here but was "" in the run' new --resume --model.freeze=wte
refused "did you mean 'optimizer.lr'" new --resume --optimizer.lrr=1
check [ ! -e nowhere ]
check [ ! -e x ]

# --- a batch that is given for each device ---
code 0 "$LEVIN" train tiny.yaml --name=each --trainer.batch_size=0 --trainer.batch_size_per_device=4
code 0 "$LEVIN" train each --resume --trainer.max_steps=12
code 0 "$LEVIN" train tiny.yaml --name=each --trainer.batch_size=0 --trainer.batch_size_per_device=4 --resume --trainer.max_steps=16
refused "trainer.batch_size is 8 here but was 4 in the run" each --resume --trainer.batch_size_per_device=8
