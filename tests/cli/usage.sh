# The program itself: version, help, exit codes, one JSON object in every case.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"

code 0 "$LEVIN" --version
grep -qE '^levin [0-9]+\.[0-9]+\.[0-9]+$' out
code 0 "$LEVIN" --version --json
json '"version" in d'
code 2 "$LEVIN"
says "usage: levin COMMAND" out
[ "$(wc -l <out)" -le 25 ] || { echo "levin without a command prints more than 25 lines"; exit 1; }
# Every command but the internal launcher is listed.
commands=$(sed -n 's/^## levin \([a-z]*\).*/\1/p' "$LEVIN_SOURCE/docs/options.md")
for word in $commands; do
    [ "$word" = ranks ] || grep -q " $word  *[a-z]" out || { echo "levin does not list $word"; exit 1; }
done
code 0 "$LEVIN" help train
check [ "$(wc -L <out)" -le 100 ] # no terminal: 100 columns
python3 - "$LEVIN" <<'P'
import fcntl, os, pty, struct, subprocess, sys, termios
here, there = pty.openpty()
fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
text = subprocess.run([sys.argv[1], "help", "train"], stdout=subprocess.PIPE, stderr=there, text=True).stdout  # as with | less
assert max(map(len, text.splitlines())) < 80, text
P
code 0 "$LEVIN" help trainer.precision
says "  page     docs/options.md#trainerprecision" out
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
says "error: levin doctor accepts no operands" err
code 2 "$LEVIN" report $(seq 33)
says "error: levin report accepts 32 operands, but '33' was also given" err
for words in "export gpt2" cp\ a runs report config; do
    code 2 "$LEVIN" $words ""
    says "error: levin ${words%% *} was given an empty operand; it accepts " err
done
code 2 "$LEVIN" doctor --trainer.sed=1
says "error: unknown key 'trainer.sed'; did you mean 'trainer.seed'?" err
code 2 "$LEVIN" plan --lr=1
says "did you mean '--optimizer.lr'?" err
code 2 "$LEVIN" export gpt2 out --model.vocab_size=4096 --lora.base=x --trainer.precision=bf16-true # keys that a command does not use
says "--model.vocab_size has no effect on \`levin export\`: give --vocab-size instead; and --lora.base has no effect on \`levin export\`: give --base instead" err
says "--trainer.precision has no effect on \`levin export\`, which uses no keys of recipes: leave it out" err
code 2 "$LEVIN" chat gpt2 --data.template=gemma --sample.temperature=0
says "--data.template has no effect on \`levin chat\`: give --template instead; and --sample.temperature" err
code 2 "$LEVIN" launch -n 2 -- evaluate gpt2 --task.fresh_head=true
says "--task.fresh_head has no effect on \`levin evaluate\`: leave it out; \`levin help evaluate\` lists the keys that it uses" err
for words in "tokenize --data.template=x" "cp a b --data.sha256=00" "runs --data.path=x" "predict gpt2 --data.path=x" "doctor --trainer.precision=32" \
    "tokenizer train --data.path=x" "prepare x --optimizer.lr=1" "generate gpt2 --run_dir=x" "report x --name=y" "ls x --logger.csv=no"; do
    code 2 "$LEVIN" $words
    says "has no effect on \`levin ${words%% *}\`" err
done
code 0 "$LEVIN" help generate
says "Keys of recipes that this command uses (\`levin help KEY\` explains each):" out
says "trainer.fsdp_size" out
code 2 "$LEVIN" train --lora.r=4
says "unknown key 'lora.r'; levin calls it lora.rank" err
for word in --eval_steps=5 --device=cuda; do # names of other programs get their translation, not a spelling suggestion
    code 2 "$LEVIN" train $word
    says "unknown option '${word%=*}'; levin calls it --trainer." err
    silent_about "did you mean" err
done
code 2 "$LEVIN" doctor --trainer.seed
says "error: --trainer.seed needs a value, as in --trainer.seed=VALUE" err
code 0 "$LEVIN" doctor --json --measure=yes --measure=no --json # the last one is used, as for all options
json '"threads" in d'
code 2 "$LEVIN" doctor --jsn --trainer.sed=1 --nothing=2 --measure=maybe
one_error
for text in "'--jsn'; did you mean '--json'?" "'trainer.sed'; did you mean 'trainer.seed'?" "'--nothing'" "got 'maybe'"; do
    says "$text" err
done
code 2 "$LEVIN" doctor --json --measure=maybe
says "error: --measure must be true or false, got 'maybe'" err
json 'd["error"].startswith("--measure must be")'
for on in =1 =yes =on =TRUE "" " true"; do
    code 0 "$LEVIN" doctor --json$on --measure=no
    json True
