# The program itself: version, help, exit codes, one JSON object in every case.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"

code 0 "$LEVIN" --version
grep -qE '^levin [0-9]+\.[0-9]+\.[0-9]+$' out
code 0 "$LEVIN" --version --json
json '"version" in d'
code 2 "$LEVIN"
says "usage: levin COMMAND" out
for word in help --help -h; do
    code 0 "$LEVIN" $word
    says "usage: levin COMMAND" out
done
code 2 "$LEVIN" trian
says "error: unknown command 'trian'" err
code 2 "$LEVIN" helpp
says "did you mean 'help'?" err
[ ! -s out ]
code 2 "$LEVIN" doctor --jsn
says "error: unknown option '--jsn'; did you mean '--json'?" err
code 2 "$LEVIN" doctor -x
says "options start with two dashes" err
code 2 "$LEVIN" doctor more
says "error: levin doctor takes no operands" err
code 2 "$LEVIN" doctor --trainer.sed=1
says "error: unknown key 'trainer.sed'; did you mean 'trainer.seed'?" err
code 2 "$LEVIN" doctor --lr=1
says "did you mean '--optimizer.lr'?" err
code 2 "$LEVIN" train --lora.r=4
says "unknown key 'lora.r'; levin calls it lora.rank" err
for word in --eval_steps=5 --device=cuda; do # words of other programs; similar to one of levin's is not the same
    code 2 "$LEVIN" train $word
    says "unknown option '${word%=*}'; levin calls it --trainer." err
    silent_about "did you mean" err
done
code 2 "$LEVIN" doctor --trainer.seed
says "error: --trainer.seed needs a value, as in --trainer.seed=VALUE" err
code 0 "$LEVIN" doctor --json --measure=yes --measure=no --json # the last one counts, as everywhere
json '"threads" in d'
code 2 "$LEVIN" doctor --jsn --trainer.sed=1 --nothing=2 --measure=maybe
one_error
for text in "'--jsn'; did you mean '--json'?" "'trainer.sed'; did you mean 'trainer.seed'?" "'--nothing'" "got 'maybe'"; do
    says "$text" err
done
code 2 "$LEVIN" doctor --json --measure=maybe
says "error: --measure must be true or false, got 'maybe'" err
json 'd["error"].startswith("--measure must be")'
code 2 "$LEVIN" nothing --json
json '"error" in d'
code 0 "$LEVIN" doctor --json --measure=false
json 'd["threads"] >= 1 and d["cores"] >= 1 and d["memory_bytes"] > 0 and isinstance(d["findings"], list)'
code 0 "$LEVIN" doctor
says "matrix products" out
OMP_NUM_THREADS=3 code 0 "$LEVIN" doctor --json --measure=no
json 'd["threads"] == 3 and d["threads_from"] == "OMP_NUM_THREADS"'
LEVIN_ISA=generic code 0 "$LEVIN" doctor --json --measure=no
json 'd["instructions"] == "generic"'

for word in help doctor options model optimizer.lr; do
    code 0 "$LEVIN" help $word
    [ -s out ]
    code 0 "$LEVIN" help $word --json
    json 'd["text"]'
done
# Help of each command ends with examples: of that command, with existing options only.
code 0 "$LEVIN" help --completion bash
cp out completion
for command in $("$LEVIN" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    code 0 "$LEVIN" help "$command"
    grep -E "^    .*levin $command( |$)" out >examples || [ "$command" = doctor ] || fail "levin help $command shows no example"
    for option in $(grep -oE -- '--[a-z_.-]+' examples); do
        grep -qE -- "[ ']$option=?[ ']" completion || fail "levin help $command: there is no $option"
    done
done
code 0 "$LEVIN" help tokenizer train
says "usage: levin tokenizer train" out
code 2 "$LEVIN" help tokenizer untrain
says "'untrain' is no part of 'tokenizer'" err
code 2 "$LEVIN" help train optimizer.lr extra
code 2 "$LEVIN" train
says "levin train wants something to train: a recipe (levin train recipes/demo.yaml)" err
code 0 "$LEVIN" train --show-settings
printf 'name: a\nmodel:\n\tkind: gpt2\n' >tab.yaml
code 2 "$LEVIN" train tab.yaml
says "tab.yaml:3: a tab indents this line, and YAML takes spaces alone" err
code 0 "$LEVIN" doctor --help
says "usage: levin doctor" out
code 2 "$LEVIN" help optimizer.lrr
says "did you mean 'optimizer.lr'?" err
code 2 "$LEVIN" help learning_rate
says "there is no help on 'learning_rate'; levin calls it optimizer.lr" err
if [ -w /dev/full ]; then
    got=0
    "$LEVIN" help options >/dev/full 2>err || got=$?
    [ "$got" = 1 ]
    says "standard output cannot be written" err
fi
