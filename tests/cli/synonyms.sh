# Options and commands of other programs: levin does not accept them, and names its own.
. "$LEVIN_SOURCE/tests/cli/common.bash"

refused_with() { # refused_with TEXT WORD COMMAND...: the command refuses WORD, and says TEXT
    local text=$1 word=$2
    shift 2
    code 2 "$LEVIN" "$@" "$word"
    one_error
    says "unknown option '${word%%=*}'; $text" err
    silent_about "did you mean" err
}
refused_with "levin calls it --optimizer.lr" --learning_rate=1e-3 train
refused_with "levin calls it --optimizer.lr" --learning-rate=1e-3 train
refused_with "levin calls it --trainer.batch_size_per_device" --per_device_train_batch_size=8 train
refused_with "levin calls it --trainer.accumulate_grad_batches; " --gradient_accumulation_steps=8 train
refused_with "levin calls it --schedule.warmup_steps; a number below 1 is a share" --warmup_ratio=0.1 train
refused_with "levin calls it --trainer.precision=16-mixed" --fp16 train
refused_with "levin calls it --run_dir" --output_dir=x train
refused_with "levin calls it --trainer.max_steps; steps of trainer.batch_size" --max_tokens=9 train
refused_with "levin calls it --max-new-tokens" --max_tokens=9 generate model
refused_with "levin calls it --model.block_size; for texts with labels" --cutoff_len=512 train
refused_with "levin calls it --trainer.batch_size; it counts sequences, not tokens" --total_batch_size=524288 train
refused_with "levin calls it --out" --output_dir=x prepare
refused_with "levin calls it --resume" --resume_from_checkpoint train
refused_with "levin calls it --max-new-tokens; " --max_length=9 generate model
refused_with "levin calls it -n" --num_processes=2 launch
refused_with "\`levin launch -n RANKS -- train ...\` starts several ranks" --num_processes=2 train
refused_with "levin calls it --nodes; with --node-rank" --nnodes=2 launch
refused_with "levin calls it --trainer.num_nodes; it is only checked" --nnodes=2 train
refused_with "levin export expects it as an operand: levin export MODEL OUT" --out=x export model
refused_with "levin generate prints its results: append \`> FILE\` to the command to save them" --out=x generate model
code 2 "$LEVIN" launch -np 2 -- train
says "unknown option '-np'; did you mean '-n'?" err
refused_with "levin reads the hub and does not write there" --push_to_hub train

# Flags and commands that the table names exist (test_synonyms checks its keys).
python3 - "$LEVIN_SOURCE/src/run/settings/synonyms.def" >words <<'PY'
import re, sys
text = open(sys.argv[1]).read()
for word, target in re.findall(r'LVN_SYNONYM\("([^"]+)",\s*"([^"]*)"', text):
    if target.startswith("-"): print("flag", word, target)
for word, target in re.findall(r'LVN_SYNONYM_COMMAND\("([^"]+)",\s*"([^"]*)"', text):
    print("command", word, target or "-")
PY
"$LEVIN" help --completion bash >completion
for flag in $(grep '^flag' words | cut -d' ' -f3 | sort -u); do grep -qwF -- "$flag" completion || fail "no command has $flag"; done
"$LEVIN" help >commands
check grep -q '^.\{12\}prepare ' commands
grep '^command' words | while read -r _ word command; do
    code 2 "$LEVIN" "$word"
    one_error
    if [ "$command" = - ]; then
        says "unknown command '$word'; " err
    else
        says "unknown command '$word'; levin calls it \`levin $command\`" err
        "$LEVIN" help "$command" >/dev/null
    fi
    if grep -q "^.\{12\}$word " commands; then fail "$word is also a command of levin"; fi
done

# Recipes: the same words, with the line; a part without a key.
cat >recipe.yaml <<'YAML'
learning_rate: 1e-3
trainer:
  num_train_epochs: 3
  bf16: true
optimizer: adamw
resume_from: runs/x
YAML
code 2 "$LEVIN" train recipe.yaml
for text in "recipe.yaml:1: unknown key 'learning_rate'; levin calls it optimizer.lr" \
    "recipe.yaml:3: unknown key 'trainer.num_train_epochs'; levin calls it trainer.max_epochs" \
    "recipe.yaml:4: unknown key 'trainer.bf16'; levin calls it trainer.precision: bf16-mixed" \
    "recipe.yaml:5: 'optimizer' is a part, not a key: set its keys, as in optimizer.kind (\`levin help optimizer\` lists them)" \
    "recipe.yaml:6: unknown key 'resume_from'; levin calls it --resume"; do
    says "$text" err
done
code 2 "$LEVIN" train --model=gpt2
says "as in model.init (" err
code 2 "$LEVIN" train --nothing=2
says "unknown option '--nothing'; \`levin help train\` lists the options of the command, \`levin help options\` the keys" err