done
for off in =0 =no " false" " no"; do
    code 0 "$LEVIN" doctor --json$off --measure=no
    check [ "$(head -c1 out)" != "{" ]
done
code 2 "$LEVIN" nothing --json
json '"error" in d'
code 0 "$LEVIN" doctor --json --measure=false
json 'd["threads"] >= 1 and d["cores"] >= 1 and d["memory_bytes"] > 0 and isinstance(d["findings"], list)'
code 0 "$LEVIN" doctor
says "matmul  " out
OMP_NUM_THREADS=3 code 0 "$LEVIN" doctor --json --measure=no
json 'd["threads"] == 3 and d["threads_from"] == "OMP_NUM_THREADS"'
OMP_NUM_THREADS=99999999999 code 0 "$LEVIN" doctor --json --measure=no
json 'd["threads_from"] != "OMP_NUM_THREADS"'
says "OMP_NUM_THREADS is not a whole number from 1 to 4096, and is ignored" out
printf 'to be or not to be, that is the question\n%.0s' {1..40} >threads.txt
threads() { # threads OMP_NUM_THREADS [keys]
    OMP_NUM_THREADS=$1 code 0 "$LEVIN" train --model.n_layer=1 --model.n_head=1 --model.n_embd=8 --model.block_size=8 --data.path=threads.txt \
        --trainer.fast_dev_run=true "${@:2}"
}
many=$((2 * $(nproc) + 1))
threads $many
says "warning: OMP_NUM_THREADS sets $many threads, but this process may use " err
threads 1 --trainer.threads=$many
says "warning: trainer.threads sets $many threads, but this process may use " err
for nonsense in 99999999999 abc -1; do
    threads $nonsense
    says "warning: OMP_NUM_THREADS must be between 1 and 4096, got '$nonsense'; it is ignored, and trainer.threads is " err
done
for threads in 1 1,2 ""; do
    threads "$threads"
    silent_about OMP_NUM_THREADS err
done
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
for command in $commands; do
    code 0 "$LEVIN" help "$command"
    grep -E "^    .*levin $command( |$)" out >examples || [ "$command" = doctor ] || fail "levin help $command shows no example"
    for option in $(grep -oE -- '--[a-z_.-]+' examples); do
        grep -qE -- "[ ']$option=?[ ']" completion || fail "levin help $command: there is no $option"
    done
done
code 0 "$LEVIN" help tokenizer train
says "usage: levin tokenizer train" out
code 2 "$LEVIN" help tokenizer untrain
says "'untrain' is not a part of 'tokenizer'" err
code 2 "$LEVIN" help train optimizer.lr extra
code 2 "$LEVIN" train
says "nothing to train: give a recipe (levin train recipes/demo.yaml)" err
code 0 "$LEVIN" train --show-settings
printf 'name: a\nmodel:\n\tkind: gpt2\n' >tab.yaml
code 2 "$LEVIN" train tab.yaml
says "tab.yaml:3: this line is indented by a tab, but YAML only allows spaces" err
code 0 "$LEVIN" doctor --help
says "usage: levin doctor" out
code 2 "$LEVIN" help optimizer.lrr
says "did you mean 'optimizer.lr'?" err
code 2 "$LEVIN" help learning_rate
says "there is no help on 'learning_rate'; levin calls it optimizer.lr" err
# a word that is not a topic: the keys and options of that name, otherwise those whose help mentions it
code 0 "$LEVIN" help lr
says "optimizer.lr" out
code 0 "$LEVIN" help resume
says "levin train --resume" out
code 0 "$LEVIN" help loss
says "checkpoint.monitor" out
code 2 "$LEVIN" help nonsense
says "there is no help on 'nonsense'" err

# a key without dashes, a text in place of --prompt, other names of commands and services
code 2 "$LEVIN" train trainer.max_steps=5
says "'trainer.max_steps=5' needs two dashes: --trainer.max_steps=5" err
code 2 "$LEVIN" generate RUN "a text"
says "a text is given as --prompt=TEXT" err
code 2 "$LEVIN" predict RUN "a text"
says "a text is given as --text=TEXT" err
code 2 "$LEVIN" tokenizer train reviews.txt
says "texts are given as --input=FILE_OR_FOLDER" err
code 2 "$LEVIN" list
says "levin calls it \`levin runs\`" err
code 2 "$LEVIN" train --wandb_project=mine
says "levin sends nothing to a service" err
if [ -w /dev/full ]; then
    got=0
    "$LEVIN" help options >/dev/full 2>err || got=$?
    [ "$got" = 1 ]
    says "standard output cannot be written" err
fi
