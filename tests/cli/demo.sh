# demo.sh - tools/demo with an existing program and three steps: a text, its tokens, a run, a sample and a picture.
# label: computes
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ -f "$(dirname "$LEVIN")/cmake_install.cmake" ] || { echo "skipped: $LEVIN is not in its build folder"; exit 77; }
mkdir -p tools build texts
cp "$LEVIN_SOURCE/tools/demo" tools/
cp -r "$LEVIN_SOURCE/recipes" "$LEVIN_SOURCE/docs" .
ln -s "$LEVIN" build/levin
printf '#!/bin/sh\nexit 0\n' >tools/setup.sh && chmod +x tools/setup.sh # nothing is missing
printf 'all:\n\t@true\n' >Makefile
demo() { bash tools/demo --trainer.max_steps=3 --trainer.limit_val_batches=1; }

cp "$LEVIN_SOURCE/LICENSE" texts/one
sed 's/^/   * /' "$LEVIN_SOURCE/CONTRIBUTING.md" >texts/two
DEMO_TEXTS=texts code 0 demo
says "letters of license texts" out
says "the loss curve: runs/demo/loss.svg" out
says "You may" out
check [ -s runs/demo/loss.svg ]
loss=$(sed -n 's/.*step 3, loss \([0-9.]*\),.*/\1/p' out)
check [ -n "$loss" ]
check [ "$(grep -c '^  *\*' data/demo/text.txt)" = 0 ] # the layout of the page is removed

# again, from the same texts in a folder that lists them in another order: the same loss
mkdir more && cp texts/two more && cp texts/one more
DEMO_TEXTS=more code 0 demo
says "step 3, loss $loss," out

# without these texts: the project's pages
DEMO_TEXTS=nowhere code 0 demo
says "letters of the project's pages" out
