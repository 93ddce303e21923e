# The commands of README.md, then of docs/c-library.md, in order, in a folder like a fresh clone: each must end with 0, and read
# the output of the previous one.
# label: user
# label: computes
#
# Downloads and the user's files are replaced by small local ones; training runs get fewer steps. Commands that install
# packages are left out.
. "$LEVIN_SOURCE/tests/cli/common.bash"
build=$(dirname "$LEVIN")
[ -f "$build/cmake_install.cmake" ] || { echo "skipped: $LEVIN is not in its build folder"; exit 77; }
export HOME=$PWD/home HF_HOME=$PWD/cache HF_HUB_OFFLINE=1
mkdir home data my-texts
ln -s "$build" build
cp -r "$LEVIN_SOURCE/recipes" "$LEVIN_SOURCE/examples" .
PATH=$PWD/build:$PATH # as pip installs it

# Replacements of a user's files and downloads: a text, a folder of texts, Shakespeare, reviews, GPT-2 in the hub's cache.
text=$LEVIN_SOURCE/docs/design.md
cp "$text" my.txt
(cat "$text" && echo "O God, O God!") >data/tinyshakespeare.txt
cp "$text" my-texts/one.txt
cp "$LEVIN_SOURCE/CONTRIBUTING.md" my-texts/two.txt
{
    echo 'text,label'
    for i in $(seq 200); do printf 'as good as it gets %d,pos\nboring and too long %d,neg\n' "$i" "$i"; done
} >reviews.csv
hub=cache/hub/models--openai-community--gpt2
mkdir -p $hub/refs $hub/snapshots
printf 0123abc >$hub/refs/main
code 0 "$LEVIN" tokenizer train --vocab-size=300 --input="$text" --out=words
code 0 "$LEVIN" prepare "$text" --tokenizer=words --out=tokens
code 0 "$LEVIN" train tokens --model.kind=gpt2 --model.n_layer=1 --model.n_head=2 --model.n_embd=16 --model.block_size=64 \
    --trainer.max_steps=1 --run_dir=tiny
cp -rL tiny/checkpoints/last $hub/snapshots/0123abc
rm -r tiny tokens words

levin() {
    case $1 in
    train) command levin "$@" --trainer.max_steps=$((steps += 2)) --trainer.limit_val_batches=1 ;;
    generate) command levin "$@" --max-new-tokens=20 ;;
    *) command levin "$@" ;;
    esac
}
make() { check [ "$1" = install ] && cmake --install build --prefix "${2#PREFIX=}"; }

# The commands among the lines of indented blocks, without the recipe that is shown and those that the table below leaves out.
python3 - "$LEVIN_SOURCE/README.md" "$LEVIN_SOURCE/docs/c-library.md" >commands <<'PY'
import re, sys
left_out = re.compile(r"git clone|make(?! install)|pip install|tools/setup.sh |\. \$HOME/levin-parts/")
for line in [line for page in sys.argv[1:] for line in open(page, encoding="utf-8")]:
    if line.startswith("    ") and not re.match(r"    [a-z]+: ", line) and not left_out.match(line[4:]):
        print(line[4:].rstrip())
PY
for word in export "levin train" "levin generate" "levin config" "levin predict" "make install" "cc "; do says "$word" commands; done
steps=0
while read -r command <&3; do
    case $command in
    "make install"*) command -v pkg-config >/dev/null && [ -z "${LVN_SANITIZE:-}" ] || break ;; # a sanitized library does not load
    esac
    eval "$command" >out 2>err || { echo "README.md or docs/c-library.md: $command"; cat out err; exit 1; }
done 3<commands

says "init: gpt2" runs/mine/settings.yaml
says "path: my.txt" runs/my-text/settings.yaml
