# wheel.bash - installs a wheel in fresh environments. Sourced by wheel.sh and wheel_manylinux.sh.
. "$LEVIN_SOURCE/tests/cli/common.bash"

# install_wheel WHEEL: in an environment of every Python that is here, with no compiler on PATH, the program trains, and the
# package, which needs numpy alone, finds its library.
install_wheel() {
    local python at on tried=0
    for _ in $(seq 200); do echo "the cat sat on the mat, and the dog on the log"; done >text.txt
    for python in python3.9 python3.10 python3.11 python3.12 python3.13 python3.14; do
        for at in "$(command -v $python)" "$HOME"/.pyenv/versions/*/bin/$python; do
            [ -x "$at" ] && "$at" -c 'import ensurepip, venv' 2>/dev/null && break
        done || continue
        "$at" -m venv --system-site-packages $python >/dev/null || continue
        $python/bin/python -m pip install -q --disable-pip-version-check --no-index --no-deps "$1"
        on=(env -i PATH="$PWD/$python/bin" HOME="$PWD" OMP_NUM_THREADS=2)
        check [ "$("${on[@]}" levin --version)" = "$("$LEVIN" --version)" ]
        "${on[@]}" levin train text.txt --model.n_layer=1 --model.n_head=1 --model.n_embd=16 --model.block_size=16 \
            --trainer.max_steps=3 --run_dir="$python/run" >out 2>err || fail "$python: $(cat err)"
        tried=$((tried + 1))
        "${on[@]}" python -c 'import numpy' 2>/dev/null || continue
        check [ "$("${on[@]}" python -c 'import levin; print("levin", levin.__version__)')" = "$("$LEVIN" --version)" ]
        "${on[@]}" python -c 'import levin; print(levin._door.lib._name)' >out
        says "$PWD/$python/" out
    done
    [ $tried -gt 0 ] || { echo "skipped: no Python that makes environments is here" && exit 77; }
}
