# wheel.sh - tools/make_wheel, python/build_levin.py: the wheel is for glibc 2.17, brings its libraries, has the same bytes
# twice, and works in fresh environments of every Python that is here, with no compiler on PATH.
# label: long (ten minutes of one core where ccache knows nothing, then half a minute)
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the wheel that is tested is for x86_64" && exit 77; }
[ -x "$LEVIN_SOURCE/parts/zig/ziglang/zig" ] || python3 -c 'import ziglang' 2>/dev/null ||
    { echo "skipped: no ziglang here (tools/setup.sh --dev installs it)" && exit 77; }
WHEEL_FOLDER=$PWD/dist "$LEVIN_SOURCE/tools/make_wheel" x86_64 >build.log 2>&1 || { tail -n 30 build.log && exit 1; }
wheel=$(echo dist/*-py3-none-manylinux2014_x86_64.whl)
check [ -f "$wheel" ]
python3 -m zipfile -e "$wheel" files
program=$(echo files/*.data/scripts/levin) library=files/levin/lib/liblevin.so
for name in LICENSE jansson.LICENSE libyaml.LICENSE uplot.LICENSE; do check [ -s files/*.dist-info/licenses/$name ]; done
check [ "$(stat -c %s "$program")" -lt 6000000 ]

# what the loader will look for: the C library alone, and nothing in it that 2.17 lacks
for file in "$program" "$library"; do
    objdump -p "$file" | sed -n 's/^ *NEEDED *//p' >needed
    check [ -s needed ]
    check [ -z "$(grep -vE '^(lib(c|m|dl|rt|pthread)\.so\.[0-9]+|ld-linux-x86-64\.so\.2)$' needed)" ]
    newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
    check [ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -1)" = GLIBC_2.17 ]
done

# the same bytes again
built=$LEVIN_SOURCE/build-wheel/x86_64
SOURCE_DATE_EPOCH=$(git -C "$LEVIN_SOURCE" log -1 --format=%ct 2>/dev/null || echo 315532800) python3 "$LEVIN_SOURCE/python/build_levin.py" \
    --tag manylinux2014_x86_64 --build "$built/build" --parts "$built/parts" --out again >/dev/null
cmp "$wheel" again/*.whl

for i in $(seq 200); do echo "the cat sat on the mat, and the dog on the log"; done >text.txt
tried=0
for python in python3.9 python3.10 python3.11 python3.12 python3.13 python3.14; do
    for at in "$(command -v $python)" "$HOME"/.pyenv/versions/*/bin/$python; do
        [ -x "$at" ] && "$at" -c 'import venv' 2>/dev/null && break
    done || continue
    "$at" -m venv $python >/dev/null || continue
    $python/bin/python -m pip install -q --disable-pip-version-check --no-index --no-deps "$wheel"
    on=(env -i PATH="$PWD/$python/bin" HOME="$PWD" OMP_NUM_THREADS=2)
    check [ "$("${on[@]}" levin --version)" = "$("$LEVIN" --version)" ]
    "${on[@]}" levin train text.txt --model.n_layer=1 --model.n_head=1 --model.n_embd=16 --model.block_size=16 --trainer.max_steps=3 \
        --run_dir="$python/run" >out 2>err || fail "$python: $(cat err)"
    # numpy is all that the package needs; it comes from the index
    if $python/bin/python -m pip install -q --disable-pip-version-check numpy 2>/dev/null; then
        check [ "$("${on[@]}" python -c 'import levin; print("levin", levin.__version__)')" = "$("$LEVIN" --version)" ]
    fi
    tried=$((tried + 1))
done
check [ $tried -gt 0 ]
