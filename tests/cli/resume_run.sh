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
says "other settings than in the run so far: trainer.max_steps: 8 -> 12" err
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
says "warning: other settings than in the run so far: optimizer.lr: 0.003 -> 0.01; trainer.max_steps: 16 -> 20 (\`levin train moved --resume\` continues with the old ones)" err
check [ "$(wc -l <err)" = 1 ]
code 0 "$LEVIN" train tiny.yaml --run_dir=moved --resume --model.dropout=0.1 --trainer.max_steps=20
silent_about "other settings than in the run so far" err # from now on it is the run's setting
# the end of a schedule moves with the steps, unless the run's own settings say where it is
code 0 "$LEVIN" train tiny.yaml --name=cosine --schedule.kind=cosine
cp -r runs/cosine runs/other
code 0 "$LEVIN" train tiny.yaml --name=cosine --schedule.kind=cosine --resume --trainer.max_steps=12
says "warning: other settings than in the run so far: schedule.decay_steps: 8 -> 12; trainer.max_steps: 8 -> 12" err
code 0 "$LEVIN" train other --resume --trainer.max_steps=12
silent_about schedule err
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
silent_about "lr: 7" runs/epoch/settings.yaml

# --- nothing to resume from ---
code 0 "$LEVIN" train tiny.yaml --name=new --resume
check [ "$(grep -c "^warning: there is no checkpoint in 'runs/new' to continue from: starting from the beginning$" err)" = 1 ]
code 0 "$LEVIN" train tiny.yaml --name=new --resume
silent_about "starting from the beginning" err

# --- refused ---
refused() { # sentence, arguments of train
    local sentence=$1
    shift
    code 2 "$LEVIN" train "$@"
    one_error
    says "$sentence" err
}
mkdir empty
refused "there is no recipe 'nowhere', and no run 'nowhere' or 'runs/nowhere' to continue" nowhere --resume
refused "'empty' is a folder, not a recipe, and holds no run to continue (settings.yaml is missing)" empty --resume
refused "'runs/new' is a folder, not a recipe: \`levin train runs/new --resume\` continues the run in it" runs/new
refused "'runs/new' is the run to continue, and --run_dir names another folder" new --resume --run_dir=x
refused "model.n_embd is 32 here and was 16 in the run" new --resume --model.n_embd=32
refused "did you mean 'optimizer.lr'" new --resume --optimizer.lrr=1
check [ ! -e nowhere ]
check [ ! -e x ]

# --- a batch that is given for each device ---
code 0 "$LEVIN" train tiny.yaml --name=each --trainer.batch_size=0 --trainer.batch_size_per_device=4
code 0 "$LEVIN" train each --resume --trainer.max_steps=12
code 0 "$LEVIN" train tiny.yaml --name=each --trainer.batch_size=0 --trainer.batch_size_per_device=4 --resume --trainer.max_steps=16
refused "trainer.batch_size is 8 here and was 4 in the run" each --resume --trainer.batch_size_per_device=8
