# wheel.bash - installs a wheel in fresh environments. Sourced by wheel.sh and wheel_manylinux.sh.
. "$LEVIN_SOURCE/tests/cli/common.bash"

# The interpreters that are here and can make environments, oldest first.
pythons() {
    local version at
    for version in 3.9 3.10 3.11 3.12 3.13 3.14; do
        for at in "$(command -v python$version)" "$HOME"/.pyenv/versions/*/bin/python$version; do
            [ -x "$at" ] && "$at" -c 'import ensurepip, venv' 2>/dev/null && echo "$at" && break
        done
    done
}

# install_wheel WHEEL PYTHON...: in an environment of each, with no compiler on PATH, the program trains, and the package, which
# needs numpy alone, finds its library and its program.
install_wheel() {
    local wheel=$1 python folder on
    shift
    [ $# -gt 0 ] || { echo "skipped: no Python that makes environments is here" && exit 77; }
    for _ in $(seq 200); do echo "the cat sat on the mat, and the dog on the log"; done >text.txt
    for python; do
        folder=$(basename "$python")
        "$python" -m venv --system-site-packages "$folder" >/dev/null
        "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-index --no-deps "$wheel"
        on=(env -i PATH="$PWD/$folder/bin" HOME="$PWD" OMP_NUM_THREADS=2)
        check [ "$("${on[@]}" levin --version)" = "$("$LEVIN" --version)" ]
        "${on[@]}" levin train text.txt --model.n_layer=1 --model.n_head=1 --model.n_embd=16 --model.block_size=16 \
            --trainer.max_steps=3 --run_dir="$folder/run" >out 2>err || fail "$python: $(cat err)"
        "${on[@]}" levin plan recipes/llama-124m.yaml >out 2>err || fail "$python: $(cat err)" # one that comes with levin
        says "'recipes/llama-124m.yaml' is not in the current folder: using the recipe that comes with levin" err
        "${on[@]}" python -c 'import numpy' 2>/dev/null || continue
        check [ "$("${on[@]}" python -c 'import levin; print("levin", levin.__version__)')" = "$("$LEVIN" --version)" ]
        "${on[@]}" python -c 'from levin import _library; print(_library.find_library(), _library.find_program())' >out
        check [ "$(grep -o "$PWD/$folder/" out | wc -l)" = 2 ]
        check [ "$("${on[@]}" python -m levin --version)" = "$("$LEVIN" --version)" ]
        "${on[@]}" python -c 'import levin; print(levin.Run("recipes/llama-124m.yaml").settings.source("model.n_layer"))' >out
        says "$folder/share/levin/recipes/llama-124m.yaml:" out
    done
}
